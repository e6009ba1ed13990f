"""Models of one's own: each kind of file in a module of its own, which only worker processes run."""
