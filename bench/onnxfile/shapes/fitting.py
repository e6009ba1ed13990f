"""A model inferred with sizes of its open dimensions that meet what its nodes require, near the likely sizes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.api.errors import InputError
from bench.onnxfile.file import domains, normalized
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.shapes import constraints, inference, tensors
from bench.onnxfile.shapes.constraints import Requirements
from bench.onnxfile.shapes.dims import Dim, Size, symbol, symbols
from bench.onnxfile.shapes.node import ShapeError
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.size_options import option, tell_fitted
from bench.onnxfile.shapes.solving import Proposal, proposals
from bench.onnxfile.shapes.stated_sizes import stated
from bench.onnxfile.shapes.steps import Inferred, Step, all_steps


def requirements(stored: Stored) -> Requirements:
    """What the nodes of a model require of the dimensions of its inputs; nothing where the shapes do not follow."""
    stored = dataclasses.replace(stored, model=normalized.settle(stored.model))
    inputs = {name: shape for name, shape in tensors.dynamic_inputs(stored.model).items() if shape is not None}
    try:
        inferred = inference.infer(stored, inputs, domains.numbers(stored))
    except InputError:
        return Requirements(always=())
    return constraints.of_steps(inferred.steps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model inferred with sizes that fit, as far as sizes were found that do.

    Attributes:
        inferred: the results of inference.
        inputs: shapes of the inputs, by name.
        chosen: the sizes of all dimensions.
        likely: the sizes that they would have if the nodes allowed them, by dimension.
        reasons: by dimension whose likely size did not fit, the requirement that it did not meet.
    """

    inferred: Inferred
    inputs: Mapping[str, tuple[int, ...]]
    chosen: Chosen
    likely: Mapping[str, int]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def notes(self, *, without: Collection[str] = ()) -> list[str]:
        """Lines about the sizes that nobody gave, but for the dimensions in `without`."""
        reasons = {dim: why for dim, why in self.reasons.items() if dim not in without}
        return [*tell_fitted(self.chosen.sizes, self.likely, reasons), *self.chosen.lines(without=without)]


def infer(stored: Stored, inputs: Mapping[str, tuple[int, ...]], chosen: Chosen) -> Fitted:
    """Infer a settled model with likely sizes, or with others that fit where those do not.

    Args:
        inputs: shapes of the inputs, by name, of likely sizes.
        chosen: the likely sizes, of which those that nobody gave may be others.

    Raises:
        InputError: as `inference.infer`; where no sizes fit, for the likely sizes.
    """
    known = domains.numbers(stored)
    refused: ShapeError | None = None
    likely: Inferred | None = None
    try:
        likely = inference.infer(stored, inputs, known)
    except ShapeError as error:
        refused = error
    if likely is not None and not (chosen.guessed and _is_stuck(likely.steps)):
        return Fitted(inferred=likely, inputs=inputs, chosen=chosen, likely=chosen.sizes)
    dynamic = {name: shape for name, shape in tensors.dynamic_inputs(stored.model).items() if shape is not None}
    proposed = fitted(requirements(stored), chosen) if chosen.guessed else ()
    for proposal in proposed:
        bound = {**inputs, **{name: constraints.shape_of(shape, proposal.sizes) for name, shape in dynamic.items()}}
        with contextlib.suppress(ShapeError):
            inferred = inference.infer(stored, bound, known)
            choice = dataclasses.replace(chosen, sizes=proposal.sizes)
            return Fitted(inferred=inferred, inputs=bound, chosen=choice, likely=chosen.sizes, reasons=proposal.reasons)
    if likely is None:
        assert refused is not None
        raise refused
    return Fitted(inferred=likely, inputs=inputs, chosen=chosen, likely=chosen.sizes)


def fitted(required: Requirements, chosen: Chosen) -> Iterator[Proposal]:
    """Sizes to try in place of likely ones, best first, of which those that were given stay.

    Args:
        required: what the nodes of the model require, see `requirements`.
        chosen: the likely sizes.
    """
    return proposals(chosen.with_requirements(required), chosen.sizes, chosen.fixed)


def followed(required: Requirements, proposal: Proposal, chosen: Chosen) -> dict[str, str]:
    """By dimension whose likely size gave way, the expression of others that nodes make it equal to, if there is one.

    A file may name the total length of a decoder's texts, and only its nodes tell that it is `past + new`.

    Args:
        required: what the nodes of the model require.
        proposal: sizes that fit.
        chosen: the likely sizes.
    """
    expressions: dict[str, str] = {}
    for dim in proposal.reasons:
        if dim in chosen.given or symbol(dim) != chosen.stated.sizes.get(dim):
            continue
        for requirement in required.always:
            others = (
                [size for size in requirement.sizes if size != symbol(dim)] if requirement.equates(symbol(dim)) else []
            )
            texts = [text for size in others if (text := _text(size, dim, proposal.sizes)) is not None]
            if texts:
                expressions[dim] = texts[0]
                break
    return expressions


def _text(size: Size, dim: str, sizes: Mapping[str, int]) -> str | None:
    """An expression as a file would state it; None where it has none, is no expression, or has another value."""
    if not isinstance(size, Dim) or constraints.value_of(size, sizes) != sizes[dim]:
        return None
    names = {str(atom.arguments[0]) for atom in symbols(size)}
    read = stated((*sorted(names), text := str(size)))
    return text if dim not in names and text in read.following and read.sizes[text] == size else None


def contradiction(required: Requirements, chosen: Chosen) -> str | None:
    """How sizes that were given contradict what nodes require, with both sides; None where they may fit.

    A size of 0 may fit: what nodes make of no elements is for each runtime to say.
    """
    if 0 in chosen.given.values():
        return None
    of_given = [requirement for requirement in required.unmet(chosen.sizes) if requirement.dims <= chosen.fixed]
    if not of_given:
        return None
    sizes = {dim: chosen.sizes[dim] for dim in sorted(of_given[0].dims)}
    listed = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
    return f"{of_given[0].text(chosen.sizes)} with {listed}; leave one out, such as {option(*list(sizes.items())[-1])}"


def _is_stuck(steps: Sequence[Step]) -> bool:
    """Whether there is an If of which no branch can run."""
    return any(step.bodies and all(body.why_not for body in step.bodies) for step in all_steps(steps))
