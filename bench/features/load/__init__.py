"""Requests that come from many: workers that serve from one queue, and the client that sends and times the requests."""
