"""The results as plots."""
