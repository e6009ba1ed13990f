"""What prefill and decode of a language model cost, and how fast they are at most: `bench profile --by generation`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bench.features.profile.decoders import Costs, Rates
from bench.measure.generation import CACHE_BYTES, WEIGHT_BITS, Bound, Pass, peak_rate
from bench.report import terminal
from bench.report.views import View, bytes_text, count_text, time_text

_LEGEND = (
    "MACs: products with weights, and attention of each token to those before it; logits of the last token alone. "
    "Weights: every one is read once a pass, of a table the rows of its tokens, taken as different. KV: keys and "
    "values that attention reads. At least and at most: by the arithmetic and the memory of this machine as measured "
    "now, which is slower while it is busy; a deployment is slower."
)


def view(name: str, costs: Costs, at_most: Rates, bounds: Sequence[Bound]) -> View:
    """The table of the passes.

    Args:
        name: of the model.
        costs: what it costs.
        at_most: what the machine does at most.
        bounds: the least time of each pass.
    """
    rows = [_row(costs, cost, least) for cost, least in zip(costs.passes, bounds, strict=True)]
    kept_bytes = CACHE_BYTES.get(costs.stored, 2)
    weight_bytes = costs.num_params * WEIGHT_BITS[costs.stored] / 8
    head = [
        terminal.line(f"{name}, {costs.architecture}", style="bold"),
        terminal.line(
            f"{count_text(costs.num_params)} parameters, {bytes_text(round(weight_bytes))} in {costs.stored}; "
            f"{bytes_text(costs.cache_per_token * kept_bytes)} of keys and values a token"
        ),
        terminal.line(
            f"this machine, {at_most.threads} thread{'s' * (at_most.threads > 1)}: "
            f"{count_text(round(peak_rate(at_most.peaks, costs.stored)))} MACs/s, reads "
            f"{bytes_text(round(at_most.bytes_per_s))}/s"
        ),
    ]
    return View(
        head=head,
        shown=[_shown(row) for row in rows],
        rows=rows,
        content={
            **{key: value for key, value in dataclasses.asdict(costs).items() if key not in ("passes", "notes")},
            "name": name,
            "weight_bytes": round(weight_bytes),
            "cache_bytes_per_token": costs.cache_per_token * kept_bytes,
            "machine": dataclasses.asdict(at_most),
            "passes": rows,
            "notes": costs.notes,
        },
        notes=costs.notes,
        legend=_LEGEND,
    )


def _row(costs: Costs, cost: Pass, least: Bound) -> dict[str, Any]:
    """A pass in raw units."""
    num_bytes = cost.num_bytes(costs.stored)
    return {
        "pass": "prefill" if cost.depth == 0 else "decode",
        **dataclasses.asdict(cost),
        "macs": cost.macs,
        "weight_bytes": round(cost.weights_read * WEIGHT_BITS[costs.stored] / 8),
        "cache_bytes": cost.cache_read * CACHE_BYTES.get(costs.stored, 2),
        "kept_bytes": cost.cache_kept * CACHE_BYTES.get(costs.stored, 2),
        "macs_per_byte": cost.macs / num_bytes,
        "bound_by": least.by,
        "least_ns": round(least.seconds * 1e9),
        "most_tokens_per_s": costs.batch * cost.num_tokens / least.seconds,
    }


def _shown(row: dict[str, Any]) -> dict[str, str]:
    """A pass in units for people."""
    return {
        "pass": f"prefill of {row['num_tokens']}" if row["depth"] == 0 else f"decode after {row['depth']}",
        "MACs": count_text(row["macs"]),
        "attention": count_text(row["attention_macs"]),
        "weights": bytes_text(row["weight_bytes"]),
        "KV read": bytes_text(row["cache_bytes"]),
        "KV kept": bytes_text(row["kept_bytes"]),
        "MACs/byte": f"{row['macs_per_byte']:.3g}",
        "bound by": row["bound_by"],
        "at least": time_text(row["least_ns"]),
        "tokens/s at most": f"{row['most_tokens_per_s']:,.4g}",
    }
