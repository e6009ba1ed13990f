"""Where the time of an inference goes, node by node: what ONNX Runtime's own profiler wrote down.

The nodes are those of the graph that runs, after all of ONNX Runtime's optimizations; what they read and make is read
from that graph, which is written beside the trace. The profiler counts whole microseconds.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import json
import re
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, NodeTime
from bench.api.errors import ArtifactError
from bench.plugins.engines.onnxruntime import providers
from bench.plugins.engines.onnxruntime.providers import Provider

if TYPE_CHECKING:
    import onnx

    from bench.graphs.file.wiring import Wiring

WARM_UPS = 5
NODE, SESSION = "Node", "Session"
RUN = "model_run"
SUFFIX = "_kernel_time"
GENERATED = re.compile(r"(_bn)?(_nchwc)?(_token_\d+)?$")
"""Ends names that ONNX Runtime makes up: before it is the name of a node that was replaced, or of what it made."""
Event = Mapping[str, Any]


def profile(artifact: Path, provider: Provider, *, threads: int, feeds: Arrays, num_runs: int) -> Sequence[NodeTime]:
    """Run a model under the profiler. It loads the model: call it in a process to lose.

    Raises:
        ArtifactError: the profiler wrote down fewer inferences than there were.
    """
    from bench.graphs.file import lazy
    from bench.graphs.file.wiring import Wiring

    wiring = Wiring(lazy.Stored(model=_named(artifact), path=None))
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder, "optimized.onnx")
        content = wiring.model.SerializeToString()
        session = _open(content, provider, threads, Path(folder, "trace"), optimized)
        for _ in range(WARM_UPS + num_runs):
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text())
        nodes = node_times(events, warm_ups=WARM_UPS, num_runs=num_runs)
        return with_tensors(nodes, wiring, Wiring(lazy.read(optimized))) if optimized.exists() else nodes


def _named(artifact: Path) -> onnx.ModelProto:
    """The model with a name for each node, by which the profiler tells it."""
    import onnx

    model = onnx.load(artifact)
    for node in model.graph.node:
        node.name = node.name or next(filter(None, node.output), "")
    return model


def _open(content: bytes, provider: Provider, threads: int, trace: Path, optimized: Path) -> Any:
    """A session with the profiler on, which writes the graph that it runs if it can."""
    more = {"enable_profiling": True, "profile_file_prefix": str(trace)}
    try:
        return providers.open_session(
            content, provider, threads=threads, optimized_model_filepath=str(optimized), **more
        )
    except ArtifactError:
        raise
    except Exception:  # nodes that a provider compiled cannot be written; anything else fails again below
        optimized.unlink(missing_ok=True)
        return providers.open_session(content, provider, threads=threads, **more)


def node_times(events: Sequence[Event], *, warm_ups: int, num_runs: int) -> list[NodeTime]:
    """Medians over inferences, of the profiler's events.

    Raises:
        ArtifactError: the profiler wrote down fewer inferences than there were.
    """
    begins = sorted(event["ts"] for event in events if event.get("cat") == SESSION and event["name"] == RUN)
    if len(begins) < warm_ups + num_runs:
        raise ArtifactError(
            f"ONNX Runtime's profiler wrote down {len(begins)} inferences of {warm_ups + num_runs}: the model has too "
            f"many nodes for it"
        )
    taken_us: dict[str, list[int]] = {}
    calls: dict[str, list[int]] = {}
    about: dict[str, Mapping[str, Any]] = {}
    kernels = (event for event in events if event.get("cat") == NODE and event["name"].endswith(SUFFIX))
    for event, self_us in _self_times(kernels):
        run = bisect.bisect_right(begins, event["ts"]) - 1 - warm_ups
        name = event["name"].removesuffix(SUFFIX)
        if run >= 0:
            taken_us.setdefault(name, [0] * num_runs)[run] += self_us
            calls.setdefault(name, [0] * num_runs)[run] += 1
            about[name] = event["args"]
    return [
        NodeTime(
            name=name,
            operator=about[name].get("op_name", "?"),
            provider=about[name].get("provider", "?"),
            time_ns=1000 * statistics.median(times),
            calls=statistics.median_low(calls[name]),
        )
        for name, times in taken_us.items()
    ]


def _self_times(events: Iterable[Event]) -> list[tuple[Event, int]]:
    """Each event in the order of time, with its microseconds that are not those of an event within it.

    The nodes of a body, as of a Loop, run within the event of the node that has it, on the same thread.
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


def with_tensors(nodes: Sequence[NodeTime], artifact: Wiring, ran: Wiring) -> list[NodeTime]:
    """The nodes with the tensors that they read, make and cover.

    A node covers what those of the artifact's nodes make that it has a name or a tensor from. One that ONNX Runtime put
    in their place covers what only these read, too: it was fused into it.

    Args:
        artifact: as it was before ONNX Runtime's optimizations.
        ran: as it is after them.
    """
    tensors = _tensors(nodes, ran)
    places = {node.name: index for index, node in enumerate(artifact.nodes)}
    owners: dict[int, int] = {}
    for position, node in enumerate(nodes):
        origin = GENERATED.sub("", node.name)
        sources = [places[name] for name in (node.name, origin) if name in places]
        made = (*tensors[position][1], origin)
        sources += [artifact.made_by[name][0] for name in made if name in artifact.made_by]
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
    """What each node reads and makes.

    Nodes without a name, as those of functions that ONNX Runtime takes apart, have made-up ones in the trace: they are
    told by their order, if there are as many of an operator in the trace as in the graph.
    """
    places = {node.name: index for index, node in enumerate(ran.nodes)}
    found = {position: places[node.name] for position, node in enumerate(nodes) if node.name in places}
    left: dict[str, tuple[list[int], list[int]]] = collections.defaultdict(lambda: ([], []))
    for position, node in enumerate(nodes):
        if position not in found:
            left[node.operator][0].append(position)
    known = set(found.values())
    for index, proto in enumerate(ran.nodes):
        if index not in known:
            left[proto.op_type][1].append(index)
    for positions, indices in left.values():
        if len(positions) == len(indices):
            found |= zip(positions, indices, strict=True)
    tensors = []
    for position in range(len(nodes)):
        reads = ran.reads[found[position]] if position in found else ()
        makes = ran.nodes[found[position]].output if position in found else ()
        tensors.append((tuple(name for name in reads if name and name not in ran.weights), tuple(filter(None, makes))))
    return tensors
