"""Figures of a search: proposals by what is lost and what is made small, and what letters of groups save and cost."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.api.errors import BenchError
from bench.api.loss_units import DB
from bench.features.search import saved
from bench.features.search.design import Design
from bench.features.search.effects import Effects, Key, decibels
from bench.features.search.proposals import LATENCY, MEMORY, SIZE, Proposal, front
from bench.features.search.search import Outcome
from bench.report.figures import canvas
from bench.report.figures.canvas import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 4.4
_BAR = 0.24
"""Inches from one line to the next."""
_MOST_BARS = 60
"""Bars of a figure: those of the letters that change most of what is made small."""
_GREYS = ("#C8C8C8", "#8A8A8A", "#000000")
"""Of the fronts after the first, the middle and the last round."""
_FRONTS = (
    "A mark for each proposal, on the samples that the search sees; the arrows point to what is better. Lines: the "
    "proposals that no other beats in both, after the first round (light), after half of the rounds, and at the end "
    "(black). A fidelity above 60 dB is drawn at 60."
)
_GAINS = " Loss: of the task's own metric on the tuning samples; a proposal that gains is drawn at 0."
_LOSSES = (0, 0.1, 1, 10, 100, 1000)
"""Marks of the axis of losses, in per cent or dB."""
_LINEAR = 0.1
"""Per cent of the metric, or dB, below which the axis of losses is linear; above, it is logarithmic."""
_MOST_LOST = 1000.0
"""Per cent of the metric, or dB, at which a larger loss is drawn: a kept file may hold any number."""
_MOST_DB = 60.0
"""Fidelity at which a higher one is drawn: outputs without any error would take most of the axis."""
_LETTERS = (
    "Bars: what a letter saves for all operators of a group, by least squares over all proposals; to the left of zero "
    "it costs more. At the right: its noise, as the fidelity that this letter alone would leave, and what it adds to "
    "the size. A letter that was tried with others alone has no bar."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Axis:
    """What a search makes small, on the axes of its figures.

    Attributes:
        cost: title of the axis of the proposals.
        unit: of a proposal's cost, in that of the axis.
        saved: title of the axis of the letters.
        effects: what each letter adds, and how much of it is one on that axis.
    """

    cost: str
    unit: float
    saved: str
    effects: Callable[[Effects], tuple[Mapping[Key, float], float]]


AXES = {
    LATENCY: _Axis(
        cost="latency over the baseline's",
        unit=1.0,
        saved="latency saved (% of the float export's)",
        effects=lambda effects: (effects.ratio, 0.01),
    ),
    SIZE: _Axis(cost="size (MB)", unit=1e6, saved="size saved (kB)", effects=lambda effects: (effects.size_bytes, 1e3)),
    MEMORY: _Axis(
        cost="peak memory (MB)",
        unit=1e6,
        saved="memory saved (MB)",
        effects=lambda effects: (effects.memory_bytes, 1e6),
    ),
}


def draw(outcomes: Sequence[Outcome], request: tuple[str, int, int], objective: str, folder: Path) -> list[Path]:
    """Write `<name>-search` and, for each design that was searched further, `<name>-letters-<number>`.

    Args:
        outcomes: the designs with their proposals, all over one baseline.
        request: task, batch and threads, by which the figures are called: see `saved.name_of`.
        objective: what was made small.
        folder: folder of the figures, which is made where it is missing. Those of an earlier search are removed.

    Returns:
        The paths of the figures, each as .png and .svg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = saved.name_of(request, objective)
    for old in folder.glob(f"{glob.escape(name)}-letters-*"):
        old.unlink()
    paths = []
    with _figures(outcomes, request[0], objective) as figures:
        for what, figure in figures.items():
            paths += [canvas.save(figure, folder / f"{name}-{what}.{suffix}") for suffix in ("png", "svg")]
    return paths


def drawings(outcomes: Sequence[Outcome], task: str, objective: str) -> list[bytes]:
    """The same figures as SVG."""
    with _figures(outcomes, task, objective) as figures:
        return [canvas.content(figure, "svg") for figure in figures.values()]


@contextlib.contextmanager
def _figures(outcomes: Sequence[Outcome], task: str, objective: str) -> Iterator[dict[str, Figure]]:
    """The figures by name, in the style to write them in."""
    import matplotlib

    with matplotlib.rc_context(canvas.STYLE):
        figures = {"search": _proposals(outcomes, task, objective)}
        drawn = filter(None, (_letters(outcome, task, objective) for outcome in outcomes))
        figures |= {f"letters-{number}": figure for number, figure in enumerate(drawn, start=1)}
        yield {name: figure for name, figure in figures.items() if figure is not None}


def _proposals(outcomes: Sequence[Outcome], task: str, objective: str) -> Figure | None:
    from matplotlib.lines import Line2D

    timed = [[each for each in outcome.proposals if math.isfinite(each.cost(objective))] for outcome in outcomes]
    everything = [each for proposals in timed for each in proposals]
    if not everything:
        return None
    handles = [
        Line2D([], [], color=COLOURS[number % 8], marker=MARKERS[number % 8], ls="", label=_name(outcome))
        for number, outcome in enumerate(outcomes)
        if timed[number]
    ]
    losses = [proposal for proposal in everything if proposal.tried.metric_loss is not None]
    with_losses = [True, False] if len(losses) == len(everything) else [False]
    figure, panels = canvas.sheet(
        f"{task}: proposals of a search for {objective}",
        [("", HEIGHT / len(with_losses))] * len(with_losses),
        left=0.55,
        right=0.2,
        handles=handles,
        footnote=_FRONTS + (_GAINS if len(with_losses) > 1 else ""),
    )
    for axes, has_losses in zip(panels, with_losses, strict=True):
        _panel(axes, timed, objective, has_losses)
    panels[-1].set_xlabel(f"{AXES[objective].cost}, lower is better \N{LEFTWARDS ARROW}")
    return figure


def _panel(axes: Axes, designs: Sequence[Sequence[Proposal]], objective: str, has_losses: bool) -> None:
    """Proposals by what is made small, and by the loss of the metric or by fidelity."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    everything = [each for proposals in designs for each in proposals]
    last = max(each.tried.number for each in everything)
    for colour, number in zip(_GREYS, (1, math.ceil(last / 2), last), strict=True):
        _front(axes, [each for each in everything if each.tried.number <= number], objective, colour, has_losses)
    for number, proposals in enumerate(designs):
        points = [_point(each, objective, has_losses) for each in proposals]
        xs, ys = zip(*points, strict=True) if points else ((), ())
        axes.plot(xs, ys, color=COLOURS[number % 8], marker=MARKERS[number % 8], ms=4.5, ls="", mec="white", mew=0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
    axes.tick_params(axis="x", which="both", labelsize=7, length=3)
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    if has_losses:
        most = max(_point(each, objective, has_losses)[1] for each in everything)
        axes.set_yscale("symlog", linthresh=_LINEAR)
        axes.set_ylim(-_LINEAR / 5, 2 * max(1.0, most))
        axes.set_yticks([tick for tick in _LOSSES if tick <= 2 * max(1.0, most)])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        is_in_db = any(each.tried.metric_loss_unit == DB for each in everything)
        axes.set_ylabel(f"\N{LEFTWARDS ARROW} loss ({'dB' if is_in_db else '%'})")
    else:
        axes.set_ylabel("fidelity (dB) \N{RIGHTWARDS ARROW}")


def _front(axes: Axes, proposals: Sequence[Proposal], objective: str, colour: str, has_losses: bool) -> None:
    points = [
        _point(proposal, objective, has_losses) for proposal in front(proposals, objective, by_noise=not has_losses)
    ]
    if points:
        xs, ys = zip(*points, strict=True)
        axes.step(xs, ys, where="post", color=colour, linewidth=1, zorder=1)


def _point(proposal: Proposal, objective: str, has_losses: bool) -> tuple[float, float]:
    """Where a proposal stands: what is made small, and the loss of the metric in per cent or dB, or the fidelity."""
    cost = proposal.cost(objective) / AXES[objective].unit
    if has_losses:
        scale = 1.0 if proposal.tried.metric_loss_unit == DB else 100.0
        return cost, min(_MOST_LOST, scale * max(0.0, proposal.tried.metric_loss or 0.0))
    return cost, min(_MOST_DB, decibels(proposal.tried.noise))


def _letters(outcome: Outcome, task: str, objective: str) -> Figure | None:
    effects, design = outcome.effects(), outcome.design
    added, unit = AXES[objective].effects(effects)
    most = sorted(effects.distinct & added.keys(), key=lambda key: (-abs(added[key]), key))[:_MOST_BARS]
    keys = sorted(most)
    if not keys:
        return None
    lines = [
        canvas.Line(
            design.named(group) if design.option(group) else f"{design.named(group)}: {letter}",
            f"{_fidelity(effects.noise.get((group, letter), 0.0))}, "
            f"{round(effects.size_bytes[group, letter] / 1e3):+d} kB",
        )
        for group, letter in keys
    ]
    figure, (axes,) = canvas.sheet(
        f"{task}: what each letter saves and costs, {_name(outcome)}",
        [("", _BAR * len(lines))],
        left=canvas.text_width(line.name for line in lines) + 0.1,
        right=canvas.text_width(line.note for line in lines) + 0.2,
        handles=[],
        footnote=f"{_LETTERS} {'; '.join(_meanings(design, keys))}.",
    )
    order = {letter: number for number, letter in enumerate(dict.fromkeys(letter for _, letter in keys))}
    for index, key in enumerate(keys):
        look = order[key[1]] % 8
        axes.barh(index, -added[key] / unit, height=0.65, color=COLOURS[look], hatch=canvas.HATCHES[look], ec="white")
    axes.axvline(0, color="#444444", linewidth=0.8)
    canvas.name_lines(axes, lines)
    axes.set_xlabel(AXES[objective].saved)
    return figure


def _meanings(design: Design, keys: Sequence[tuple[int, str]]) -> list[str]:
    from bench.plugins import catalog

    # A search may be shown where its variant or runtime is gone, or has other letters now.
    letters: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    with contextlib.suppress(BenchError):
        letters = {} if design.variant is None else catalog.variant_file(design.variant).letters
        options = catalog.runtime(design.base.runtime).options
    chosen = dict.fromkeys(design.option(group) or letter for group, letter in keys)
    meanings = {**letters, **options}
    return [f"{name}: {meanings[name]}" for name in chosen if name in meanings]


def _fidelity(noise: float) -> str:
    return f"{decibels(noise):.0f} dB" if noise > 0 else "no noise"


def _name(outcome: Outcome) -> str:
    base = outcome.design.base
    of = "options" if outcome.design.variant is None else outcome.design.variant
    return f"{of} of {base.exporter} on {base.runtime}/{base.provider}"
