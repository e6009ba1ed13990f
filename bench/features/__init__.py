"""Features: each folder is whole, and nothing outside of it names it; see `bench.api.features`."""
