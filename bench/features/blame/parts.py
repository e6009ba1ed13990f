"""Parts of both sides as files of their own, and their latencies in the same blocks."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.api.errors import ArtifactError, BenchError, ChildError
from bench.features.blame import intervals, worker_requests
from bench.features.blame.cuts import Aligned, Graph, Interface, Part
from bench.features.blame.sides import Pair, Side
from bench.measure import block
from bench.measure.block import Method, Repeats
from bench.measure.levels import levels
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.measure.subject import Request, Subject
from bench.pipeline import environments, opening, operations

WHOLE = "whole"
"""The key of the whole model among those of parts."""
_MEMORY_SHARE = 0.6
"""Of the memory now free, for the workers of one block."""
_NUM_WHOLE = 3
"""Workers of a block that run a whole: the first side twice, and the second."""
_MOST_LOST = 0.2
"""Blocks whose workers lost a larger share of their time to other programs are left out where others are left."""
Times = Mapping[str, tuple[float, float]]
"""Nanoseconds of the whole and of parts in one block, on both sides, by key."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cut:
    """A part of one side as a file.

    Attributes:
        model: the file; of the whole it is the artifact.
        feeds: `.npz` file with its inputs.
        outputs: its outputs, as fields of `TensorSpec`; None for the whole.
    """

    model: Path
    feeds: Path
    outputs: tuple[Mapping[str, Any], ...] | None


class Cutter:
    """Cuts parts out of both sides' files.

    Args:
        pair: the two sides.
        aligned: their graphs.
        folder: where the files are written.
        feeds: `.npz` file with the inputs of one inference.
        limits: time and memory of the child processes.
    """

    def __init__(self, pair: Pair, aligned: Aligned, folder: Path, feeds: Path, limits: Limits) -> None:
        self.pair, self.aligned = pair, aligned
        self._folder, self._feeds, self._limits = folder, feeds, limits
        self._cuts: dict[str, tuple[Cut, Cut] | str] = {}
        self._num_files = 0

    def cuts(self, parts: Sequence[Part]) -> dict[str, tuple[Cut, Cut] | str]:
        """The files of parts on both sides, by their keys; the reason in place of them where a part has none."""
        new = [part for part in dict.fromkeys(parts) if part.key not in self._cuts]
        if new:
            interfaces, keys = [self.aligned.interfaces(part) for part in new], [part.key for part in new]
            sides = [self._written(0, keys, [first for first, _ in interfaces])]
            alike = self.pair.is_one_file and all(first == second for first, second in interfaces)
            sides.append(sides[0] if alike else self._written(1, keys, [second for _, second in interfaces]))
            for part, first, second in zip(new, *sides, strict=True):
                if isinstance(first, str) or isinstance(second, str):
                    self._cuts[part.key] = first if isinstance(first, str) else str(second)
                else:
                    self._cuts[part.key] = first, second
        return {part.key: self._cuts[part.key] for part in parts}

    def up_to(self, names: Sequence[str]) -> tuple[Cut, Cut]:
        """Both sides' models from their inputs to some common tensors, by the first side's names.

        Raises:
            ArtifactError: a side has no such part.
        """
        after = {old: new for new, old in self.aligned.names.items()}
        renamed = (list(names), [after[name] for name in names])
        cuts = []
        for number, (graph, outputs) in enumerate(zip((self.aligned.before, self.aligned.after), renamed, strict=True)):
            inputs = _needed_inputs(graph, outputs)
            interface = Interface(inputs=inputs, outputs=tuple(outputs), num_nodes=len(graph.nodes))
            self._num_files += 1
            (cut,) = self._written(number, [f"up_to_{self._num_files}"], [interface])
            if isinstance(cut, str):
                raise ArtifactError(f"a part of {self.pair.sides[number].name} cannot be cut out: {cut}")
            cuts.append(cut)
        return cuts[0], cuts[1]

    def _written(self, number: int, keys: Sequence[str], interfaces: Sequence[Interface]) -> list[Cut | str]:
        """The files of parts on one side."""
        names = [f"{key}_{'ab'[number]}" for key in keys]
        files = [(self._folder / f"{name}.onnx", self._folder / f"{name}.npz") for name in names]
        requests = {
            index: {"inputs": interface.inputs, "outputs": interface.outputs}
            | {"target": str(files[index][0]), "target_feeds": str(files[index][1])}
            for index, interface in enumerate(interfaces)
            if interface.outputs and interface.num_nodes
        }
        answers = dict(zip(requests, self._ask(number, list(requests.values())) if requests else (), strict=True))
        cuts: list[Cut | str] = []
        for index, (model, feeds) in enumerate(files):
            answer = answers.get(index, {"error": "a side has no node in it, or gives nothing"})
            if "error" in answer:
                cuts.append(str(answer["error"]))
            else:
                cuts.append(Cut(model=model, feeds=feeds, outputs=tuple(answer["outputs"])))
        return cuts

    def _ask(self, number: int, requests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        path, limits = self.pair.sides[number].artifact.path, self._limits
        arguments: dict[str, Any] = {"path": str(path), "feeds": str(self._feeds), "cuts": requests}
        limited: dict[str, Any] = {"timeout_s": limits.prepare_s, "memory_bytes": limits.memory_bytes}
        try:
            return list(ask_once(worker_requests.write_cuts, **limited, **opening.process(), **arguments)["cuts"])
        except ChildError as error:
            if len(requests) == 1:
                return [{"error": error.reason}]
            return [answer for each in requests for answer in self._ask(number, [each])]


def _needed_inputs(graph: Graph, outputs: Sequence[str]) -> tuple[str, ...]:
    """The inputs of a graph that some of its tensors are computed from."""
    makers, reached, pending = graph.makers(), dict.fromkeys(outputs), list(outputs)
    while pending:
        index = makers.get(pending.pop())
        new = [] if index is None else [name for name in graph.nodes[index].reads if name not in reached]
        reached |= dict.fromkeys(new)
        pending += new
    return tuple(name for name in graph.inputs if name in reached)


def most_parts(free_bytes: int, peak_bytes: int) -> int:
    """Number of parts of a block whose workers, two for each part and those of the whole, fit the free memory.

    Args:
        free_bytes: memory that processes can still take.
        peak_bytes: the largest peak of a worker that ran a whole; 0 where none has run.
    """
    num_workers = int(_MEMORY_SHARE * free_bytes) // max(1, peak_bytes)
    return max(0, (num_workers - _NUM_WHOLE) // 2)


class Stopwatch:
    """Measures the whole and parts of it under both sides in the same blocks.

    Args:
        pair: the two sides.
        feeds: `.npz` file with the inputs of one inference of the whole.
        limits: time and memory of each worker.
        cuts: files of parts, by key; see `Cutter.cuts`.
    """

    def __init__(
        self,
        pair: Pair,
        feeds: Path,
        limits: Limits,
        cuts: Callable[[Sequence[Part]], Mapping[str, tuple[Cut, Cut] | str]],
    ) -> None:
        self._pair, self._limits, self._cuts = pair, limits, cuts
        self._whole = tuple(Cut(model=side.artifact.path, feeds=feeds, outputs=None) for side in pair.sides)
        self._method = Method(limits=limits, max_s=12.0)
        self._repeats = Repeats()
        self._peak_bytes = 0
        self.failures: dict[str, str] = {}
        """Why parts cannot be measured, by key."""

    def most_parts(self) -> int:
        """Number of parts of a block for whose workers there is memory, each of which may need as much as a whole."""
        return most_parts(int(psutil.virtual_memory().available), self._peak_bytes)

    def measure(self, parts: Sequence[Part], *, num_blocks: int, ends_s: float) -> list[Times]:
        """Latencies of the whole and of parts, in some blocks.

        Args:
            parts: the parts; those that cannot be cut or run are missing in the result, see `failures`.
            num_blocks: number of blocks.
            ends_s: time by `time.monotonic` after which no block is begun but the first few, without which there is no
                interval.

        Raises:
            BenchError: the whole cannot be measured.
        """
        blocks: list[tuple[float, Times]] = []
        begin = time.monotonic()
        for number in range(num_blocks):
            now = time.monotonic()
            if number >= intervals.FEWEST and now + (now - begin) / number > ends_s:
                break
            if (times := self._block(parts)) is not None:
                blocks.append(times)
        if not blocks:
            raise BenchError("no block came to its end")
        calm = [times for lost, times in blocks if lost <= _MOST_LOST]
        return calm if len(calm) >= max(intervals.FEWEST, len(blocks) / 2) else [times for _, times in blocks]

    def _block(self, parts: Sequence[Part]) -> tuple[float, Times] | None:
        """The largest share of time that a worker lost, and the latencies; None where a worker failed."""
        known = self._cuts([part for part in parts if part.key not in self.failures])
        self.failures |= {key: cuts for key, cuts in known.items() if isinstance(cuts, str)}
        pairs = {key: cuts for key, cuts in known.items() if not isinstance(cuts, str)}
        baseline, other = (self._subject(WHOLE, at, cut) for at, cut in enumerate(self._whole))
        subjects = [self._subject(key, at, cut) for key, cuts in pairs.items() for at, cut in enumerate(cuts)]
        result = block.run_block(baseline, [other, *subjects], self._method, repeats=self._repeats)
        for failure in result.failures:
            key = failure.subject.key.rpartition(":")[0]
            if key == WHOLE:
                raise BenchError(f"{failure.subject.cell}: {failure.error.reason}") from failure.error
            self.failures[key] = failure.error.reason
        if not result.launches:
            return None
        launches = [launch for _, launch in result.launches]
        wholes = [launch for subject, launch in result.launches if subject.key.startswith(f"{WHOLE}:")]
        peaks = [phase.peak_rss_bytes for launch in wholes for phase in launch.memory.phases.values()]
        self._peak_bytes = max([self._peak_bytes, *peaks])
        num_passes = min(len(launch.medians_ns) for launch in launches)
        fitted = levels(np.array([launch.medians_ns[:num_passes] for launch in launches])).log_ns
        by_key: dict[str, list[float]] = {}
        for (subject, _), level in zip(result.launches, fitted, strict=True):
            by_key.setdefault(subject.key, []).append(float(level))
        times = {}
        for key in dict.fromkeys(name.rpartition(":")[0] for name in by_key):
            if len(names := [f"{key}:{side}" for side in "ab"]) == len([name for name in names if name in by_key]):
                first, second = (math.exp(float(np.mean(by_key[name]))) for name in names)
                times[key] = (first, second)
        return max(launch.lost_share for launch in launches), times

    def _subject(self, key: str, at: int, cut: Cut) -> Subject:
        """A part of one side in the form that a block measures."""
        side: Side = self._pair.sides[at]
        cell = side.cell
        request = {"cell": cell.path, "model": str(cut.model), "feeds": str(cut.feeds)}
        outputs = None if cut.outputs is None else [dict(spec) for spec in cut.outputs]
        return Subject(
            cell=cell,
            key=f"{key}:{'ab'[at]}",
            environment=opening.environment(cell),
            imports=Request(
                operation=operations.import_packages, arguments={"cell": cell.path, "artifact": str(cut.model)}
            ),
            opening=Request(operation=worker_requests.open_cut, arguments={**request, "outputs": outputs}),
            rss_bytes=0,
            interpreter=environments.interpreter_of("runtimes", cell.runtime),
        )
