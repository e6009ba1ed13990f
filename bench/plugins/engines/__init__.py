"""Code that several plugins of one engine share."""
