"""The operator that made a deployment slower, or wrong: with measured parts of the model, and a reproducer."""
