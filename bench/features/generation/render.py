"""The table of decoders: time to first token, time per output token and what both cost, for each deployment."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from bench.api.errors import InputError
from bench.api.names import TaskName
from bench.features.generation.deployments import Deployment
from bench.records import machines
from bench.report import writing
from bench.report.writing import DASH

_LEGEND = (
    "TTFT: time to first token, the prefill of a prompt of so many tokens. TPOT: time per output token, with so many "
    "and more tokens in the cache (KV depth); p50 (p90). Bound: the least time in which this machine reads the weights "
    "and the cache once, over the TPOT, at the least depth. Greedy: share of the tokens that the engine chooses by "
    "itself that agree with the reference's, where the reference's two likeliest are further apart than the row's "
    "precision. KV: bytes of keys and values a token, and tokens for which room is kept from the start. Metric: after "
    "the shortest prompt; {dash} where the engine hides its logits. Peak: the most of all stages. Over a runtime: the "
    "TPOT of what is trained, run by its own framework, over this one's at the least depth, paired, with the 95 % "
    "interval; above 1 is faster."
)
_WIDE = 150
"""Characters of a terminal that shows all columns; narrower, those in `_NARROW` alone."""
_NARROW = ("ttft", "tpot", "bound", "metric", "greedy")

_Column = tuple[str, str, Callable[[Deployment], str]]
"""What kind of figure it is, its title, and its text."""


def render(deployments: Sequence[Deployment], *, format: str) -> str:
    """The tables as Markdown (`md`) or for a terminal (`table`), one for each decoder and number of threads.

    Raises:
        InputError: another format, or there is nothing to show.
    """
    if format not in ("md", "table"):
        raise InputError(f"the table of generation is printed as md or table, not {format}")
    if not deployments:
        raise InputError("no decoder was measured; `bench run --sweep generation` does")
    groups: dict[tuple[str, int], list[Deployment]] = {}
    for deployment in deployments:
        groups.setdefault((deployment.family, deployment.threads), []).append(deployment)
    tables = [_table(family, threads, members, format) for (family, threads), members in groups.items()]
    legend = _LEGEND.format(dash=DASH)
    if format == "table":
        width = writing.terminal_width()
        if width < _WIDE:
            legend += f" At this width some columns are left out; COLUMNS={_WIDE} shows all."
        legend = textwrap.fill(legend, min(width, _WIDE))
    return "\n".join([*tables, legend + "\n"])


def _table(family: str, threads: int, members: Sequence[Deployment], format: str) -> str:
    stages = sorted(
        {stage for deployment in members for stage in deployment.rows},
        key=lambda stage: (stage.num_prompt, stage.num_new),
    )
    columns = _columns(members, stages)
    head = f"{family}, batch 1, {threads} thread{'s' * (threads > 1)}"
    rows = [row for deployment in members for row in deployment.rows.values()]
    if format == "md":
        titles = ["deployment", *(title.replace("\n", " ") for _, title, _ in columns)]
        lines = [[deployment.name, *(text(deployment) for _, _, text in columns)] for deployment in members]
        above = writing.paragraph(machines.sentences(rows), format)
        return f"### {head}\n\n{above}" + writing.markdown(titles, lines, [True, *[False] * len(columns)])
    if writing.terminal_width() < _WIDE:
        columns = [column for column in columns if column[0] in _NARROW]
    figures = [[title, *(text(deployment) for deployment in members)] for _, title, text in columns]
    room = max(
        writing.NARROWEST_NAME, writing.room_for_names([rows[0] for rows in figures], [*zip(*figures, strict=True)])
    )
    names = [writing.wrap_name(deployment.name, room) for deployment in members]
    lines = [[name, *line] for name, line in zip(names, list(zip(*figures, strict=True))[1:], strict=True)]
    head += "\n" + writing.paragraph(machines.sentences(rows, writing.terminal_width()), format)
    return head + writing.plain(["deployment", *(rows[0] for rows in figures)], lines, format=format)


def _columns(members: Sequence[Deployment], stages: Sequence[TaskName]) -> list[_Column]:
    prefills = [stage for stage in stages if stage.is_prefill]
    decodes = [stage for stage in stages if not stage.is_prefill]
    metric = members[0].metric_name
    columns: list[_Column] = [_prefill(stage) for stage in prefills]
    columns += [_decode(stage) for stage in decodes]
    if decodes:
        first = decodes[0]
        columns += [
            ("rate", "tokens/s\n" + f"at {first.num_prompt}", lambda deployment: _rate(deployment, first)),
            ("bound", "bound\n(%)", lambda deployment: _bound(deployment, first)),
        ]
    columns += [
        (
            "metric",
            metric.replace("_", " "),
            lambda deployment: DASH if deployment.metric is None else f"{deployment.metric:.4f}",
        ),
        (
            "greedy",
            "greedy\n(%)",
            lambda deployment: DASH if deployment.agreement is None else f"{100 * deployment.agreement:.4g}",
        ),
        ("kv", "KV\n(B/token)", lambda deployment: f"{deployment.cache.cache_bytes_per_token:,}"),
        ("kv", "reserved\n(tokens)", lambda deployment: _reserved(deployment.cache.reserved_tokens)),
        (
            "memory",
            "peak\n(MB)",
            lambda deployment: writing.megabytes(max(row.peak_rss_bytes or 0 for row in deployment.rows.values())),
        ),
        ("size", "size\n(MB)", lambda deployment: writing.megabytes(next(iter(deployment.rows.values())).size_bytes)),
    ]
    if decodes:
        names = dict.fromkeys(name for deployment in members for name in deployment.over)
        columns += [
            _over(name, decodes[0])
            for name in names
            if any(decodes[0] in deployment.over[name] for deployment in members)
        ]
    return columns


def _reserved(num_tokens: int | None) -> str:
    return "grows" if num_tokens is None else f"{num_tokens:,}"


def _prefill(stage: TaskName) -> _Column:
    return (
        "ttft",
        f"TTFT\n{stage.num_prompt} (ms)",
        lambda deployment: writing.milliseconds(deployment.latency_ns(stage)),
    )


def _decode(stage: TaskName) -> _Column:
    def text(deployment: Deployment) -> str:
        row = deployment.rows.get(stage)
        if row is None:
            return DASH
        late = f" ({writing.milliseconds(row.latency_p90_ns, '.3g')})" if row.latency_p90_ns else ""
        return writing.milliseconds(row.latency_p50_ns) + late

    return "tpot", f"TPOT\n{stage.num_prompt} (ms)", text


def _rate(deployment: Deployment, stage: TaskName) -> str:
    latency_ns = deployment.latency_ns(stage)
    return DASH if latency_ns is None else f"{1e9 / latency_ns:.4g}"


def _bound(deployment: Deployment, stage: TaskName) -> str:
    row = deployment.rows.get(stage)
    return DASH if row is None or row.roof_share is None else f"{100 * row.roof_share:.3g}"


def _over(name: str, stage: TaskName) -> _Column:
    def text(deployment: Deployment) -> str:
        ratio = deployment.over[name].get(stage)
        return DASH if ratio is None else f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"

    return "over", f"over {name}\n[95 %]", text
