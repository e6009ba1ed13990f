"""Deployments of a decoder: the stages of generation, each measured as a request of its own, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.names import NEW, PROMPT, Role, TaskName
from bench.measure.stats import Estimate
from bench.pipeline import sweeps
from bench.pipeline.generation_quality import AGREEMENT
from bench.records import ranking, read_bounds
from bench.records.folder import Results
from bench.records.lines import Generation
from bench.records.rows import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deployment:
    """One way to run a decoder, with a row for each stage that was measured.

    Attributes:
        family: name of the decoder's task.
        name: source, exporter, variant, runtime and provider, joined by `/`.
        threads: threads of the engine.
        rows: sound rows with a latency, by stage.
        over: by runtime that a framework itself has, the ratio of its time per output token to this deployment's at
            each depth, above 1 where this one is faster.
        metric: the decoder's metric after the shortest prompt; None where the engine hides its logits.
        metric_name: its name.
        agreement: share of greedy tokens that agree with the reference's, the smallest of all stages.
        cache: facts about its cache, of the shortest prompt.
    """

    family: str
    name: str
    threads: int
    rows: Mapping[TaskName, Row]
    over: Mapping[str, Mapping[TaskName, Estimate]]
    metric: float | None
    metric_name: str
    agreement: float | None
    cache: Generation

    def latency_ns(self, stage: TaskName) -> float | None:
        """The median latency of a stage: of a prefill the time to first token, or else the time per output token."""
        row = self.rows.get(stage)
        return row.latency_p50_ns if row is not None else None


def deployments(stored: Results, rows: Iterable[Row]) -> list[Deployment]:
    """The deployments of decoders among rows, by family and threads the fastest decoder first.

    Args:
        stored: the results that the rows are of.
        rows: rows to join; those of other tasks, without a latency or with wrong answers are left out.
    """
    by_deployment: dict[tuple[str, str, int], dict[TaskName, Row]] = {}
    for row in rows:
        task, is_sound = row.task_name, row.status == "ok" and row.fidelity != "broken"
        if task.role is Role.GENERATION and is_sound and row.latency_p50_ns:
            by_deployment.setdefault((task.model, ranking.short_name(row), row.threads), {})[_stage(task)] = row
    candidates = [_deployment(stored, key, stages) for key, stages in by_deployment.items()]
    return sorted((deployment for deployment in candidates if deployment is not None), key=_speed)


def _stage(task: TaskName) -> TaskName:
    """A request to generate, with its sizes where its name tells none."""
    return task.at({PROMPT: task.num_prompt, NEW: task.num_new})


def _speed(deployment: Deployment) -> tuple[str, int, float, str]:
    """Sorts by the time per output token at the least depth."""
    decode = [
        row.latency_p50_ns or 0.0 for stage, row in sorted(deployment.rows.items(), key=_order) if not stage.is_prefill
    ]
    return deployment.family, deployment.threads, decode[0] if decode else float("inf"), deployment.name


def _order(pair: tuple[TaskName, Row]) -> tuple[int, int]:
    stage, _ = pair
    return stage.num_prompt, stage.num_new


def _deployment(stored: Results, key: tuple[str, str, int], rows: Mapping[TaskName, Row]) -> Deployment | None:
    """A deployment; None where no row's record tells of a cache, as with a damaged line."""
    family, name, threads = key
    ordered = dict(sorted(rows.items(), key=_order))
    records = {stage: stored.records[row.cell] for stage, row in ordered.items()}
    known = {
        stage: generation for stage, record in records.items() if (generation := read_bounds.generation_of(record))
    }
    if not known:
        return None
    at = next((stage for stage in known if not stage.is_prefill), next(iter(known)))
    quality = records[at].quality
    assert quality is not None, "what is known of a cache is a part of the quality"
    agreements = [
        share
        for record in records.values()
        if record.quality is not None and (share := (record.quality.metrics or {}).get(AGREEMENT)) is not None
    ]
    return Deployment(
        family=family,
        name=name,
        threads=threads,
        rows=ordered,
        over={str(cell.runtime): _over(stored, ordered, cell) for cell in _plain(next(iter(ordered.values())))},
        metric=(quality.metrics or {}).get(quality.metric_name or ""),
        metric_name=quality.metric_name or "",
        agreement=min(agreements, default=None),
        cache=known[at],
    )


def _plain(row: Row) -> list[Cell]:
    """What people run who have only trained the decoder, in each framework; none where its task is not here."""
    try:
        return sweeps.baselines(row.task, row.batch, row.threads)
    except BenchError:
        return []


def _over(stored: Results, rows: Mapping[TaskName, Row], plain: Cell) -> dict[TaskName, Estimate]:
    """How many times as fast each decode stage is as with a framework alone, in the blocks that connect the two."""
    ratios = {}
    for stage, row in rows.items():
        other = dataclasses.replace(plain, task=row.task_name).path
        fitted = stored.measurements.of(row.cell)
        if stage.is_prefill or fitted is None or other == row.cell or not {other, row.cell} <= set(fitted.names):
            continue
        ratio = fitted.between(other, row.cell).ratio
        if ratio is not None:
            ratios[stage] = ratio
    return ratios
