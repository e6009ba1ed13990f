"""Fleets: a sweep on several machines, with Ray as the engine that places, watches and retries its work."""
