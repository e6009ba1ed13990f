"""One file for each format of a model that a user may bring."""
