"""A model cut into parts of equal cost that run one after the other.

The nodes keep their order, and each part is a run of neighbours in it. The cut makes the most expensive part as cheap
as possible; among equally good cuts, it passes the fewest bytes from part to part. Tensors keep their names: an output
of a part is an input of later parts under the same name. Values made of weights alone are computed in each part that
needs them, so that no weight goes from part to part.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.errors import InputError
from bench.onnxfile.costs.nodes import NodeCost
from bench.onnxfile.costs.profile import Profile
from bench.onnxfile.deferred import np
from bench.onnxfile.edits.parts import Cutter, save
from bench.onnxfile.file.lazy import Stored


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One of the parts of a model.

    Attributes:
        file: name of the part's file in the folder.
        cost: in the unit of `Split.unit`.
        inputs: names of the part's inputs: inputs of the model, and outputs of earlier parts.
        outputs: names of the part's outputs: inputs of later parts, and outputs of the model.
    """

    file: str
    num_nodes: int
    cost: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A model in parts.

    Attributes:
        unit: the unit of cost: MACs; other operations if there are no MACs; nodes if there are neither.
        cost: of the whole model.
    """

    parts: tuple[Part, ...]
    unit: str
    cost: int


def split(stored: Stored, profile: Profile, folder: Path, num_parts: int) -> Split:
    """Write a model as parts, each a file in a folder.

    Args:
        profile: of the same file; it states the costs of nodes and the sizes of tensors.

    Raises:
        InputError: there are fewer nodes than parts, or nothing tells the type of a tensor at a cut.
    """
    cutter = Cutter(stored)
    wiring = cutter.wiring
    needed, _ = wiring.leading_to(wiring.outputs)
    order = [index for index in sorted(needed) if cutter.constants.isdisjoint(wiring.nodes[index].output)]
    if not 1 <= num_parts <= len(order):
        raise InputError(f"{num_parts} parts of {len(order)} nodes; from 1 to {len(order)} are possible")
    unit, cost_of = _costs(profile)
    costs = [cost_of.get(wiring.nodes[index].name, 0) for index in order]
    sizes = {name: info.bytes for name, info in profile.tensors.items()}
    bounds = cut(costs, _crossing(cutter, order, sizes), num_parts)
    digits = len(str(num_parts))
    parts = []
    for number, (start, end) in enumerate(itertools.pairwise(bounds), start=1):
        inputs, outputs = _interface(cutter, order[start:end], order[end:])
        model = cutter.part(inputs, outputs)
        file = f"part_{number:0{digits}}.onnx"
        save(model, stored, folder / file)
        parts.append(
            Part(
                file=file,
                num_nodes=len(model.graph.node),
                cost=sum(costs[start:end]),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
            )
        )
    return Split(parts=tuple(parts), unit=unit, cost=sum(costs))


def _costs(profile: Profile) -> tuple[str, dict[str, int]]:
    """The unit of cost, and the cost of each node of the main graph with its subgraphs, by name."""
    holders: list[list[NodeCost]] = []
    for node in profile.nodes:
        if not node.path:
            holders.append([])
        holders[-1].append(node)
    for unit, cost in (("MACs", "macs"), ("other operations", "other_ops")):
        costs = {group[0].name: sum(getattr(node, cost) for node in group) for group in holders}
        if any(costs.values()):
            return unit, costs
    return "nodes", {group[0].name: 1 for group in holders}


def _crossing(cutter: Cutter, order: Sequence[int], sizes: Mapping[str, int | None]) -> list[int]:
    """For each place between two nodes, the bytes of the values that are made before it and read behind it."""
    place = {index: at for at, index in enumerate(order)}
    changes = [0] * (len(order) + 1)
    for name, (maker, _) in cutter.wiring.made_by.items():
        readers = [place[reader] for reader, _ in cutter.wiring.readers.get(name, ()) if reader in place]
        if maker in place and readers and name not in cutter.constants:
            changes[place[maker] + 1] += sizes.get(name) or 0
            changes[max(readers) + 1] -= sizes.get(name) or 0
    return list(itertools.accumulate(changes))


def cut(costs: Sequence[int], crossing: Sequence[int], num_parts: int) -> list[int]:
    """Cut a sequence into parts that are not empty; returns 0 and the ends of the parts.

    Args:
        costs: of each item.
        crossing: bytes that a cut before each item passes on; they decide between equally good cuts.
    """
    sums = [0, *itertools.accumulate(costs)]
    limit = _lowest_limit(sums, max(costs), num_parts)
    earliest = [bisect.bisect_left(sums, total - limit) for total in sums]  # start of a part, by its end
    ends = range(1, len(sums))
    unreachable = sum(crossing) + 1
    entering = np.array([0, *crossing[1:]])
    best = np.array([0] + [unreachable] * len(ends))  # bytes passed by the best cut before each place
    starts: list[list[int]] = []  # of the last part, by its end, for each number of parts
    for _ in range(num_parts):
        totals = best + entering
        chosen = [0, *(end - 1 - int(totals[earliest[end] : end][::-1].argmin()) for end in ends)]
        best[1:] = np.minimum(totals[chosen[1:]], unreachable)
        best[0] = unreachable
        starts.append(chosen)
    bounds = [len(ends)]
    for start_of in reversed(starts):
        bounds.append(start_of[bounds[-1]])
    return bounds[::-1]


def _lowest_limit(sums: Sequence[int], largest: int, num_parts: int) -> int:
    """The lowest possible cost of the most expensive part.

    Args:
        sums: costs of all items before each place, from 0 to the cost of the whole.
        largest: the cost of the most expensive item.
    """
    low, high = largest, sums[-1]
    while low < high:
        middle = (low + high) // 2
        end = 0
        for _ in range(num_parts):
            end = bisect.bisect_right(sums, sums[end] + middle) - 1
        low, high = (low, middle) if end == len(sums) - 1 else (middle + 1, high)
    return low


def _interface(cutter: Cutter, own: Sequence[int], later: Sequence[int]) -> tuple[list[str], list[str]]:
    """Names of the inputs and outputs of a part.

    Args:
        own: indices of its nodes.
        later: indices of the nodes of all later parts.
    """
    wiring = cutter.wiring
    own_tensors = {
        name: None for index in own for name in wiring.nodes[index].output if name and name not in cutter.constants
    }
    read = dict.fromkeys(name for index in own for name in wiring.reads[index] if name)
    wanted = {name for index in later for name in wiring.reads[index]} | set(wiring.outputs)
    inputs = [name for name in read if name not in own_tensors and name not in cutter.constants]
    outputs = [name for name in own_tensors if name in wanted]
    if not later:  # outputs that no node of a part makes are given by the last one
        outputs += [name for name in wiring.outputs if name in cutter.constants]
    return inputs, outputs
