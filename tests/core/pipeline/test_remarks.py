"""What a row says of its quality besides the figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.api import TensorSpec
from bench.api.fidelity import FidelityTask
from bench.api.names import TaskName
from bench.pipeline import remarks
from bench.pipeline.quality import BROKEN
from bench.plugins.view import ByFidelity
from support import records

FLOATS = TensorSpec(name="y", dtype="float32", shape=("batch", 3))
CLASSES = TensorSpec(name="class", dtype="int64", shape=("batch",))
IN_DB = "snr_db is worse than the reference's by 120.3 dB; at most 110 dB is allowed"


class Distance(FidelityTask):
    outputs = (FLOATS,)
    build = samples = None  # type: ignore[assignment]


def at_other_sizes(name: str, path: Path) -> ByFidelity:
    return ByFidelity(Labelled(name=name, path=path), TaskName(name))


class Classes(Distance):
    outputs = (FLOATS, CLASSES)


class Labelled(Distance):
    def metric_loss(self, metric: float, reference: float) -> float:
        return reference - metric


@pytest.mark.parametrize(
    ("snr_db", "error"),
    [
        (-0.3, "as large as the signal"),
        (6.0, "50.1 % of the signal"),
        (-6.0, "2 times as large as the signal"),
        (-120.0, "1,000,000 times as large as the signal"),
    ],
)
@pytest.mark.parametrize("kind", [Distance, at_other_sizes])
def test_an_error_is_told_beside_the_signal(kind: Callable[..., Any], snr_db: float, error: str) -> None:
    task = kind(name="mine", path=Path("task.py"))
    broken = records.quality(fidelity=BROKEN, reason=IN_DB, metric_loss=task.metric_loss(snr_db, 120.0))
    said = remarks.beside_signal(broken, task)
    assert said.reason == f"the error of its outputs is {error}; at most 31.6 % of it is allowed"
    assert remarks.beside_signal(said, task) == said, "a stored quality has it"


@pytest.mark.parametrize(
    ("kind", "reason", "lost"),
    [
        (Classes, IN_DB, 1.0),
        (Labelled, IN_DB, 1.0),
        (Distance, "output y has shape (1,); the reference has (2,)", 1.0),
        (Distance, "snr_db is worse than the reference's by nan dB; at most 110 dB is allowed", None),
        (Distance, "snr_db is worse than the reference's by 110.0002 dB; at most 110 dB is allowed", 10**-0.499999),
    ],
)
def test_other_reasons_stay(kind: type, reason: str, lost: float | None) -> None:
    broken = records.quality(fidelity=BROKEN, reason=reason, metric_loss=lost)
    assert remarks.beside_signal(broken, kind(name="mine", path=Path("task.py"))) == broken
