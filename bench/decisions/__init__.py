"""What follows from stored and fresh measurements: pick, best, check. It never prints."""
