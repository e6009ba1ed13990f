"""What several plugins of one engine share."""
