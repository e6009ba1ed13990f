"""A model cut into parts of equal cost that run one after the other.

The nodes keep their order, and each part is a run of neighbours in it. The cut is the one whose most expensive part is
cheapest; among those, the one where the fewest bytes go from part to part. Tensors keep their names: what a part puts
out, later parts take in under the same name. What is made of weights alone is made in each part that needs it, so that
no weight goes from part to part.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.api.errors import InputError
from bench.graphs.edits.parts import Cutter, save

if TYPE_CHECKING:
    from bench.graphs.costs.nodes import NodeCost
    from bench.graphs.costs.profile import Profile
    from bench.graphs.file.lazy import Stored


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One of the parts.

    Attributes:
        file: its name in the folder.
        cost: in the unit of `Split.unit`.
        inputs: names of what it takes: inputs of the model, and outputs of earlier parts.
        outputs: names of what it gives: to later parts, and as outputs of the model.
        passed_bytes: of its outputs; None where the size of one is not known.
    """

    file: str
    num_nodes: int
    cost: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    passed_bytes: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A model in parts.

    Attributes:
        unit: what cost is counted in: MACs, or other operations or nodes where there are none.
        cost: of the whole model.
    """

    parts: tuple[Part, ...]
    unit: str
    cost: int


def split(stored: Stored, profile: Profile, folder: Path, num_parts: int) -> Split:
    """Write a model as parts, each a file in a folder.

    Args:
        profile: of the same file, for the costs of its nodes and the bytes of its tensors.

    Raises:
        InputError: there are fewer nodes than parts, or nothing tells the type of a tensor at a cut.
    """
    cutter = Cutter(stored)
    wiring = cutter.wiring
    order = [index for index in sorted(cutter.needed_for(wiring.outputs)) if not cutter.makes_constant(index)]
    if not 1 <= num_parts <= len(order):
        raise InputError(f"{num_parts} parts of {len(order)} nodes; from 1 to {len(order)} are possible")
    unit, cost_of = _costs(profile)
    costs = [cost_of.get(wiring.nodes[index].name, 0) for index in order]
    sizes = {name: info.bytes for name, info in profile.tensors.items()}
    crossing = _crossing(cutter, order, sizes)
    bounds = cut(costs, crossing, num_parts)
    digits = len(str(num_parts))
    parts = []
    for number, (start, end) in enumerate(itertools.pairwise(bounds), start=1):
        inputs, outputs = _interface(cutter, order, start, end)
        model = cutter.part(order[start:end], inputs, outputs)
        file = f"part_{number:0{digits}}.onnx"
        save(model, stored, folder / file)
        known = [sizes.get(name) for name in outputs]
        parts.append(
            Part(
                file=file,
                num_nodes=len(model.graph.node),
                cost=sum(costs[start:end]),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                passed_bytes=None if None in known else sum(size or 0 for size in known),
            )
        )
    return Split(parts=tuple(parts), unit=unit, cost=sum(costs))


def _costs(profile: Profile) -> tuple[str, dict[str, int]]:
    """What the nodes of the main graph cost, each with its subgraphs."""
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
    """For each place between two nodes, the bytes that are made before it and read behind it."""
    place = {index: at for at, index in enumerate(order)}
    changes = [0] * (len(order) + 1)
    for name, (maker, _) in cutter.wiring.made_by.items():
        readers = [place[reader] for reader, _ in cutter.wiring.readers.get(name, ()) if reader in place]
        if maker in place and readers and name not in cutter.constants:
            changes[place[maker] + 1] += sizes.get(name) or 0
            changes[max(readers) + 1] -= sizes.get(name) or 0
    return list(itertools.accumulate(changes))


def cut(costs: Sequence[int], crossing: Sequence[int], num_parts: int) -> list[int]:
    """Where a sequence is cut into parts that are not empty: the ends of the parts, after a first 0.

    Args:
        costs: of each item.
        crossing: what a cut before each item costs beside; only looked at between equally good cuts.
    """
    limit = _lowest_limit(costs, num_parts)
    sums = [0, *itertools.accumulate(costs)]
    num_items = len(costs)
    unreachable = sum(crossing) + 1
    best = [0] + [unreachable] * num_items  # of the items so far in the parts so far
    cuts: list[list[int]] = []
    for _ in range(num_parts):
        following = [unreachable] * (num_items + 1)
        chosen = [0] * (num_items + 1)
        window: collections.deque[int] = collections.deque()  # starts of this part, the best first
        for end in range(1, num_items + 1):
            start = end - 1
            value = best[start] + (crossing[start] if start else 0)
            while window and best[window[-1]] + (crossing[window[-1]] if window[-1] else 0) >= value:
                window.pop()
            window.append(start)
            while sums[end] - sums[window[0]] > limit:
                window.popleft()
            first = window[0]
            following[end] = min(best[first] + (crossing[first] if first else 0), unreachable)
            chosen[end] = first
        best = following
        cuts.append(chosen)
    bounds = [num_items]
    for chosen in reversed(cuts):
        bounds.append(chosen[bounds[-1]])
    return bounds[::-1]


def _lowest_limit(costs: Sequence[int], num_parts: int) -> int:
    """The cost of the most expensive part, if the items are cut as well as can be."""
    low, high = max(costs), sum(costs)
    while low < high:
        middle = (low + high) // 2
        parts, filled = 1, 0
        for cost in costs:
            if filled + cost > middle:
                parts, filled = parts + 1, 0
            filled += cost
        low, high = (low, middle) if parts <= num_parts else (middle + 1, high)
    return low


def _interface(cutter: Cutter, order: Sequence[int], start: int, end: int) -> tuple[list[str], list[str]]:
    """Names of what a part takes in and gives out."""
    wiring = cutter.wiring
    own, later = order[start:end], order[end:]
    made = {name: None for index in own for name in wiring.nodes[index].output if name and name not in cutter.constants}
    read = dict.fromkeys(name for index in own for name in wiring.reads[index] if name)
    wanted = {name for index in later for name in wiring.reads[index]} | set(wiring.outputs)
    inputs = [name for name in read if name not in made and name not in cutter.constants]
    outputs = [name for name in made if name in wanted]
    if not later:  # outputs that no node of a part makes are given by the last one
        outputs += [name for name in wiring.outputs if name in cutter.constants]
    return inputs, outputs
