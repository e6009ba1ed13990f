"""The search for the parts that make one side slower: proposed by profiles, measured as cuts, split further.

1. The whole is measured under both sides until it is clear whether they differ at all.
2. The profiles propose suspects. They and what lies between them are cut out and measured beside the whole.
3. A part that explains more than its share of the difference is split further, down to single atoms.
4. The atoms that are left, and what lies between them, are measured again beside the whole. The answer is of these
   blocks alone: those that chose the atoms would favour them.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from bench.features.blame import intervals
from bench.features.blame.cuts import Part, gaps
from bench.features.blame.outcome import Line, Outcome
from bench.features.blame.parts import WHOLE, Times
from bench.measure.stats import NOISE_FLOOR

_UNCLEAR = 0.005
"""Probability with which a look at the whole errs that ends its measurement."""
_FIRST_BLOCKS, _MORE_BLOCKS, _MOST_BLOCKS = 4, 2, 14
_CLOSE = 0.015
"""Largest difference that is not looked at any longer once it is clear that it is not exceeded."""
_SEARCH_BLOCKS = 4
_CONFIRM_BLOCKS, _MOST_CONFIRM_BLOCKS = 6, 14
_WIDEST = 0.3
"""Width of a share's interval of as many blocks as the search has, with which that of the answer is within a tenth."""
_LITTLE, _UNSURE = 0.04, 0.15
"""Shares of the difference that the parts may fail to add up to before suspects are measured with their neighbours:
where it is clear that they fail, and where it is not."""
_MARGINS = (1, 3)
"""Atoms on either side with which they are."""
_MOST_ROUNDS = 7
_MOST_SPLIT = 2
_MOST_SUSPECTS = 3
_LEAST_SUSPICION = 0.05
"""Share of all suspected time that a suspect has at least."""
_LEAST_SHARE = 0.12
"""Share of the difference that a part explains at least to be split, or to be named."""
_LEAST_OF_PIECES = 0.5
"""Share of what a part explains that its pieces explain together at least: the rest lies between them."""
_ENOUGH = 0.7
"""Share of the difference that suspects explain where parts that cannot be run are not looked into."""
_MOST_NAMED = 3
_PIECES = 4
_FEWEST_PARTS = 3
"""Parts of a block without which nothing is searched: a suspect, and what lies before and after it."""
_WHOLE_TIME, _SEARCH_TIME, _WIDEN_TIME = 0.2, 0.55, 0.7
"""Shares of the time after which the whole and the search are to be done, and no suspect is widened any more."""


class Measures(Protocol):
    """What measures parts, such as `bench.features.blame.parts.Stopwatch`."""

    failures: dict[str, str]

    def most_parts(self) -> int:
        """Number of parts of a block for whose processes there is memory, once a whole was measured."""

    def measure(self, parts: Sequence[Part], *, num_blocks: int, ends_s: float) -> list[Times]:
        """Latencies of the whole and of parts, in some blocks."""


class Search:
    """One search.

    Args:
        measures: measures parts.
        whole: all atoms.
        times_ns: for each atom, the profiled nanoseconds on both sides; None where there is no profile.
        begin_s: time by `time.monotonic` from which the budget counts.
        budget_s: seconds for all of it.
        tell: called with a line before each step.
    """

    def __init__(
        self,
        measures: Measures,
        whole: Part,
        times_ns: Sequence[tuple[float, float]] | None,
        *,
        begin_s: float,
        budget_s: float,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._measures, self._whole, self._times_ns, self._tell = measures, whole, times_ns, tell
        self._begin_s, self._budget_s = begin_s, budget_s
        self._sign, self._most_parts = 1.0, _FEWEST_PARTS
        self._searched: dict[Part, Line] = {}
        self._settled: set[Part] = set()

    def run(self) -> Outcome:
        """Search.

        Raises:
            BenchError: the whole cannot be measured.
        """
        blocks = self._whole_blocks()
        ratio = intervals.ratio(_whole(blocks))
        if not _is_clear(blocks) or not self._whole.num_atoms:
            return Outcome(ratio=ratio, is_different=_is_clear(blocks), num_blocks=len(blocks))
        self._most_parts = self._measures.most_parts()
        if self._most_parts < _FEWEST_PARTS:
            reason = {self._whole.key: "there is too little free memory to run parts of this model beside it"}
            return Outcome(ratio=ratio, is_different=True, num_blocks=len(blocks), failures=reason)
        self._sign = 1.0 if ratio.value > 1 else -1.0
        suspects, is_cut = self._suspects()
        outcome = self._confirmed(suspects)
        return dataclasses.replace(outcome, is_cut=is_cut, failures=dict(self._measures.failures))

    def _ends(self, share: float) -> float:
        return self._begin_s + share * self._budget_s

    def _whole_blocks(self) -> list[Times]:
        """Blocks of the whole alone, until it is clear whether the sides differ."""
        self._tell("measuring both sides")
        blocks = self._measures.measure((), num_blocks=_FIRST_BLOCKS, ends_s=self._ends(_WHOLE_TIME))
        while len(blocks) < _MOST_BLOCKS and time.monotonic() < self._ends(_WHOLE_TIME):
            sure = intervals.ratio(_whole(blocks), _UNCLEAR)
            if _is_clear(blocks) or (sure.low > 1 - _CLOSE and sure.high < 1 + _CLOSE):
                break
            blocks += self._measures.measure((), num_blocks=_MORE_BLOCKS, ends_s=self._ends(_WHOLE_TIME))
        return blocks

    def _suspects(self) -> tuple[list[Part], bool]:
        """Parts that explain much of the difference, each as small as can be, and whether the time was up before."""
        known: dict[Part, Line] = {}
        worst: list[Part] = []
        pending, split = self._proposed(self._whole), [self._whole]
        for number in range(_MOST_ROUNDS):
            if number and time.monotonic() > self._ends(_SEARCH_TIME):
                return worst, True
            self._tell(f"measuring {len(pending)} parts beside the whole")
            blocks = self._measures.measure(pending, num_blocks=_SEARCH_BLOCKS, ends_s=self._ends(_SEARCH_TIME))
            measured = {line.part: line for line in _lines(pending, blocks)}
            self._searched |= measured
            known = self._with_pieces(known, split, pending, measured)
            now = self._worst(known)
            worst = now or worst
            wide = [part for part in now if part.num_atoms > 1 and part not in self._settled]
            if not wide and sum(known[part].share.value for part in now) < _ENOUGH:
                wide = [part for part in pending if part not in measured and part.num_atoms > 1]  # it could not be run
            if not wide:
                break
            pieces = {part: self._proposed(part) for part in wide[:_MOST_SPLIT]}
            if sum(map(len, pieces.values())) > self._most_parts:
                pieces = {wide[0]: pieces[wide[0]]}
            split, pending = list(pieces), [piece for inner in pieces.values() for piece in inner]
        else:
            return worst, True
        return worst, False

    def _with_pieces(
        self, known: Mapping[Part, Line], split: Sequence[Part], pending: Sequence[Part], measured: Mapping[Part, Line]
    ) -> dict[Part, Line]:
        """What is known with the pieces of parts in place of them; a part stays whose cost lies between its pieces."""
        pieces = {
            part: [each for each in pending if part.start <= each.start and each.end <= part.end] for part in split
        }
        stay = {
            part
            for part, inner in pieces.items()
            if part in known
            and all(each in measured for each in inner)
            and sum(measured[each].share.value for each in inner) < _LEAST_OF_PIECES * known[part].share.value
        }
        self._settled |= stay
        gone = {part for part in split if part not in stay} | {each for part in stay for each in pieces[part]}
        return {part: line for part, line in {**known, **measured}.items() if part not in gone}

    def _worst(self, known: Mapping[Part, Line]) -> list[Part]:
        """The parts that explain most, the first the most; where many explain a little each, the first of these."""
        lines = sorted(known.values(), key=lambda line: -line.share.value)
        much = [line.part for line in lines if line.share.value >= _LEAST_SHARE]
        if not much:
            much = [line.part for line in lines if line.share.low > 0]
        return much[: self._most(_MOST_NAMED)]

    def _most(self, number: int) -> int:
        """A number of suspects, or as many as there is memory for beside what lies between them."""
        return min(number, (self._most_parts - 1) // 2)

    def _proposed(self, part: Part) -> list[Part]:
        """A part in smaller ones: suspects and what lies between, or pieces of equal time where none is suspected."""
        within = range(part.start, part.end)
        suspicion = [self._sign * self._growth(atom) for atom in within]
        total = sum(value for value in suspicion if value > 0)
        ranked = sorted(within, key=lambda atom: -suspicion[atom - part.start])
        chosen = [
            Part(start=atom, end=atom + 1)
            for atom in ranked[: self._most(_MOST_SUSPECTS)]
            if total > 0 and suspicion[atom - part.start] >= _LEAST_SUSPICION * total
        ]
        pieces = sorted([*chosen, *gaps(chosen, part)])
        return pieces if len(pieces) > 1 else self._equal_pieces(part)

    def _growth(self, atom: int) -> float:
        if self._times_ns is None:
            return 0.0
        before, after = self._times_ns[atom]
        return after - before

    def _equal_pieces(self, part: Part) -> list[Part]:
        """A part in pieces of about equal time, or of equally many atoms without a profile."""
        costs = [sum(self._times_ns[atom]) if self._times_ns else 1.0 for atom in range(part.start, part.end)]
        least = sum(costs) / len(costs) / 1000 or 1.0
        bounds, total, passed = [part.start], sum(costs) + least * len(costs), 0.0
        for atom, cost in enumerate(costs, start=part.start):
            passed += cost + least
            if passed >= len(bounds) * total / min(_PIECES, self._most_parts, part.num_atoms) and atom + 1 < part.end:
                bounds.append(atom + 1)
        bounds.append(part.end)
        pieces = [Part(start=start, end=end) for start, end in itertools.pairwise(bounds) if start < end]
        if len(pieces) > 1 or part.num_atoms == 1:
            return pieces
        middle = (part.start + part.end) // 2
        return [Part(start=part.start, end=middle), Part(start=middle, end=part.end)]

    def _confirmed(self, suspects: Sequence[Part]) -> Outcome:
        """The answer, of blocks that chose nothing.

        What a part costs may lie beside it: a kernel of another layout makes its neighbours convert. Where suspects do
        not add up to the difference, they are measured with their neighbours, too.
        """
        chosen = {suspect: suspect for suspect in suspects}
        outcome = self._measured(chosen)
        alone, is_chosen = {line.core: line for line in (*outcome.blamed, *outcome.others)}, False
        for margin in _MARGINS if suspects else ():
            if _adds_up(outcome) or time.monotonic() > self._ends(_WIDEN_TIME):
                break
            cores, is_chosen = self._widened(suspects, margin), True
            wider = self._measured(cores)
            if _left(wider) < _left(outcome):
                outcome, chosen = wider, cores
        if not is_chosen:
            return outcome
        # The blocks that chose the neighbours favour them: their remainder is the least of several.
        outcome = self._measured(chosen)
        lines = (line if line.part == line.core else _with_core(line, alone.get(line.core)) for line in outcome.blamed)
        return dataclasses.replace(outcome, blamed=tuple(lines))

    def _widened(self, suspects: Sequence[Part], margin: int) -> dict[Part, Part]:
        """Suspects with atoms on either side that are no other suspect's, each with the suspect itself."""
        ordered, wider, begin = sorted(suspects), {}, self._whole.start
        for number, core in enumerate(ordered):
            limit = ordered[number + 1].start if number + 1 < len(ordered) else self._whole.end
            part = Part(start=max(begin, core.start - margin), end=min(limit, core.end + margin))
            wider[part], begin = core, part.end
        return wider

    def _measured(self, cores: Mapping[Part, Part]) -> Outcome:
        """Suspects, by the parts that hold them, and all that lies between, measured beside the whole."""
        parts = sorted([*cores, *gaps(cores, self._whole)])
        self._tell(f"measuring {len(cores)} suspects and the rest beside the whole")
        blocks = self._measures.measure(parts, num_blocks=_CONFIRM_BLOCKS, ends_s=self._ends(1.0))
        outcome = _outcome(parts, cores, blocks, self._sign)
        is_done = self._is_precise(cores.values()) and _left(outcome) < _UNSURE
        if not is_done and not _is_left_over(outcome) and time.monotonic() < self._ends(1.0):
            more = _MOST_CONFIRM_BLOCKS - len(blocks)
            blocks += self._measures.measure(parts, num_blocks=more, ends_s=self._ends(1.0))
            outcome = _outcome(parts, cores, blocks, self._sign)
        return outcome

    def _is_precise(self, suspects: Iterable[Part]) -> bool:
        """Whether few blocks tell the largest share to a tenth, by the blocks of the search.

        Those of the answer do not tell: where they happen to lie close together, they would end the measurement, and
        intervals would miss more often than they say.
        """
        most = max((self._searched[part].share for part in suspects), key=lambda share: share.value, default=None)
        return most is None or most.high - most.low < _WIDEST * max(1.0, abs(most.value))


def _outcome(parts: Sequence[Part], cores: Mapping[Part, Part], blocks: Sequence[Times], sign: float) -> Outcome:
    """What some blocks say of suspects and the parts between them."""
    lines = [dataclasses.replace(line, core=cores.get(line.part, line.part)) for line in _lines(parts, blocks)]
    named = [line for line in lines if line.part in cores and _explains(line, sign)]
    # A part that failed meanwhile is in the first blocks alone; in the others, its difference would seem left over.
    complete = [times for times in blocks if all(line.part.key in times for line in lines)]
    whole = [after / before - 1 for before, after in _whole(complete)]
    ratio = intervals.ratio(_whole(blocks))
    is_different = ratio.low > 1 if sign > 0 else ratio.high < 1  # by these blocks too, which chose nothing
    missing = [
        left - sum(_difference(times, line.part) for line in lines) for left, times in zip(whole, complete, strict=True)
    ]
    return Outcome(
        ratio=ratio,
        is_different=is_different,
        blamed=tuple(sorted(named, key=lambda line: -line.share.value)) if is_different else (),
        others=tuple(line for line in lines if line not in named or not is_different),
        remainder=intervals.mean(missing),
        remainder_share=intervals.share(missing, whole),
        num_blocks=len(blocks),
    )


def _left(outcome: Outcome) -> float:
    """The share of the difference that the parts do not add up to, or add up to beyond it."""
    assert outcome.remainder_share is not None
    return abs(outcome.remainder_share.value)


def _is_left_over(outcome: Outcome) -> bool:
    """Whether the parts clearly do not add up to the difference, by more than a little."""
    assert outcome.remainder_share is not None
    is_clear = outcome.remainder_share.low > 0 or outcome.remainder_share.high < 0
    return is_clear and _left(outcome) >= _LITTLE


def _adds_up(outcome: Outcome) -> bool:
    """Whether the parts add up to the difference, as far as the blocks tell."""
    return _left(outcome) < _UNSURE and not _is_left_over(outcome)


def _whole(blocks: Sequence[Times]) -> list[tuple[float, float]]:
    return [times[WHOLE] for times in blocks]


def _is_clear(blocks: Sequence[Times]) -> bool:
    """Whether the two sides differ by more than the place of code in memory may cause."""
    sure = intervals.ratio(_whole(blocks), _UNCLEAR)
    return sure.low > 1 + NOISE_FLOOR or sure.high < 1 - NOISE_FLOOR


def _difference(times: Times, part: Part) -> float:
    """By how much a part is slower in a block, as a share of the whole's latency under the first side."""
    before, after = times[part.key]
    return (after - before) / times[WHOLE][0]


def _lines(parts: Sequence[Part], blocks: Sequence[Times]) -> list[Line]:
    """What each part explains, of those that ran in several blocks."""
    lines = []
    for part in parts:
        present = [times for times in blocks if part.key in times]
        if len(present) < min(intervals.FEWEST, len(blocks)):
            continue
        differences = [_difference(times, part) for times in present]
        whole = [after / before - 1 for before, after in _whole(present)]
        shares = [times[part.key][0] / times[WHOLE][0] for times in present]
        alone, mean = intervals.ratio([times[part.key] for times in present]), intervals.mean(differences)
        lines.append(
            Line(
                part=part,
                core=part,
                difference=mean,
                share=intervals.share(differences, whole),
                ratio=alone,
                core_ratio=alone,
                core_difference=mean,
                time_share=sum(shares) / len(shares),
            )
        )
    return lines


def _with_core(line: Line, core: Line | None) -> Line:
    """A suspect that was measured with its neighbours, with what it showed without them."""
    if core is None:
        return dataclasses.replace(line, core_ratio=None, core_difference=None)
    return dataclasses.replace(line, core_ratio=core.ratio, core_difference=core.difference)


def _explains(line: Line, sign: float) -> bool:
    """Whether a part is clearly slower where the whole is slower, or faster where it is faster."""
    nearer = line.difference.low if sign > 0 else -line.difference.high
    return nearer > 0 and line.share.value > 0
