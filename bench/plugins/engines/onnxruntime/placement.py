"""Which provider of ONNX Runtime really runs a model's nodes: how many, and which share of the MACs.

ONNX Runtime hands nodes to providers after its basic optimizations, so the placement is that of the model after these:
its nodes are the nodes that providers get, even if a provider then fuses them. Nothing here is timed.
"""

from __future__ import annotations

import collections
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError
from bench.onnxfile.costs import profile as costing
from bench.onnxfile.costs.nodes import NodeCost
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.normalized import settle
from bench.plugins.engines.onnxruntime import providers
from bench.plugins.engines.onnxruntime.optimized import load_optimized
from bench.plugins.engines.onnxruntime.providers import CPU

_Placement = dict[str, dict[str, Any]]


def place(artifact: Path, provider: str, *, shapes: Mapping[str, Sequence[int]]) -> _Placement:
    """Find out where the nodes of an ONNX file run.

    ONNX Runtime loads the model for that: call it in a process that may crash.

    Args:
        provider: the name of the provider in cells, such as `cuda`.
        shapes: shapes of the inputs, by name, that MACs are counted for.

    Returns:
        By ONNX Runtime's name of each provider that gets a node, the most MACs first: `nodes`, how many; and
        `macs_share`, between 0 and 1, None where the model has no MACs or they cannot be counted.

    Raises:
        ArtifactError: the provider is not usable on this machine, or takes no node.
    """
    chosen = providers.usable().get(provider)
    if chosen is None:
        raise ArtifactError(f"ONNX Runtime has no provider {provider!r} here")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        model = load_optimized(settle(onnx.load(artifact)).SerializeToString(), level="basic")
        onnx.save(settle(model), path)  # each node gets a name of its own
        costs = costing.profile(path, shapes=shapes, observe=False).nodes
        assigned = {cost.name: CPU.ort_name for cost in costs}
        if chosen != CPU:
            taken = providers.assignment(providers.open_session(path, chosen, threads=1))
            assigned = {name: runs_on for runs_on, names in taken.items() for name in names}
        return summary(costs, assigned)


def summary(costs: Sequence[NodeCost], assigned: Mapping[str, str]) -> _Placement:
    """Nodes and MACs by provider.

    Args:
        costs: costs of the model's nodes; those of subgraphs directly after the node that holds the subgraph.
        assigned: the provider that runs a node, by the node's name. A provider that takes a node with subgraphs takes
            the nodes in these as well, and they are not listed.
    """
    nodes: collections.Counter[str] = collections.Counter(assigned.values())
    macs: collections.Counter[str] = collections.Counter(dict.fromkeys(nodes, 0))
    runs_on: dict[str, str | None] = {}
    for cost in costs:
        full_name = f"{cost.path}/{cost.name}" if cost.path else cost.name
        provider = assigned.get(cost.name) or runs_on.get(cost.path.rpartition(".")[0])
        runs_on[full_name] = provider
        if provider is not None:
            macs[provider] += cost.macs
    total = sum(cost.macs for cost in costs)
    # A node without a provider was folded or fused into another node; its MACs cannot be placed.
    is_known = 0 < total == sum(macs.values()) and all(cost.known for cost in costs)
    return {
        name: {"nodes": nodes[name], "macs_share": macs[name] / total if is_known else None}
        for name, _ in sorted(macs.items(), key=lambda item: (-item[1], -nodes[item[0]], item[0]))
    }


def fallback(placement: _Placement, provider: str) -> str | None:
    """A warning if other providers than the cell's run some of the nodes; None if it runs all nodes.

    Args:
        provider: ONNX Runtime's name of the provider.
    """
    shares = []
    for name, part in placement.items():
        if name != provider:
            share = "" if part["macs_share"] is None else f" with {part['macs_share']:.1%} of the MACs"
            shares.append(f"{part['nodes']} nodes{share} run on {name}")
    return f"falls back: {', '.join(shares)}" if shares else None
