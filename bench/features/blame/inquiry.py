"""One blame from its two sides to the answer: record, profile, align, cut, measure."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.api import NodeTime
from bench.api.errors import ArtifactError, BenchError, ChildError, InputError
from bench.features.blame import answer, publishing, reproducer, sides, witness, worker_requests
from bench.features.blame.answer import Blame, DriftBlame
from bench.features.blame.blaming import Search
from bench.features.blame.cuts import Aligned, Graph, Part, align
from bench.features.blame.drifting import Drifted, DriftSearch
from bench.features.blame.outcome import Line
from bench.features.blame.outputs import Comparing
from bench.features.blame.parts import Cut, Cutter, Stopwatch
from bench.features.blame.reproducer import Finding
from bench.features.blame.sides import Pair
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.measure.scratch import Scratch
from bench.measure.stats import NOISE_FLOOR, Estimate
from bench.pipeline import opening
from bench.report import writing

_NOTHING = Graph(nodes=(), inputs=(), outputs=())
_OWN = "the reproducer has the model's own weights and inputs"
_MOST_OF_PART = 0.5
"""Share of what a part explains that its suspect explains at least where that is the reproducer by itself."""
_REPRODUCER_TIME = 0.08
"""Share of the budget that is left for what comes after the answer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inquiry:
    """Both sides, ready to be cut.

    Attributes:
        pair: the sides.
        aligned: their graphs; without an atom where nothing can be cut.
        profiles: the nodes that each side runs; None where there is no profile.
        feeds: `.npz` file with the inputs of one inference.
        folder: folder of temporary files.
        cutter: cuts parts out.
        limits: time and memory of each child process.
        notes: lines to tell the user.
    """

    pair: Pair
    aligned: Aligned
    profiles: tuple[Sequence[NodeTime] | None, Sequence[NodeTime] | None]
    feeds: Path
    folder: Path
    cutter: Cutter
    limits: Limits
    notes: tuple[str, ...]

    def times_ns(self) -> list[tuple[float, float]] | None:
        """For each atom, the profiled nanoseconds on both sides; None where a side has no profile."""
        first, second = self.profiles
        if first is None or second is None:
            return None
        graphs = (self.aligned.before, self.aligned.after)
        times = [[0.0, 0.0] for _ in self.aligned.atoms]
        for side, (graph, profile) in enumerate(zip(graphs, (first, second), strict=True)):
            atom_of = {index: at for at, atom in enumerate(self.aligned.atoms) for index in atom.sides[side]}
            makers, by_name = graph.makers(), {node.name: index for index, node in enumerate(graph.nodes)}
            for kernel in profile:
                names = (*kernel.covers, *kernel.makes)
                nodes = [makers[name] for name in names if name in makers]
                nodes = nodes or [by_name[name] for name in (kernel.name,) if name in by_name]
                if nodes:
                    times[atom_of[nodes[0]]][side] += kernel.time_ns
        return [(before, after) for before, after in times]


@contextlib.contextmanager
def opened(pair: Pair, limits: Limits, tell: Callable[[str], None] = lambda _: None) -> Iterator[Inquiry]:
    """Record the request, read and profile both sides, and align them; temporary files live as long as the block.

    Raises:
        BenchError: the inputs cannot be made.
    """
    notes = list(pair.notes)
    with Scratch() as folder:
        feeds = folder / "request.npz"
        samples = sides.inputs_of(pair, limits)
        arguments = {"cell": pair.samples.path, "inputs": str(samples), "target": str(feeds)}
        _ask(worker_requests.first_request, limits, **arguments)
        tell("profiling both sides")
        profiles = []
        for side in pair.sides:
            profile, reason = sides.profile(side, pair, limits)
            profiles.append(profile)
            notes += [f"{side.name}: {reason}"] if reason else []
        aligned = align(_NOTHING, _NOTHING, {})
        if (reason := pair.uncuttable()) is not None:
            notes.append(f"nothing can be cut out: {reason}")
        else:
            try:
                aligned = _aligned(pair, profiles, feeds, limits)
            except ChildError as error:
                notes.append(f"nothing can be cut out: {error.reason}")
        yield Inquiry(
            pair=pair,
            aligned=aligned,
            profiles=(profiles[0], profiles[1]),
            feeds=feeds,
            folder=folder,
            cutter=Cutter(pair, aligned, folder, feeds, limits),
            limits=limits,
            notes=tuple(dict.fromkeys(notes)),
        )


def slower(inquiry: Inquiry, *, begin_s: float, budget_s: float, tell: Callable[[str], None] = lambda _: None) -> Blame:
    """Which parts make one side slower than the other.

    Args:
        inquiry: both sides.
        begin_s: time by `time.monotonic` from which the budget counts.
        budget_s: seconds for all of it.
        tell: called with a line before each step.

    Raises:
        BenchError: a side cannot be measured.
    """
    times_ns = inquiry.times_ns()
    stopwatch = Stopwatch(inquiry.pair, inquiry.feeds, inquiry.limits, inquiry.cutter.cuts)
    whole, left_s = inquiry.aligned.whole(), budget_s * (1 - _REPRODUCER_TIME)
    # What was spent on profiles is not to shorten the measurement of the whole, so a least of it is always left.
    spent_s = min(time.monotonic() - begin_s, left_s / 2)
    times = {"begin_s": time.monotonic(), "budget_s": left_s - spent_s}
    outcome = Search(stopwatch, whole, times_ns, tell=tell, **times).run()
    unsearched = tuple(outcome.failures.values()) if outcome.remainder is None else ()
    return Blame(
        before=inquiry.pair.before.name,
        after=inquiry.pair.after.name,
        cell=inquiry.pair.after.cell.path,
        outcome=outcome,
        culprits=answer.culprits(inquiry.aligned, outcome, inquiry.profiles, times_ns),
        num_nodes=len(inquiry.aligned.before.nodes) or None,
        notes=(*inquiry.notes, *unsearched),
    )


def _aligned(pair: Pair, profiles: Sequence[Sequence[NodeTime] | None], feeds: Path, limits: Limits) -> Aligned:
    """The graphs of both sides with their common tensors.

    Raises:
        ChildError: a file cannot be read or run.
    """
    paths = [side.artifact.path for side in pair.sides]
    graphs = [_graph(path, limits) for path in (paths[:1] if pair.is_one_file else paths)]
    before, after = graphs[0], graphs[-1]
    if pair.is_one_file:
        names = {name: name for name in (*before.inputs, *before.makers())}
    else:
        arguments = {"path": str(paths[0]), "other": str(paths[1]), "feeds": str(feeds)}
        names = dict(_ask(worker_requests.common_tensors, limits, **arguments)["names"])
        names |= {name: name for name in after.inputs if name in before.inputs}
        names |= {name: name for name in after.outputs if name in before.makers()}
    kernels = [[kernel.covers for kernel in profile or ()] for profile in profiles]
    return align(before, after, names, kernels)


def _graph(path: Path, limits: Limits) -> Graph:
    """The nodes of an ONNX file.

    Raises:
        ChildError: the file cannot be read.
    """
    return msgspec.convert(_ask(worker_requests.describe, limits, path=str(path)), Graph)


def _ask(operation: Any, limits: Limits, **arguments: Any) -> Mapping[str, Any]:
    limited: dict[str, Any] = {"timeout_s": limits.verify_s, "memory_bytes": limits.memory_bytes}
    return ask_once(operation, **limited, **opening.process(), **arguments)


def wrong(inquiry: Inquiry, *, tolerance: float, tell: Callable[[str], None] = lambda _: None) -> DriftBlame:
    """Which part makes the outputs of one side differ from the other's.

    Args:
        inquiry: both sides.
        tolerance: largest error that is no drift, as a share of a tensor's largest magnitude.
        tell: called with a line before each step.

    Raises:
        InputError: nothing can be cut out of the sides' files.
        BenchError: a side does not run.
    """
    if not inquiry.aligned.atoms:
        raise InputError(f"no tensor of these can be looked at: {'; '.join(inquiry.notes)}")
    compares = Comparing(inquiry.cutter, inquiry.folder, inquiry.limits)
    drifted = DriftSearch(inquiry.aligned, compares, tolerance, tell=tell).run()
    nodes = inquiry.aligned.nodes(drifted.part) if drifted.part else ([], [])
    return DriftBlame(
        before=inquiry.pair.before.name,
        after=inquiry.pair.after.name,
        cell=inquiry.pair.after.cell.path,
        drifted=drifted,
        name=answer.maker(inquiry.aligned, drifted),
        nodes=answer.node_names(nodes),
        operators=answer.operators(nodes),
        num_nodes=len(inquiry.aligned.before.nodes),
        notes=inquiry.notes,
    )


def reproduce(
    inquiry: Inquiry, blame: Blame | DriftBlame, folder: Path, *, is_public: bool = False, has_witness: bool = False
) -> Blame | DriftBlame:
    """Write the reproducer of the part that explains most, and name it in the answer, or say why there is none.

    Args:
        inquiry: both sides.
        blame: the answer.
        folder: where the folder of the reproducer is made.
        is_public: whether random weights and inputs take the place of the model's own, if the effect stays.
        has_witness: whether instructions are counted, too.
    """
    part, finding = _finding(inquiry, blame)
    if part is None or finding is None:
        return blame
    if (reason := reproducer.refusal(inquiry.pair)) is not None:
        return dataclasses.replace(blame, notes=(*blame.notes, reason))
    try:
        written, notes = _reproduced(inquiry, blame, part, finding, folder, is_public, has_witness)
    except (BenchError, OSError) as error:  # the answer took minutes, and is not lost for a folder that is in use
        return dataclasses.replace(blame, notes=(*blame.notes, f"no reproducer: {error}"))
    return dataclasses.replace(blame, reproducer=str(written), notes=(*blame.notes, *notes))


def _reproduced(
    inquiry: Inquiry,
    blame: Blame | DriftBlame,
    part: Part,
    finding: Finding,
    folder: Path,
    is_public: bool,
    has_witness: bool,
) -> tuple[Path, list[str]]:
    """The folder of the reproducer, and lines about it.

    Raises:
        BenchError: the part cannot be cut out, or the folder has other files.
        OSError: the folder cannot be written.
    """
    cuts: tuple[Cut, Cut] | str | None = inquiry.cutter.cuts([part])[part.key]
    if isinstance(blame, DriftBlame):
        cuts = Comparing(inquiry.cutter, inquiry.folder, inquiry.limits).with_same_inputs(part)
    if cuts is None or isinstance(cuts, str):
        raise ArtifactError(cuts or "the part cannot be cut out")
    notes: list[str] = []
    if is_public:
        if isinstance(blame, DriftBlame):
            cuts, finding, note = _public_drift(inquiry, cuts, finding, blame.drifted)
        else:
            cuts, finding, note = _public(inquiry, part, cuts, finding)
        notes.append(note)
    model = inquiry.pair.after.cell.task.model
    target = folder / reproducer.folder_name(f"{model}-{finding.title.partition(':')[0]}")
    if has_witness:
        reproducer.write(target, inquiry.pair, cuts, finding)
        notes.append(_witnessed(inquiry, target, finding))
        finding = dataclasses.replace(finding, texts=(*finding.texts, notes[-1]))
    return reproducer.write(target, inquiry.pair, cuts, finding), notes


def _public(
    inquiry: Inquiry, part: Part, cuts: tuple[Cut, Cut], finding: Finding
) -> tuple[tuple[Cut, Cut], Finding, str]:
    """A part without the model's own numbers if the effect stays, or else as it is; and a line that says which."""
    assert finding.ratio is not None
    try:
        changed, num_kept = publishing.without_numbers(cuts, inquiry.folder, inquiry.limits)
        ratio = publishing.ratio(inquiry.pair, part, changed, inquiry.feeds, inquiry.limits)
    except BenchError as error:
        return cuts, finding, f"{_OWN}: with random ones it does not run: {error}"
    if ratio is None or not publishing.stays(finding.ratio, ratio):
        return cuts, finding, f"{_OWN}: with random ones the effect does not stay"
    title = f"{finding.title.rpartition(':')[0]}: {ratio.value:.2f} times as long"
    return changed, dataclasses.replace(finding, ratio=ratio, title=title), _published(num_kept)


def _public_drift(
    inquiry: Inquiry, cuts: tuple[Cut, Cut], finding: Finding, drifted: Drifted
) -> tuple[tuple[Cut, Cut], Finding, str]:
    """The same of wrong outputs, of one file that both sides run: of two, random weights would differ by themselves."""
    if cuts[0] != cuts[1]:
        return cuts, finding, f"{_OWN}: the sides run two files, and wrong outputs depend on their weights"
    try:
        changed, num_kept = publishing.without_numbers(cuts, inquiry.folder, inquiry.limits)
        error = Comparing(inquiry.cutter, inquiry.folder, inquiry.limits).error(changed, str(drifted.tensor))
    except BenchError as reason:
        return cuts, finding, f"{_OWN}: random ones cannot be made: {reason}"
    if error is None or error <= drifted.tolerance:
        return cuts, finding, f"{_OWN}: with random ones the outputs do not differ by more than the tolerance"
    title = f"{finding.title.rpartition(':')[0]}: outputs differ by {error:.3g}"
    return changed, dataclasses.replace(finding, error=error, title=title), _published(num_kept)


def _published(num_kept: int) -> str:
    note = "weights and inputs of the reproducer are random, of the same shapes and densities"
    if num_kept:
        note += f", but for {num_kept} that are no floats of its graph, such as integers: these are the model's own"
    return note


def _witnessed(inquiry: Inquiry, folder: Path, finding: Finding) -> str:
    """A line on the instructions of the part, or on why none are counted."""
    operators = {name for counts in finding.operators for name in counts}
    threads = max(side.cell.threads for side in inquiry.pair.sides)
    if (reason := witness.refusal(operators, witness.processor_flags(), threads)) is not None:
        return reason
    try:
        return witness.counted(inquiry.pair, folder, inquiry.limits).text
    except BenchError as error:
        return f"no instructions are counted: {error}"


def _core_ratio(line: Line, sign: float) -> Estimate | None:
    """The ratio of a suspect without its neighbours, where that shows most of what it shows with them; None elsewhere.

    Args:
        line: what was measured of it.
        sign: 1.0 where the whole is slower, -1.0 where it is faster.
    """
    ratio, difference = line.core_ratio, line.core_difference
    if ratio is None or difference is None or (ratio.low - 1 if sign > 0 else 1 - ratio.high) <= NOISE_FLOOR:
        return None
    return ratio if sign * difference.value >= _MOST_OF_PART * sign * line.difference.value else None


def _finding(inquiry: Inquiry, blame: Blame | DriftBlame) -> tuple[Part | None, Finding | None]:
    """The smallest part that shows the difference alone, and what it shows; None where there is none."""
    if isinstance(blame, DriftBlame):
        drifted = blame.drifted
        if drifted.part is None:
            return None, None
        nodes = inquiry.aligned.nodes(drifted.part)
        title = f"{blame.name}: outputs differ by {drifted.part_error:.3g}"
        shown: dict[str, Any] = {"error": drifted.part_error}
        whole = f"In the whole model, outputs differ by {drifted.error:.3g} of their largest magnitude."
        part = drifted.part
    else:
        if not blame.culprits:
            return None, None
        most = blame.culprits[0]
        line, sign = most.line, 1.0 if blame.is_slower else -1.0
        part, ratio = line.part, line.ratio
        if (alone := _core_ratio(line, sign)) is not None:
            part, ratio = line.core, alone
        of_part = "this part" if part == line.part else "this part with its neighbours"
        nodes = inquiry.aligned.nodes(part)
        title = f"{most.name}: {ratio.value:.2f} times as long"
        shown = {"ratio": ratio}
        whole = (
            f"In the whole model, B takes {writing.interval(blame.outcome.ratio)} times as long as A; {of_part} "
            f"explains {answer.percent(line.share)} % of that{answer.with_alike(most)}."
        )
    operators = answer.operators(nodes)
    numbers = (len(nodes[0]), len(nodes[1]))
    return part, Finding(title=title, num_nodes=numbers, operators=operators, texts=(whole,), **shown)
