"""Planted slowdowns between sweeps: one cell in folders of its own, with more and more work planted in it.

The cell is super_resolution on ONNX Runtime, beside its baseline, PyTorch, which stays as it is. The variant `strip` of
`benchmarks/plugins` plants the work; a copy of its file for each slowdown plays the revisions of a model, so that the
path of the cell is the same in every folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import instrument
import sweeps
from sweeps import Swept

from bench.features.compare import changes as compare
from bench.measure import stats

CELL = "super_resolution/torch/torch_onnx/strip{}/onnxruntime/cpu/b1t1"
TODAY = CELL.format("")
PERCENTS = (0, 3, 5, 10, 20)
VARIANT = Path(instrument.__file__).parent / "plugins" / "variants" / "strip.py"
LINE = "TODAY_PERCENT = {}\n"
ENOUGH = 0.9
MOST_ALARMS = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One comparison of a plain folder with a folder of a later turn.

    Attributes:
        percent: the work planted in the later one.
        verdict: of `bench compare`.
        text: the ratio with its interval.
    """

    percent: int
    verdict: str
    text: str


def revisions(place: Path) -> dict[int, Path]:
    """For each slowdown, a folder of plugins in which the cell has that much more work."""
    source = VARIANT.read_text()
    if source.count(LINE.format(0)) != 1:
        raise SystemExit(f"{VARIANT} does not say {LINE.format(0)!r} once")
    folders = {percent: place / f"plus{percent}" for percent in PERCENTS}
    for percent, folder in folders.items():
        (folder / "variants").mkdir(parents=True, exist_ok=True)
        (folder / "variants" / VARIANT.name).write_text(source.replace(LINE.format(0), LINE.format(percent)))
    return folders


def turn(place: Path, plugins: dict[int, Path], budget: str) -> dict[int, Swept]:
    """Sweep the cell once with each slowdown, the plain one first."""
    return {
        percent: sweeps.run([TODAY], place / f"plus{percent}", budget=budget, plugins=folder)
        for percent, folder in plugins.items()
    }


def true_slowdowns(place: Path, budget: str) -> dict[int, float]:
    """The slowdowns as ratios, measured in the same blocks, interleaved."""
    cells = {percent: CELL.format(f"-{percent}" if percent else "") for percent in PERCENTS}
    swept = sweeps.run(list(cells.values()), place, budget=budget)
    found = {}
    for percent in PERCENTS[1:]:
        compared = compare.cells(swept.results, cells[0], cells[percent], margin=sweeps.MARGIN)
        judged = compared.changes[0].judged
        if judged is None:
            raise SystemExit(f"{percent} % more work: {compared.changes[0].note}")
        found[percent] = judged.ratio.value
        estimate = f"{judged.ratio.value:.4f} [{judged.ratio.low:.4f}, {judged.ratio.high:.4f}]"
        print(f"{percent:3} % more rows, in the same blocks: {estimate} {judged.verdict}")
    return found


def trials(before: Swept, after: dict[int, Swept]) -> list[Trial]:
    """Compare a plain folder with each of the folders of a later turn."""
    return [_trial(percent, before, swept) for percent, swept in after.items()]


def _trial(percent: int, before: Swept, after: Swept) -> Trial:
    change = compare.folders(before.results, after.results, [TODAY], margin=sweeps.MARGIN, force=False).changes[0]
    if change.judged is None:
        raise SystemExit(f"{before.results} and {after.results}: {change.note}")
    ratio = change.judged.ratio
    text = f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]"
    return Trial(percent=percent, verdict=change.judged.verdict, text=text)


def summarize(found: Sequence[Trial], truth: dict[int, float]) -> list[str]:
    """Print how many slowdowns were found, and return what does not hold."""
    verdicts = {percent: [trial.verdict for trial in found if trial.percent == percent] for percent in PERCENTS}
    alarms = sum(verdict in (stats.SLOWER, stats.FASTER) for verdict in verdicts[0])
    num_trials = len(verdicts[0])
    print(f"nothing planted: {alarms} false alarms in {num_trials} trials")
    enough = []
    for percent in PERCENTS[1:]:
        num_found = verdicts[percent].count(stats.SLOWER)
        print(f"{percent} % planted ({truth[percent] - 1:.1%} slower): found in {num_found} of {num_trials} trials")
        enough += [percent] if num_found >= ENOUGH * num_trials else []
    failures = ["too many false alarms"] if alarms > MOST_ALARMS * num_trials else []
    if not enough:
        return [*failures, "no slowdown was found in 9 of 10 trials"]
    print(f"the smallest slowdown found in 9 of 10: {enough[0]} % planted, {truth[enough[0]] - 1:.1%} slower")
    return failures
