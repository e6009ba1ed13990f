"""A place that knows how fast and how right variants are, and sweeps over them in waves."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure.blocks import Blocks, BlocksHere
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.subject import Subject
from bench.pipeline import sweeps
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.place import Begun
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.pipeline.waves import Wave
from bench.records.lines import SCHEMA, Failure, Header, Quality
from bench.records.metric_loss import Lost
from bench.records.store import Store
from support import records as made
from support.fake_blocks import Bench

NUM = 1000


def cell(variant: str, task: str = "toy") -> Cell:
    return Cell.from_path(f"{task}/null/native/{variant}/null/cpu/b1t1")


class FakePlace:
    """A place that notes its steps, and knows how many samples each variant loses of the first and of all.

    Args:
        bench: the fake blocks, whose variants it times.
        losses: by variant, the samples of the whole split that it loses.
        sizes: by variant, bytes of its file.
        ends: by variant, what comes of it where it runs more than the first samples: `broken` or `failed`.
        graphs: by variant, its graph, where others may have the same one.
    """

    def __init__(
        self,
        bench: Bench,
        losses: Mapping[str, int],
        sizes: Mapping[str, int],
        ends: Mapping[str, str],
        graphs: Mapping[str, str],
    ) -> None:
        self.steps: list[tuple[str, ...]] = []
        self._bench, self._losses, self._sizes, self._ends, self._graphs = bench, losses, sizes, ends, graphs

    @contextlib.contextmanager
    def lease(self) -> Iterator[None]:
        yield

    def skip_reasons(self, cells: Sequence[Cell]) -> list[str | None]:
        return [None] * len(cells)

    def prepare(self, cells: Sequence[Cell], limits: Limits, report: Callable[[Begun], None]) -> None:
        self.note("prepare", cells)
        for each in cells:
            key = each.variant.encode().hex().ljust(24, "0")
            artifact: Any = Artifact(
                path=Path(each.variant),
                format="null",
                sha256=each.variant,
                size_bytes=self._sizes.get(each.variant, 9),
                canonical=self._graphs.get(each.variant),
            )
            outcome = Prepared(cell=each, artifact=artifact, key=key)
            header = Header(schema=SCHEMA, key=key, cell=each.path, subject=("weights", None), artifact=artifact.facts)
            report(Begun(cell=each, header=header, outcome=outcome))

    def verify(
        self,
        cells: Sequence[Prepared],
        known: Mapping[str, Quality],
        limits: Limits,
        until: Until | None,
        report: Callable[[Sequence[Prepared], Verified | Failure], None],
    ) -> None:
        def is_enough(found: Quality) -> bool:
            return found.is_whole if until is None else until.is_met(found)

        missing = [value for value in cells if value.key not in known or not is_enough(known[value.key])]
        if missing:
            limit = "whole" if until is None else "first" if until.limit is None else f"until {until.limit}"
            self.note(f"verify {limit}", [value.cell for value in missing])
        for value in cells:
            end = self._ends.get(value.cell.variant) if until != Until() and value in missing else None
            if end == "failed":
                report([value], Failure(stage="verify", reason="it crashed"))
                continue
            found = self._quality(value.cell.variant, until) if value in missing else known[value.key]
            if end == "broken":
                found = replace(found, fidelity="broken", reason="it is broken", num_samples=UNSET)
            report([value], Verified.of(value, quality=found, inputs=Path("inputs")))

    def _quality(self, variant: str, until: Until | None) -> Quality:
        lost, whole = self._losses.get(variant, 0), until is None
        if until is not None and until.limit is not None:
            whole = bool(lost)
        num = NUM if whole else 64 if until is None or until.limit is None else 600
        points = tuple((row, 1.0) for row in range(lost if whole else 0))
        known = Lost(num_samples=num, score=0.9, most=1.0, points=points, of=UNSET if until is None else NUM)
        return replace(
            made.quality(judged_by="judge", reference_digest="reference", fidelity="drifted" if points else "close"),
            metric_loss=known.mean,
            lost=known,
            num_samples=UNSET if whole else num,
        )

    def subject(self, value: Verified) -> Subject:
        return made.subject(value.cell, key=value.key)

    def blocks(self) -> Blocks:
        return BlocksHere()

    def note(self, step: str, cells: Sequence[Cell]) -> None:
        self.flush()
        self.steps.append((step, *sorted(each.variant for each in cells)))

    def flush(self) -> None:
        """Note the variants of the blocks that have run since the last step."""
        if self._bench.blocks:
            self.steps.append(("time", *sorted({variant for block in self._bench.blocks for variant in block})))
            self._bench.blocks.clear()


class Told:
    """An observer that notes how many cells have been through all stages."""

    def __init__(self) -> None:
        self.standings: list[tuple[int, int]] = []

    def stage(self, name: str, total: int) -> None: ...
    def cell(self, cell: Cell, outcome: str) -> None: ...
    def measured(self, cells: Sequence[Cell]) -> None: ...
    def progress(self, progress: object) -> None: ...
    def standing(self, num_cells: int, total: int) -> None:
        self.standings.append((num_cells, total))


def sweeps_of(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """A function that runs a sweep of variants in waves, and gives its steps."""
    bench = Bench(monkeypatch)
    told = Told()

    def run(
        waves: Sequence[Sequence[str]],
        *,
        spare: Sequence[str] = (),
        spare_of: int = -1,
        speeds: Mapping[str, int],
        losses: Mapping[str, int] | None = None,
        sizes: Mapping[str, int] | None = None,
        ends: Mapping[str, str] | None = None,
        graphs: Mapping[str, str] | None = None,
        whole_split: bool = False,
        ends_s: float | None = None,
        **goal: Any,
    ) -> list[tuple[str, ...]]:
        bench.speeds = {variant: [ns] for variant, ns in speeds.items()}
        order = [*itertools.chain.from_iterable(waves), *spare]
        chosen = [Wave([cell(name) for name in wave]) for wave in waves]
        chosen[spare_of] = dataclasses.replace(chosen[spare_of], spare=[cell(name) for name in spare])
        monkeypatch.setattr("bench.pipeline.waves.in_waves", lambda cells, *sources, baselines: chosen)
        monkeypatch.setattr(sweeps, "baselines", lambda *_: [cell("raw")])
        place: Any = FakePlace(bench, losses or {}, sizes or {}, ends or {}, graphs or {})
        options = Options(goal=Goal(**({"max_launches": 3} | goal)), whole_split=whole_split, ends_s=ends_s)
        store = Store(folder, "machine")
        sweep = Sweep(store, options, told, place)
        sweep.run([cell(name) for name in order])
        run.left_out = sweep.left_out  # type: ignore[attr-defined]
        run.records = {record.cell.variant: record for record in store.read_all().values()}  # type: ignore[attr-defined]
        place.flush()
        return list(place.steps)

    run.told = told  # type: ignore[attr-defined]
    return run
