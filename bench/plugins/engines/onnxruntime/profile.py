"""The time of each node in an inference, read from the trace of ONNX Runtime's own profiler.

The nodes are those of the graph that runs, after all of ONNX Runtime's optimizations. That graph is written beside the
trace, and names the tensors that each node reads and makes. The profiler counts whole microseconds.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import json
import re
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file import lazy
from bench.onnxfile.file.wiring import Wiring
from bench.plugins.engines.onnxruntime import providers
from bench.plugins.engines.onnxruntime.providers import Provider

WARM_UPS = 5
"""Inferences before those that count."""
_NODE, _SESSION = "Node", "Session"
_RUN = "model_run"
_SUFFIX = "_kernel_time"
_GENERATED = re.compile(r"(_bn)?(_nchwc)?(_token_\d+)?$")
"""The end of names that ONNX Runtime makes up; before it stands the name of a replaced node or of its output."""
Event = Mapping[str, Any]


def profile(
    artifact: Path,
    provider: Provider,
    *,
    threads: int,
    feeds: Arrays,
    num_runs: int,
    named: Sequence[str] = (),
) -> Sequence[NodeTime]:
    """Run a model under the profiler; call it in a process that may crash.

    Args:
        feeds: host arrays by input name, of one inference.
        num_runs: inferences to profile, after `WARM_UPS` that are not counted.
        named: names of options that are not the defaults, see `options.OPTIONS`.

    Returns:
        The nodes that ran, in their order; with tensors where ONNX Runtime can write the graph that ran.

    Raises:
        ArtifactError: the trace has fewer inferences than were run.
    """
    wiring = Wiring(lazy.Stored(model=_named(artifact), path=None))
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder, "optimized.onnx")
        content, trace = wiring.model.SerializeToString(), Path(folder, "trace")
        session = _open(content, provider, trace, optimized, threads=threads, named=named)
        for _ in range(WARM_UPS + num_runs):
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text())
        nodes = node_times(events, warm_ups=WARM_UPS, num_runs=num_runs)
        return _with_tensors(nodes, wiring, Wiring(lazy.read(optimized))) if optimized.exists() else nodes


def _named(artifact: Path) -> onnx.ModelProto:
    """The model with a name for each node, by which the profiler identifies nodes."""
    model = onnx.load(artifact)
    for node in model.graph.node:
        node.name = node.name or next(filter(None, node.output), "")
    return model


def _open(content: bytes, provider: Provider, trace: Path, optimized: Path, **more: Any) -> Any:
    """A session with the profiler on, which writes the graph that runs to `optimized` if it can."""
    more |= {"enable_profiling": True, "profile_file_prefix": str(trace)}
    try:
        return providers.open_session(content, provider, optimized_model_filepath=str(optimized), **more)
    except ArtifactError:
        raise
    except Exception:  # nodes that a provider compiled cannot be written; anything else fails again below
        optimized.unlink(missing_ok=True)
        return providers.open_session(content, provider, **more)


def node_times(
    events: Sequence[Event],
    *,
    warm_ups: int,
    num_runs: int,
    average: Callable[[Sequence[int]], float] = statistics.median,
) -> list[NodeTime]:
    """Averages over inferences of the time that each node takes, from the profiler's events.

    Args:
        events: those of all inferences.
        warm_ups: inferences at the beginning that do not count.
        num_runs: inferences that do.
        average: of a node's microseconds. Of a clock that ticks rarely only the mean tells times below a tick.

    Raises:
        ArtifactError: the trace has fewer inferences than were run.
    """
    begins = sorted(event["ts"] for event in events if event.get("cat") == _SESSION and event["name"] == _RUN)
    if len(begins) < warm_ups + num_runs:
        raise ArtifactError(
            f"ONNX Runtime's profiler wrote down {len(begins)} inferences of {warm_ups + num_runs}: the model has too "
            f"many nodes for it"
        )
    taken_us: dict[str, list[int]] = {}
    calls: dict[str, list[int]] = {}
    about: dict[str, Mapping[str, Any]] = {}
    kernels = (event for event in events if event.get("cat") == _NODE and event["name"].endswith(_SUFFIX))
    for event, self_us in _self_times(kernels):
        run = bisect.bisect_right(begins, event["ts"]) - 1 - warm_ups
        name = event["name"].removesuffix(_SUFFIX)
        if run >= 0:
            taken_us.setdefault(name, [0] * num_runs)[run] += self_us
            calls.setdefault(name, [0] * num_runs)[run] += 1
            about[name] = event["args"]
    return [
        NodeTime(
            name=name,
            operator=about[name].get("op_name", "?"),
            provider=about[name].get("provider", "?"),
            time_ns=1000 * average(times),
            calls=statistics.median_low(calls[name]),
        )
        for name, times in taken_us.items()
    ]


def _self_times(events: Iterable[Event]) -> list[tuple[Event, int]]:
    """Each event in the order of time, with its microseconds less those of the events within it.

    The nodes in a body, such as a Loop's, run within the event of the Loop, on the same thread.
    """
    ordered = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    within = [0] * len(ordered)
    around: dict[Any, list[int]] = collections.defaultdict(list)
    for index, event in enumerate(ordered):
        stack = around[event.get("tid")]
        while stack and event["ts"] >= ordered[stack[-1]]["ts"] + ordered[stack[-1]]["dur"]:
            stack.pop()
        if stack:
            within[stack[-1]] += event["dur"]
        stack.append(index)
    return [(event, max(0, event["dur"] - inner)) for event, inner in zip(ordered, within, strict=True)]


def _with_tensors(nodes: Sequence[NodeTime], artifact: Wiring, ran: Wiring) -> list[NodeTime]:
    """The nodes with the tensors that they read, make and cover.

    A node covers the outputs of those nodes of the artifact whose name, or whose output's name, it bears. A node that
    ONNX Runtime put in their place also covers the tensors that only those nodes read: their makers were fused into it.

    Args:
        artifact: wiring of the graph before ONNX Runtime's optimizations.
        ran: wiring of the graph after them.
    """
    tensors = _tensors(nodes, ran)
    places = {node.name: index for index, node in enumerate(artifact.nodes)}
    owners: dict[int, int] = {}
    for position, node in enumerate(nodes):
        origin = _GENERATED.sub("", node.name)
        sources = [places[name] for name in (node.name, origin) if name in places]
        names = (*tensors[position][1], origin)
        sources += [artifact.made_by[name][0] for name in names if name in artifact.made_by]
        for index in sources:
            owners.setdefault(index, position)
    for index in reversed(range(len(artifact.nodes))):
        readers = {reader for name in artifact.nodes[index].output for reader, _ in artifact.readers.get(name, ())}
        if len(readers) == 1 and (owner := owners.get(readers.pop())) is not None and nodes[owner].name not in places:
            owners.setdefault(index, owner)
    covers: dict[int, list[str]] = collections.defaultdict(list)
    for index, position in sorted(owners.items()):
        covers[position] += filter(None, artifact.nodes[index].output)
    return [
        dataclasses.replace(node, reads=reads, makes=makes, covers=tuple(covers[position]))
        for position, (node, (reads, makes)) in enumerate(zip(nodes, tensors, strict=True))
    ]


def _tensors(nodes: Sequence[NodeTime], ran: Wiring) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Names of the tensors that each node reads, and of those that it makes.

    Nodes without a name, such as those of functions that ONNX Runtime inlines, have made-up names in the trace: they
    are matched by their order, if an operator is as frequent in the trace as in the graph.
    """
    places = {node.name: index for index, node in enumerate(ran.nodes)}
    matches = {position: places[node.name] for position, node in enumerate(nodes) if node.name in places}
    left = sorted({*range(len(ran.nodes))}.difference(matches.values()))
    for operator in {node.operator for position, node in enumerate(nodes) if position not in matches}:
        positions = [at for at, node in enumerate(nodes) if at not in matches and node.operator == operator]
        indices = [index for index in left if ran.nodes[index].op_type == operator]
        if len(positions) == len(indices):
            matches |= zip(positions, indices, strict=True)
    tensors = []
    for position in range(len(nodes)):
        reads = ran.reads[matches[position]] if position in matches else ()
        makes = ran.nodes[matches[position]].output if position in matches else ()
        tensors.append((tuple(name for name in reads if name and name not in ran.weights), tuple(filter(None, makes))))
    return tensors
