"""Tests of other folders that take a feature for granted: without its folder, they are skipped."""

from __future__ import annotations

import pytest

from bench.api import loading


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a feature is not there."""
    there = (loading.PACKAGE / "features" / name / "__init__.py").is_file()
    return pytest.mark.skipif(not there, reason=f"the feature {name} is not there")
