"""Differences between two ONNX models, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report import terminal
from bench.report.views import View, number_text

_MOST_LINES = 20
"""Lines shown of each kind of difference; the JSON has all of them."""


def diff_view(before: str, after: str, differences: Mapping[str, Any]) -> View:
    """The differences as the request `diff` of `bench.onnxfile.requests` gives them."""
    same = "the same computation with the same weights" if differences["equal"] else "not the same"
    operators = differences["operators"]
    totals = {key: sum(row[key] for row in operators) for key in ("before", "after")}
    return View(
        head=[terminal.line(f"{before} and {after}: {same}", style="bold")],
        shown=[_counts(row) for row in [*operators, {"operator": "all", **totals}]],
        rows=operators,
        content=differences,
        notes=[] if differences["equal"] else [*_lines(differences)],
    )


def _counts(row: Mapping[str, Any]) -> dict[str, str]:
    change = row["after"] - row["before"]
    return {
        "operator": row["operator"],
        "before": str(row["before"]),
        "after": str(row["after"]),
        "change": f"{change:+d}" if change else "",
    }


def _lines(differences: Mapping[str, Any]) -> Sequence[str]:
    rewired = [change for change in differences["changed"] if change["rewired_only"]]
    changed = [change for change in differences["changed"] if not change["rewired_only"]]
    blocks = [
        [f"interface: {line}" for line in differences["interface"]],
        [f"removed: {_node(node)}" for node in differences["removed"]],
        [f"added: {_node(node)}" for node in differences["added"]],
        [f"changed: {_node(change['after'])}: {'; '.join(change['changes'])}" for change in changed],
        [f"reads something else: {_node(change['after'])}: {'; '.join(change['changes'])}" for change in rewired],
        [_weight(change) for change in differences["changed_weights"]],
        [f"weight removed: {name}" for name in differences["removed_weights"]],
        [f"weight added: {name}" for name in differences["added_weights"]],
    ]
    lines = [f"{differences['num_same']} nodes and {differences['num_same_weights']} weights are the same"]
    for block in blocks:
        lines += block[:_MOST_LINES]
        if len(block) > _MOST_LINES:
            lines.append(f"{block[0].partition(':')[0]}: {len(block) - _MOST_LINES} more; --format json has them all")
    return lines


def _node(node: Mapping[str, str]) -> str:
    return f"{node['op_type']} {node['name']}"


def _weight(change: Mapping[str, Any]) -> str:
    if change["type_before"] != change["type_after"]:
        how = f"{change['type_before']} -> {change['type_after']}"
    elif change["max_abs_difference"] is None:
        how = "differs"
    else:
        difference, largest = (number_text(change[key]) for key in ("max_abs_difference", "max_abs_before"))
        how = f"differs by at most {difference}, of at most {largest}"
    return f"weight changed: {change['after']}: {how}"
