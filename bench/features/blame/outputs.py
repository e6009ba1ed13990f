"""Tensors of both sides as their own runtimes compute them, compared in child processes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError, ChildError
from bench.features.blame import worker_requests
from bench.features.blame.cuts import Part
from bench.features.blame.parts import Cut, Cutter
from bench.features.blame.sides import Side
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.pipeline import opening


class Comparing:
    """Compares tensors of both sides.

    Args:
        cutter: cuts parts out of both sides' files.
        folder: folder of temporary files.
        limits: time and memory of the child processes.
    """

    def __init__(self, cutter: Cutter, folder: Path, limits: Limits) -> None:
        self._cutter, self._folder, self._limits = cutter, folder, limits

    def tensors(self, names: Sequence[str]) -> list[float | None]:
        """See `bench.features.blame.drifting.Compares`.

        Raises:
            ChildError: a side cannot run up to these tensors.
        """
        try:
            return self._errors(self._cutter.up_to(names))
        except ArtifactError:  # one of them is a sequence, or a side has no such part
            if len(names) == 1:
                return [None]
        middle = len(names) // 2
        return [*self.tensors(names[:middle]), *self.tensors(names[middle:])]

    def alone(self, part: Part, tensor: str) -> float | None:
        """See `bench.features.blame.drifting.Compares`."""
        cuts = self.with_same_inputs(part)
        return None if cuts is None else self.error(cuts, tensor)

    def error(self, cuts: tuple[Cut, Cut], tensor: str) -> float | None:
        """The error of an output of a part's files, by the first side's name; None where they do not run."""
        names = [spec["name"] for spec in cuts[0].outputs or ()]
        try:
            return dict(zip(names, self._errors(cuts), strict=True)).get(tensor)
        except ChildError:
            return None

    def with_same_inputs(self, part: Part) -> tuple[Cut, Cut] | None:
        """A part of both sides, the second with the inputs that the first has; None where it cannot be cut out."""
        cuts = self._cutter.cuts([part])[part.key]
        if isinstance(cuts, str):
            return None
        first, second = cuts
        if first == second:
            return cuts
        target = self._folder / f"{part.key}_same.npz"
        names = dict(self._cutter.aligned.names)
        files = {"feeds": str(first.feeds), "own": str(second.feeds), "target": str(target)}
        self._ask(worker_requests.same_feeds, names=names, **files)
        return first, dataclasses.replace(second, feeds=target)

    def _errors(self, cuts: tuple[Cut, Cut]) -> list[float | None]:
        targets = []
        for letter, side, cut in zip("ab", self._cutter.pair.sides, cuts, strict=True):
            targets.append(self._folder / f"outputs_{letter}.npz")
            self._run(side, cut, targets[-1])
        before, after = map(str, targets)
        errors: list[float | None] = self._ask(worker_requests.compare_outputs, before=before, after=after)["errors"]
        return [math.inf if error is not None and error < 0 else error for error in errors]

    def _run(self, side: Side, cut: Cut, target: Path) -> None:
        arguments: dict[str, Any] = {
            "cell": side.cell.path,
            "model": str(cut.model),
            "feeds": str(cut.feeds),
            "outputs": [dict(spec) for spec in cut.outputs or ()],
            "target": str(target),
        }
        with opening.worker(side.cell, memory_bytes=self._limits.memory_bytes) as child:
            child.request(worker_requests.run_cut, timeout_s=self._limits.verify_s, **arguments)

    def _ask(self, operation: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
        limited: dict[str, Any] = {"timeout_s": self._limits.verify_s, "memory_bytes": self._limits.memory_bytes}
        return ask_once(operation, **limited, **opening.process(), **arguments)
