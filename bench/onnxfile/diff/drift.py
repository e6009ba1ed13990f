"""Where the values of an ONNX model first differ from those of another model, such as the one it was made from.

The first tensor that differs is found by bisection in the order of the nodes, with both models run on ONNX Runtime
without optimizations of its own. Bisection presumes that values that have drifted stay different. Behind a rounding
they may not, and an earlier drift may be missed. So the tensors that the result is computed from are compared,
too, and the search goes back to one of them if it differs.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.api import Arrays, fidelity
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.diff.same_outputs import outputs_of
from bench.onnxfile.file import lazy
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.file.wiring import Wiring

LARGEST = 65_504
"""The largest number of float16."""
_NUMBERS = "fiub"
"""Kinds of NumPy data types that are compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
    """A tensor that both models have.

    Attributes:
        name: in the second model.
        name_before: in the first model.
        error: largest absolute difference over the largest magnitude in the first model; None if it is not finite.
        before: the operator that makes the tensor in the first model.
        after: the operator that makes the tensor in the second model.
    """

    name: str
    name_before: str
    error: float | None
    before: str
    after: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """The first place at which the values of two models differ.

    Attributes:
        tolerance: largest error at which two values still count as the same.
        output: the task's output that differs most.
        first: the first tensor that differs by more than the tolerance; None if no output does.
        previous: the last comparable tensor before `first` in the order of the nodes; None if there is none.
        made_of: the nearest comparable tensors that `first` is computed from, all within the tolerance; empty if it
            is computed from the inputs alone.
        between_before: number of nodes of each operator between `made_of` and `first` in the first model.
        between_after: the same numbers for the second model.
        num_common: tensors that both models have and that lead to the output, itself included.
        num_compared: tensors that were compared.
        optimized: the output that differs most between the second model without ONNX Runtime's optimizations and with
            them, where it differs by more than the tolerance: then the comparison is not of what a session runs.
    """

    tolerance: float
    output: Compared
    first: Compared | None = None
    previous: Compared | None = None
    made_of: tuple[Compared, ...] = ()
    between_before: Mapping[str, int] = dataclasses.field(default_factory=dict)
    between_after: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_common: int
    num_compared: int
    optimized: Compared | None = None


def find(
    before: Path,
    after: Path,
    *,
    feeds: Arrays,
    outputs: Sequence[str],
    tolerance: float,
    names: Mapping[str, str] | None = None,
) -> Drift:
    """Compare two ONNX files on one request. Both are run, so call this in a child process.

    Args:
        feeds: by input name.
        outputs: names of outputs that both have.
        names: of the second model's tensors that the first model has, too, with their names there, as
            `common_tensors` returns them. By default tensors of the same name are the same.

    Raises:
        ArtifactError: an output is missing, or cannot be compared.
    """
    return _Search(_Side(before, feeds), _Side(after, feeds), names, tolerance).result(outputs)


class _Side:
    """One of the models, of which any tensor can be computed."""

    def __init__(self, path: Path, feeds: Arrays) -> None:
        self.wiring = Wiring(lazy.Stored(model=onnx.load(path), path=path))
        self._feeds = {name: feeds[name] for name in self.wiring.inputs}

    def values(self, names: Sequence[str], *, optimized: bool = False) -> list[np.ndarray]:
        replace_all(self.wiring.model.graph.output, (onnx.ValueInfoProto(name=name) for name in names))
        return outputs_of(self.wiring.model, self._feeds, names, optimized=optimized)

    def maker(self, name: str) -> str:
        """The operator that makes a tensor."""
        return self.wiring.nodes[self.wiring.made_by[name][0]].op_type

    def operators(self, name: str, sources: Iterable[str]) -> dict[str, int]:
        """Number of nodes of each operator between some tensors and a tensor that is computed from them."""
        nodes, _ = self.wiring.leading_to([name], set(sources))
        return dict(collections.Counter(self.wiring.nodes[index].op_type for index in sorted(nodes)).most_common())


class _Search:
    """Compares tensors, each once."""

    def __init__(self, before: _Side, after: _Side, names: Mapping[str, str] | None, tolerance: float) -> None:
        self.before, self.after = before, after
        self.tolerance = tolerance
        self.names = dict(names) if names is not None else {name: name for name in before.wiring.made_by}
        self.errors: dict[str, float | None] = {}
        """The error of each tensor that was looked at; None where the two values cannot be compared."""

    def result(self, outputs: Sequence[str]) -> Drift:
        for side in (self.before, self.after):
            if missing := [name for name in outputs if name not in side.wiring.made_by]:
                raise ArtifactError(f"no node of one of the models makes the output {missing[0]!r}")
        self.names |= {name: name for name in outputs}
        self.look(outputs)
        if unlike := [name for name in outputs if self.errors[name] is None]:
            raise ArtifactError(f"the output {unlike[0]!r} has another shape")
        worst = max(outputs, key=lambda name: self.errors[name] or 0)
        order = self._common(worst)
        drift = Drift(
            tolerance=self.tolerance,
            output=self._compared(worst),
            num_common=len(order),
            num_compared=len(self.errors),
            optimized=self._optimized(outputs),
        )
        if not self.drifts(worst):
            return drift
        first, made_of = self._checked(order, self._bisect(order))
        earlier = reversed(order[: order.index(first)])
        previous = next((name for name in earlier if self.error(name) is not None), None)
        return dataclasses.replace(
            drift,
            first=self._compared(first),
            previous=None if previous is None else self._compared(previous),
            made_of=tuple(map(self._compared, made_of)),
            between_before=self.before.operators(self.names[first], [self.names[name] for name in made_of]),
            between_after=self.after.operators(first, made_of),
            num_compared=len(self.errors),
        )

    def _optimized(self, outputs: Sequence[str]) -> Compared | None:
        """The output that ONNX Runtime's optimizations of the second model change most, if any drifts."""
        pairs = zip(outputs, self.after.values(outputs), self.after.values(outputs, optimized=True), strict=True)
        errors = {name: error for name, *pair in pairs if (error := relative_error(*pair)) is not None}
        worst = max(errors, key=errors.__getitem__, default=None)
        if worst is None or errors[worst] <= self.tolerance:
            return None
        return self._compared(worst, errors[worst])

    def look(self, names: Iterable[str]) -> None:
        """Compare tensors that have not been compared yet."""
        new = [name for name in dict.fromkeys(names) if name not in self.errors]
        if new:
            values = [self.before.values([self.names[name] for name in new]), self.after.values(new)]
            self.errors |= {name: relative_error(*pair) for name, *pair in zip(new, *values, strict=True)}

    def error(self, name: str) -> float | None:
        """The error of a tensor, which is compared if it has not been yet; None where that is not possible."""
        self.look([name])
        return self.errors[name]

    def drifts(self, name: str) -> bool:
        """Whether a tensor that was looked at can be compared and differs by more than the tolerance."""
        return (self.errors[name] or 0) > self.tolerance

    def _common(self, output: str) -> list[str]:
        """Tensors of both models that lead to an output in the second one, in its order; the output is the last."""
        nodes, _ = self.after.wiring.leading_to([output])
        tensors = [name for index in sorted(nodes) for name in self.after.wiring.nodes[index].output if name]
        return [name for name in tensors if name in self.names and name != output] + [output]

    def _bisect(self, order: list[str]) -> int:
        """The index of a tensor that drifts, after one that does not or at the beginning.

        Tensors that cannot be compared are taken out of the order.
        """
        low, high = -1, len(order) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.error(order[middle]) is None:
                del order[middle]
                high -= 1
            elif self.drifts(order[middle]):
                high = middle
            else:
                low = middle
        return high

    def _checked(self, order: list[str], at: int) -> tuple[str, list[str]]:
        """The first tensor that drifts although the tensors it is computed from do not, and these tensors.

        Of two branches, bisection may have taken the later one.
        """
        first = order[at]
        while True:
            _, reads = self.after.wiring.leading_to([first], set(order))
            sources = [name for name in order if name in reads]
            self.look(sources)
            if any(self.errors[name] is None for name in sources):
                order = [name for name in order if self.errors.get(name, 0) is not None]
            elif drifting := [name for name in sources if self.drifts(name)]:
                first = drifting[0]
            else:
                return first, sources

    def _compared(self, name: str, error: float | None = None) -> Compared:
        """A tensor with its error, by default that between the two models."""
        error = self.errors[name] if error is None else error
        assert error is not None
        return Compared(
            name=name,
            name_before=self.names[name],
            error=error if math.isfinite(error) else None,
            before=self.before.maker(self.names[name]),
            after=self.after.maker(name),
        )


def relative_error(before: np.ndarray, after: np.ndarray) -> float | None:
    """Largest absolute difference over the largest magnitude of the first.

    Magnitudes beyond the range of float16 serve as masks, whatever their exact value: floats count as equal where both
    values have them, and they are no magnitude that errors are measured by. Integers are equal where they are the same.

    Returns:
        Infinity where only one of the two values is NaN; None where the values cannot be compared: different shapes, a
        float and an integer, texts, or sequences.
    """
    arrays = (before, after)
    if not all(isinstance(array, np.ndarray) and array.dtype.kind in _NUMBERS for array in arrays):
        return None
    if before.shape != after.shape or (before.dtype.kind == "f") != (after.dtype.kind == "f"):
        return None
    old, new = (array.astype(np.float64) for array in arrays)
    with np.errstate(invalid="ignore"):
        differences = np.abs(fidelity.errors(after, before))
    if before.dtype.kind == "f":
        clipped = [np.clip(array, -LARGEST, LARGEST) for array in (old, new)]
        differences = np.where(np.equal(*clipped) | (np.isnan(old) & np.isnan(new)), 0, differences)
    difference = float(differences.max(initial=0))
    if difference == 0:
        return 0.0
    scale = float(np.abs(old[np.abs(old) < LARGEST]).max(initial=0))
    return difference / scale if scale and math.isfinite(difference) else math.inf
