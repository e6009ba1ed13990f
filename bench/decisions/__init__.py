"""What follows from stored and fresh measurements: pick, best, compare, check, explain. It never prints."""
