"""The search for what makes outputs wrong: the first tensor beyond a tolerance, and the smallest part that shows it.

Tensors that both sides compute are compared where the row of atoms can be cut, as each side's own runtime computes
them. The first atom that gives a tensor beyond the tolerance of tensors within it is the suspect. It is run alone under
both sides with the same inputs. Where it does not show the difference alone, because errors add up, the atoms before it
join it until the part does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bench.api.errors import ArtifactError
from bench.features.blame.cuts import Aligned, Part

_AT_ONCE = 24
"""Atoms whose tensors are compared in one run: a run with more outputs leaves less to fuse, and takes more memory."""


class Compares(Protocol):
    """What compares tensors, such as `bench.features.blame.outputs.Comparing`."""

    def tensors(self, names: Sequence[str]) -> list[float | None]:
        """The error of each of some common tensors in the whole; None where it cannot be compared."""

    def alone(self, part: Part, tensor: str) -> float | None:
        """The error of an output of a part with the same inputs; None where the part cannot run alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drifted:
    """What the search found.

    Attributes:
        tolerance: largest error that is no drift, as a share of a tensor's largest magnitude.
        error: largest error of the model's outputs.
        tensor: name of the first tensor beyond the tolerance, in the first side's graph; None where no output is.
        tensor_error: its error in the whole.
        core: the atom that gives it.
        part: the smallest part that shows it alone; None where none does.
        part_error: error of the tensor alone with the same inputs.
    """

    tolerance: float
    error: float
    tensor: str | None = None
    tensor_error: float | None = None
    core: Part | None = None
    part: Part | None = None
    part_error: float | None = None


class DriftSearch:
    """One search.

    Args:
        aligned: both sides' graphs.
        compares: compares tensors.
        tolerance: see `Drifted`.
        tell: called with a line before each step.
    """

    def __init__(
        self, aligned: Aligned, compares: Compares, tolerance: float, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._aligned, self._compares, self._tolerance, self._tell = aligned, compares, tolerance, tell
        self._outputs = [aligned.interfaces(Part(start=at, end=at + 1))[0].outputs for at in range(len(aligned.atoms))]
        self._errors: dict[str, float | None] = {}

    def run(self) -> Drifted:
        """Search.

        Raises:
            ArtifactError: the two sides have no output in common, or one that cannot be compared.
        """
        common = set(self._aligned.names.values())
        names = [name for name in self._aligned.before.outputs if name in common]
        if not names:
            raise ArtifactError("no output of one side is known to be one of the other's, so none can be compared")
        self._tell("comparing the outputs of both sides")
        self._look(names)
        if unlike := [name for name in names if self._errors[name] is None]:
            raise ArtifactError(f"the output {unlike[0]!r} cannot be compared: its types or shapes are not the same")
        error = max((self._error(name) for name in names), default=0.0)
        answer = Drifted(tolerance=self._tolerance, error=error)
        makers = {name: at for at, outputs in enumerate(self._outputs) for name in outputs}
        drifting = [makers[name] for name in names if self._drifts(name) and name in makers]
        if not drifting:
            return answer
        core = self._checked(self._first(min(drifting)), makers)
        tensor = next(name for name in self._outputs[core] if self._drifts(name))
        answer = dataclasses.replace(
            answer, tensor=tensor, tensor_error=self._error(tensor), core=Part(start=core, end=core + 1)
        )
        part, part_error = self._alone(core, tensor)
        return dataclasses.replace(answer, part=part, part_error=part_error)

    def _first(self, high: int) -> int:
        """An atom that gives a tensor beyond the tolerance, behind one that does not or at the beginning."""
        low = -1
        while high - low > 1:
            number = min(_AT_ONCE, high - low - 1)
            places = sorted({low + 1 + (step * (high - low - 1)) // number for step in range(number)})
            self._tell(f"comparing tensors behind {len(places)} of {high - low - 1} nodes")
            self._look([name for at in places for name in self._outputs[at]])
            drifting = [at for at in places if any(map(self._drifts, self._outputs[at]))]
            if drifting:
                high = drifting[0]
            low = max([low, *(at for at in places if at < high)])
        return high

    def _checked(self, core: int, makers: Mapping[str, int]) -> int:
        """An atom whose inputs are within the tolerance: of two branches, the search may have taken the later one."""
        while True:
            inputs = self._aligned.interfaces(Part(start=core, end=core + 1))[0].inputs
            sources = sorted({makers[name] for name in inputs if name in makers and makers[name] < core})
            self._look([name for at in sources for name in self._outputs[at] if name in inputs])
            drifting = [at for at in sources if any(self._drifts(name) for name in self._outputs[at] if name in inputs)]
            if not drifting:
                return core
            core = drifting[0]

    def _alone(self, core: int, tensor: str) -> tuple[Part | None, float | None]:
        """The smallest part that ends in an atom and shows the drift of a tensor of it alone, with its error.

        It grows until it shows the drift, and then loses of its first atoms what it can. Without a part that shows it,
        the error of the largest that ran.
        """
        too_small, width, last = 0, 1, None
        while (error := self._shown(core, width, tensor)) is None or not _beyond(error, self._tolerance):
            last = last if error is None else error
            if width > core:
                return None, last
            too_small, width = width, min(2 * width, core + 1)
        while width - too_small > 1:
            middle = (too_small + width) // 2
            smaller = self._shown(core, middle, tensor)
            if smaller is not None and _beyond(smaller, self._tolerance):
                width, error = middle, smaller
            else:
                too_small = middle
        return Part(start=core + 1 - width, end=core + 1), error

    def _shown(self, core: int, width: int, tensor: str) -> float | None:
        """The error of a tensor alone in a part of some atoms that ends in an atom."""
        self._tell(f"running {width} nodes alone with the same inputs")
        return self._compares.alone(Part(start=core + 1 - width, end=core + 1), tensor)

    def _look(self, names: Sequence[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._errors]
        if new:
            self._errors |= zip(new, self._compares.tensors(new), strict=True)

    def _error(self, name: str) -> float:
        return self._errors.get(name) or 0.0

    def _drifts(self, name: str) -> bool:
        return _beyond(self._error(name), self._tolerance)


def _beyond(error: float, tolerance: float) -> bool:
    return error > tolerance or math.isnan(error)
