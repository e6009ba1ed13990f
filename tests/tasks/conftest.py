"""The fixtures of tests that fetch models from a stand-in for the hub."""

from __future__ import annotations

from support.hub_fixtures import fetched as fetched
from support.hub_fixtures import hub as hub
