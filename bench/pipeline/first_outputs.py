"""Outputs of the first samples of a split, kept so that a verification to a stricter limit goes on where it stopped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bench.api import cache
from bench.api.errors import ArtifactError
from bench.pipeline.flow import Prepared
from bench.records.lines import Quality

MOST_BYTES = 8 << 20
"""Larger outputs are not kept: to run the first samples again costs less than the room on the disk."""
FILE = "outputs.npz"


def keep(value: Prepared, judged: Quality, judges: tuple[str, str], outputs: Path) -> None:
    """Keep the outputs of a part of the split, where they are small; of the whole split nothing is left to run.

    Args:
        value: the cell.
        judged: the quality of the outputs.
        judges: digests of the code that judged and of the reference.
        outputs: `.npz` file with the outputs in the drawn order of the split.
    """
    if judged.is_whole or not outputs.exists() or outputs.stat().st_size > MOST_BYTES:
        return

    def make(target: Path) -> dict[str, Any]:
        shutil.copyfile(outputs, target)
        return {}

    try:
        cache.obtain(_key(value, judged, judges), FILE, make)
    except OSError:  # a full disk: the first samples run again
        return


def of(value: Prepared, judged: Quality, judges: tuple[str, str]) -> Path | None:
    """The `.npz` file with the outputs that a stored quality tells of; None where they were not kept."""

    def make(target: Path) -> dict[str, Any]:
        raise ArtifactError("the outputs were not kept")

    if judged.is_whole:
        return None
    try:
        return cache.obtain(_key(value, judged, judges), FILE, make)[0]
    except (ArtifactError, OSError):
        return None


def _key(value: Prepared, judged: Quality, judges: tuple[str, str]) -> str:
    return cache.digest(["begun", value.key, *judges, judged.num_samples])
