"""The results as one HTML page."""
