"""Deployments and metrics in words, for figures and sentences: `LiteRT, int8` rather than the path of a cell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from bench.api import loss_units
from bench.api.errors import BenchError
from bench.api.fidelity import EXEMPT, FidelityTask
from bench.api.names import Role, TaskName
from bench.decisions.best import Best
from bench.measure.stats import Estimate
from bench.records.rows import Row
from bench.report import outcome, writing
from bench.report.figures.canvas import digits

_ERROR_RATES = ("cer", "wer")
_SHARES = ("accuracy", *_ERROR_RATES)
"""Metrics that are shares by their definition, and are told in per cent: these, and names that end with one of them."""
_ACRONYM = 4
"""Letters of a metric's name up to which it is taken for an acronym."""

_NO_LABELS = "no labels, so outputs alone are judged"
"""`EXEMPT` in a sentence that does not say what fidelity is."""


def title_of(runtime: str) -> str:
    """The name of a runtime in words; that of its plugin where the runtime is not here."""
    from bench.plugins import catalog

    with contextlib.suppress(BenchError):
        return catalog.runtime(runtime).title or runtime
    return runtime


def in_words(row: Row) -> str:
    """The runtime of a row in words, and the precision where it is a reduced one: `LiteRT, int8`."""
    return title_of(row.runtime) + (f", {row.precision}" if row.precision not in (None, "float32") else "")


def metric_in_words(row: Row) -> tuple[str, str]:
    """`Accuracy 92.78 %` and what is lost of it; of a task without labels, how far the outputs are off.

    Both are empty for a row without a metric.
    """
    if row.metric is None or not row.metric_name:
        return "", ""
    name, value, unit = row.metric_name, row.metric, ""
    if name == FidelityTask.metric_name:
        lost = f"differ by {loss_units.text(row.metric_loss or 0.0, row.metric_loss_unit)} of the signal"
        text = f"Outputs {lost if outcome.metric_change(row) else 'are the same'}"
        note = _NO_LABELS if row.metric_loss_note == EXEMPT else row.metric_loss_note
        return text, f" ({note})" if note else ""
    if name.rpartition("_")[2] in _SHARES:
        value, unit = 100 * value, " %"
    elif name.endswith("_db"):
        unit = " dB"
    lost = ", ".join(filter(None, (outcome.metric_change(row), outcome.metric_bound(row))))
    lost = lost or ("same" if row.metric_loss is not None else "")
    return f"{metric_title(name)} {value:.4g}{unit}", f" ({lost})" if lost else ""


def metric_title(name: str) -> str:
    """The name of a metric without its unit: `CER`, `PSNR`, `Accuracy`, `Line CER`."""
    name = name.removesuffix("_db")
    if len(name) <= _ACRONYM:
        return name.upper()
    words = [word.upper() if word in _ERROR_RATES else word for word in name.split("_")]
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


def default_in_words(deployments: Iterable[Best], source: str) -> str:
    """The default of a framework in words, where it is the same runtime for all deployments."""
    names = {
        title_of(str(deployment.defaults[source].runtime))
        for deployment in deployments
        if source in deployment.defaults
    }
    return names.pop() if len(names) == 1 else f"{source}'s default"


def times_as_fast(over: Estimate | None) -> str:
    """How many times as fast as another a deployment is, of the ratio of its latency: `3.57 [3.28, 3.89]`."""
    if over is None:
        return writing.DASH
    if over.low == over.high == 1.0:
        return "itself"
    value, low, high = (digits(1 / ratio, 3) for ratio in (over.value, over.high, over.low))
    return f"{value} [{low}, {high}]"


def request_in_words(task: str) -> str:
    """What a heading calls a task: its name, or of one that generates text `codegen_lm, a token after 256`."""
    name = TaskName.parse(task)
    if name.role is not Role.GENERATION:
        return task
    return f"{name.model}, {'the first token' if name.is_prefill else 'a token'} after {name.num_prompt}"
