"""Tests of other folders that take a feature for granted: without its folder, they are skipped."""

from __future__ import annotations

import pytest

from bench.api import loading


def is_there(name: str) -> bool:
    """Whether the folder of a feature is there."""
    return (loading.PACKAGE / "features" / name / "__init__.py").is_file()


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a feature is not there."""
    return pytest.mark.skipif(not is_there(name), reason=f"the feature {name} is not there")
