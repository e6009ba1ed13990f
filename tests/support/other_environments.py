"""Environments of other packages, made without an installer."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

import numpy as np


def environment_with(place: Path, version: str, *, scale: float = 1.0) -> Path:
    """An environment with the packages of this one and a package `demo` of its own; returns the interpreter."""
    venv.create(place, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    (site / "shared.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    (site / "demo.py").write_text(f"SCALE = {scale}\n")
    facts = site / f"demo-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n")
    (facts / "RECORD").write_text("demo.py,,\n")
    return place / "bin" / "python"
