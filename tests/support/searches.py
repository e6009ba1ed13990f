"""Stands in for what a search measures: designs, proposals, rows, and a sweep whose figures follow from a table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import Part
from bench.api.cell import Cell
from bench.features.search import search as searching
from bench.features.search.design import Choice, Design, design
from bench.features.search.effects import Tried
from bench.features.search.proposals import LATENCY, Proposal
from bench.pipeline.sweep_options import Options
from bench.records.rows import Row

BASE = Cell.from_path("net~tuning/torch/torch_onnx/raw/onnxruntime/cpu/b1t1")


RATIO = {(0, "d"): -0.1, (0, "s"): -0.3, (1, "d"): 0.05, (1, "s"): -0.2, (2, "d"): -0.05}


NOISE = {(0, "d"): 1e-4, (0, "s"): 4e-3, (1, "d"): 2e-5, (1, "s"): 1e-3, (2, "d"): 3e-3}


def part(name: str, alike: str, letters: str = "fds", num_weights: int = 100) -> Part:
    return Part(name=name, operator=alike, alike=alike, letters=letters, num_weights=num_weights)


def made() -> Design:
    parts = [part("a", "A"), part("b", "B"), part("c", "C", "fd"), part("d", "A")]
    return design(BASE, "mixed", parts)


def tried(choice: Choice, **more: float) -> Tried:
    keys = list(enumerate(choice))
    figures = {
        "ratio": 1 + sum(RATIO.get(key, 0) for key in keys),
        "noise": sum(NOISE.get(key, 0) for key in keys),
        "size_bytes": 1000 - 100 * sum(letter != "f" for letter in choice),
        **more,
    }
    return Tried(**{"choice": choice, "error": 0.002, "memory_bytes": None, **figures})  # type: ignore[arg-type]


def proposals() -> list[Proposal]:
    figures = [("fff", 1.0, 0.0), ("dff", 0.8, 1e-4), ("sff", 0.6, 4e-4), ("fsf", 0.7, 5e-4), ("ssf", 0.5, 5e-2)]
    found = [tried(tuple(choice), ratio=ratio, noise=noise) for choice, ratio, noise in figures]
    return [Proposal(design=made(), choice=one.choice, tried=one) for one in found]


def row(**more: object) -> Row:
    cell = BASE.path
    figures = {
        "cell": cell,
        "task": str(BASE.task),
        "source": "torch",
        "exporter": "torch_onnx",
        "variant": "raw",
        "runtime": "onnxruntime",
        "provider": "cpu",
        "batch": 1,
        "threads": 1,
        "status": "ok",
        "fidelity": "drifted",
        "metric_loss": 0.1,
        "size_bytes": 7,
        "ratio": 0.5,
        "ratio_low": 0.48,
        "ratio_high": 0.52,
    }
    return Row(**{**figures, **more})  # type: ignore[arg-type]


class Bed:
    """Stands in for a sweep and its store: what each choice would measure follows from `RATIO` and `NOISE`.

    Two parts of group 0 differ: the second one brings nine tenths of the noise of both.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, broken: Sequence[str] = ()) -> None:
        self.measured: list[str] = []
        self._broken = broken
        monkeypatch.setattr(searching, "Sweep", lambda *_: SimpleNamespace(run=self._run))
        monkeypatch.setattr(searching.folder, "stored", self._stored)
        monkeypatch.setattr(searching.time, "monotonic", lambda: float(len(self.measured)))

    def _run(self, cells: Sequence[Cell]) -> None:
        self.measured += [cell.path for cell in cells]

    def _stored(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(rows=[self._row(Cell.from_path(path)) for path in self.measured], records={})

    def _row(self, cell: Cell) -> Row:
        letters = "ffff"
        if cell.chain:
            spelled = cell.chain[-1].option
            letters = "".join(int(count or 1) * letter for count, letter in re.findall(r"(\d*)(\D)", spelled))
        a, b, c, d = letters
        noise = 0.1 * NOISE.get((0, a), 0) + 0.9 * NOISE.get((0, d), 0) + NOISE.get((1, b), 0) + NOISE.get((2, c), 0)
        ratio = 1 + (RATIO.get((0, a), 0) + RATIO.get((0, d), 0)) / 2 + RATIO.get((1, b), 0) + RATIO.get((2, c), 0)
        failed = any(cell.path.endswith(f"/mixed-{one}/onnxruntime/cpu/b1t1") for one in self._broken)
        fidelity = "broken" if failed else "drifted"
        figures = {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01, "fidelity": fidelity}
        return row(cell=cell.path, metric_loss=math.sqrt(noise), **figures)


def search_of(objective: str = LATENCY, earlier: searching.Outcome | None = None) -> searching.Search:
    more: list[Any] = [None, Options(), None, objective, lambda _: None, earlier]
    return searching.Search(made(), BASE, *more)


def go(search: searching.Search, *, ends_s: float = 1000.0) -> list[searching.Search]:
    """Run a search that was made before."""
    return searching.run([search.design], lambda *_: search, ends_s)
