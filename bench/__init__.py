"""Inferometer: which deployment of a trained model to ship on this machine, and how sure we are."""
