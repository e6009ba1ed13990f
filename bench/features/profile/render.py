"""Views of an ONNX file for `bench profile`: its nodes, its tensors, its weights, or the plan of its memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from bench.onnxfile.costs.nodes import NodeCost
from bench.onnxfile.costs.profile import Profile
from bench.report import terminal
from bench.report.views import Fitted, View, bytes_text, count_text, number_text, percent, shape_text, short

_TOTAL = {
    "macs": "macs",
    "params": "num_params",
    "weight_bytes": "weight_bytes",
    "activation_bytes": "activation_bytes",
}
"""Costs of a node whose share of the model's total is in the CSV, too, each with the total's name in `Profile`."""
_SUMMED = (*_TOTAL, "other_ops")
"""Costs of a node that are summed for each operator."""
_COSTS = (
    "MACs: products that are summed. Other operations: one an element for biases, activations and the like, not among "
    "the MACs. Parameters: stored, each tensor once; unique, equal tensors once. Activations: inputs and every output, "
    "as if all were kept."
)
_ZEROS = (
    "Best block: the largest one whose zero blocks hold at least 90 % of the zeros; in blocks: share of the weight "
    "that lies in such blocks. Outliers: more than 6 standard deviations from the mean."
)
MEMORY = (
    "Planned: one block of memory in which no two activations in use at once overlap. Lower bound: the most in use at "
    "one node. Without reuse: the sum. ONNX Runtime works in place where it can, and what it cannot plan lies beside."
)


def nodes(profile: Profile, top: int | None = None) -> View:
    """The totals, the share that each operator has in them, and the nodes.

    Args:
        profile: the profile of the whole model.
        top: number of nodes to show, those with the most MACs first; None for all nodes in their order.
    """
    chosen: Sequence[NodeCost] = profile.nodes
    if top:
        chosen = sorted(profile.nodes, key=lambda node: (-node.macs, -node.other_ops))[:top]
    number = f"{len(chosen)} of {len(profile.nodes)} nodes, most MACs first" if top else f"all {len(chosen)} nodes"
    operators = Fitted(_operators(profile))
    first = {key: getattr(profile, key) for key in ("name", "inputs", "macs", "other_ops", "is_complete")}
    return View(
        head=[
            *_totals(profile),
            terminal.lines("\nby operator", style="bold"),
            operators,
            terminal.line(number, style="bold"),
        ],
        shown=_node_rows(profile, chosen),
        rows=[_node_fields(profile, node) for node in chosen],
        content=first | dataclasses.asdict(profile),
        notes=_notes(profile.notes),
        legend=_COSTS,
    )


def tensors(profile: Profile) -> View:
    """The type, shape and size of every tensor."""
    rows = [dataclasses.asdict(info) for info in profile.tensors.values()]
    return View(
        head=[_title(profile.name, profile.inputs)],
        shown=[
            {
                "tensor": short(info.name),
                "type": info.dtype,
                "shape": shape_text(info.shape),
                "bytes": bytes_text(info.bytes),
                "kind": "weight" if info.is_weight else "observed" if info.observed else "",
            }
            for info in profile.tensors.values()
        ],
        rows=rows,
        content=rows,
        notes=_notes(profile.notes),
    )


def weights(name: str, reports: Sequence[Mapping[str, Any]]) -> View:
    """Zeros and statistics of each weight, as `bench.onnxfile.weights.report` gives them."""
    none = {"element_ratio": None, "block": None, "block_ratio": None}
    rows = [dict(report["statistics"]) | {key: (report["sparsity"] or none)[key] for key in none} for report in reports]
    return View(
        head=[terminal.line(name, style="bold")],
        shown=[
            {
                "weight": short(row["name"]),
                "type": row["dtype"],
                "shape": shape_text(row["shape"]),
                "zeros": percent(row["num_zeros"], row["num_elements"])
                if row["element_ratio"] is None
                else percent(row["element_ratio"]),
                "best block": shape_text(row["block"]) if row["block_ratio"] and max(row["block"]) > 1 else "",
                "in blocks": percent(row["block_ratio"] or 0),
                **{key: number_text(row[key]) for key in ("min", "max", "mean", "std")},
                "outliers": count_text(row["num_outliers"]),
            }
            for row in rows
        ],
        rows=rows,
        content=rows,
        notes=_notes(
            f"{row['name']} has {row['num_nan']} NaN and {row['num_infinite']} infinite elements"
            for row in rows
            if row["num_nan"] or row["num_infinite"]
        ),
        legend=_ZEROS,
    )


def memory(answer: Mapping[str, Any], top: int | None = None) -> View:
    """The plan of activation memory beside its bounds, as `bench.onnxfile.memory.activations` gives it.

    Args:
        answer: the answer to the request `memory`.
        top: number of buffers to show, the largest first; None for all buffers in their order.
    """
    arena, bound, native = (answer[f"{key}_bytes"] for key in ("arena", "lower_bound", "native"))
    rows = {
        "planned": f"{bytes_text(arena)}, {100 * (arena / bound - 1) if bound else 0:.2f} % over the lower bound",
        "lower bound": bytes_text(bound),
        "without reuse": bytes_text(native),
    }
    for plan in answer["onnxruntime"]:
        how = "optimized" if plan["optimized"] else "as it is"
        rows[f"ONNX Runtime, graph {how}"] = (
            f"{bytes_text(plan['planned_bytes'])} asked for, {bytes_text(plan['taken_bytes'])} taken"
        )
    buffers = answer["buffers"]
    chosen = sorted(buffers, key=lambda buffer: -buffer["size_bytes"])[:top] if top else buffers
    number = f"{len(chosen)} of {len(buffers)} buffers" + (", largest first" if top else "")
    unknown = answer["unknown"]
    left_out = [f"the sizes of {len(unknown)} activations are not known; they are not in the plan"] if unknown else []
    return View(
        head=[*_head(answer["name"], answer["inputs"], rows), terminal.lines(f"\n{number}", style="bold")],
        shown=[
            {
                "buffer": short(buffer["name"]),
                "offset": str(buffer["offset_bytes"]),
                "size": bytes_text(buffer["size_bytes"]),
                "in use": f"{buffer['first_step']} to {buffer['last_step']}",
            }
            for buffer in chosen
        ],
        rows=chosen,
        content=answer,
        notes=_notes([*answer["notes"], *left_out]),
        legend=MEMORY,
    )


def _notes(notes: Iterable[str]) -> list[str]:
    return [f"note: {note}" for note in notes]


def _title(name: str, inputs: Mapping[str, Sequence[int]]) -> RenderableType:
    return terminal.line(
        f"{name}  {', '.join(f'{key} {shape_text(shape)}' for key, shape in inputs.items())}", style="bold"
    )


def _head(name: str, inputs: Mapping[str, Sequence[int]], rows: Mapping[str, str]) -> list[RenderableType]:
    """The file's name with its inputs, and sizes or counts by their names; an empty text stands for 0 bytes."""
    grid = Table.grid(padding=(0, 2))
    for title, text in rows.items():
        grid.add_row(title, text or "0 B")
    return [_title(name, inputs), grid]


def _totals(profile: Profile) -> list[RenderableType]:
    sign = "" if profile.is_complete else "at least "
    shared = profile.num_params - profile.num_unique_params
    unique = f", {count_text(profile.num_unique_params)} of them unique" if shared else ""
    rows = {
        "MACs": f"{sign}{count_text(profile.macs) or 0}, and {count_text(profile.other_ops) or 0} other operations",
        "parameters": f"{count_text(profile.num_params) or 0}{unique}",
        "weights": bytes_text(profile.weight_bytes),
        "activations": bytes_text(profile.activation_bytes),
    }
    return _head(profile.name, profile.inputs, rows)


def _operators(profile: Profile) -> list[dict[str, str]]:
    groups: dict[str, list[NodeCost]] = {}
    for node in profile.nodes:
        groups.setdefault(_operator(node), []).append(node)
    sums = {
        name: {cost: sum(getattr(node, cost) for node in group) for cost in _SUMMED} for name, group in groups.items()
    }
    ranked = sorted(sums.items(), key=lambda item: (-item[1]["macs"], -item[1]["other_ops"], item[0]))
    return [
        {
            "operator": name,
            "nodes": str(len(groups[name])),
            "MACs": count_text(costs["macs"]) + ("" if all(node.known for node in groups[name]) else "?"),
            "share": percent(costs["macs"], profile.macs),
            "other ops": count_text(costs["other_ops"]),
            "parameters": count_text(costs["params"]),
            "weights": _with_share(costs["weight_bytes"], profile.weight_bytes),
            "activations": _with_share(costs["activation_bytes"], profile.activation_bytes),
        }
        for name, costs in ranked
    ]


def _with_share(part: int, whole: int) -> str:
    return f"{bytes_text(part)} {percent(part, whole):>7}" if part else ""


def _node_rows(profile: Profile, chosen: Sequence[NodeCost]) -> list[dict[str, str]]:
    looped = any(node.runs != 1 for node in chosen)
    rows = []
    for node in chosen:
        keys = [f"{node.path}:{name}" if node.path else name for name in node.outputs]
        seen = any(profile.tensors[key].observed for key in keys if key in profile.tensors)
        shape = shape_text(node.output_shapes[0]) if node.output_shapes else ""
        runs = {"runs": "?" if node.runs is None else str(node.runs)} if looped else {}
        rows.append(
            {
                "node": short(f"{node.path}/{node.name}" if node.path else node.name),
                "operator": _operator(node),
                "output": f"{shape} observed" if seen else shape,
                **runs,
                "MACs": count_text(node.macs) if node.known else "?",
                "share": percent(node.macs, profile.macs),
                "parameters": count_text(node.params),
                "weights": bytes_text(node.weight_bytes),
                "activations": bytes_text(node.activation_bytes),
            }
        )
    return rows


def _node_fields(profile: Profile, node: NodeCost) -> dict[str, object]:
    """The fields of a node in the CSV, with its shares of the totals."""
    fields: dict[str, object] = {}
    for name, value in dataclasses.asdict(node).items():
        fields[name] = value
        if name in _TOTAL:
            total = getattr(profile, _TOTAL[name])
            fields[f"{name}_share"] = value / total if total else None
    return fields | {
        "inputs": " ".join(node.inputs),
        "outputs": " ".join(node.outputs),
        "output_shapes": " ".join(shape_text(shape) for shape in node.output_shapes),
    }


def _operator(node: NodeCost) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type
