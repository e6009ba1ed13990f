"""The cost of an ONNX file before it is run: shapes, MACs, parameters and bytes, of every node and in total."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.collector import without_collector
from bench.api.errors import BenchError
from bench.onnxfile.costs import macs, observed, sharing
from bench.onnxfile.costs.nodes import NodeCost, Observed, node_costs, with_shapes
from bench.onnxfile.deferred import np
from bench.onnxfile.file import lazy as files
from bench.onnxfile.file import normalized, training
from bench.onnxfile.shapes import fitting, tensors
from bench.onnxfile.shapes.node import Value
from bench.onnxfile.shapes.steps import Step, all_outputs, all_steps
from bench.onnxfile.shapes.tensors import TensorInfo, tensor_info
from bench.onnxfile.weights import parameters

_RUNTIME_DOMAINS = ("", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc")
"""Domains of the operators that ONNX Runtime can run."""


class WhenAsked:
    """A field of a dataclass that may be set to a function; the function makes the value when the field is first read.

    Source: https://docs.python.org/3/library/dataclasses.html#descriptor-typed-fields
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            raise AttributeError("it has no default")
        fields = vars(instance)
        if callable(fields[self._name]):
            fields[self._name] = fields[self._name]()
        return fields[self._name]

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self._name] = value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """The cost of a model.

    Attributes:
        name: of the file.
        inputs: shapes of the inputs that all figures are for, by name.
        guessed: sizes that were guessed for dynamic dimensions, by name.
        nodes: in order; the nodes of a subgraph come directly after the node that holds it.
        tensors: by name; the names in a subgraph are `<path>:<name>`. They are described when the field is first
            read: there are several tensors for each node, and the totals need no description of them.
        num_params: number of parameters by the rule of `bench.onnxfile.weights.parameters`, each tensor counted once.
        num_unique_params: the same number with equal tensors counted once.
        weight_bytes: size of all stored tensors, each counted once.
        activation_bytes: size of all other tensors, inputs included.
        notes: sentences about the limits of these figures.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    guessed: Mapping[str, int]
    nodes: tuple[NodeCost, ...]
    tensors: Mapping[str, TensorInfo] = WhenAsked()  # type: ignore[assignment]
    num_params: int
    num_unique_params: int
    weight_bytes: int
    activation_bytes: int
    notes: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """The fields for copies and pickles, with the description of all tensors."""
        assert self.tensors is not None
        return vars(self)

    @functools.cached_property
    def macs(self) -> int:
        return sum(node.macs for node in self.nodes)

    @functools.cached_property
    def other_ops(self) -> int:
        return sum(node.other_ops for node in self.nodes)

    @property
    def is_complete(self) -> bool:
        """Whether the work of every node is known."""
        return all(node.known for node in self.nodes)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Profile:
        """Make a profile of the dict that `dataclasses.asdict` returns, which may have gone through JSON."""
        import msgspec  # only here: a worker that inspects an artifact may have to do without

        return msgspec.convert(fields, cls)


def profile(
    path: Path | str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    observe: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> Profile:
    """Analyse an ONNX file without loading its weights.

    Args:
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name. Sizes that neither `shapes` nor `dims` states are guessed.
        observe: whether to run the model once, in a child process, if shapes or numbers of iterations depend on data.
        inputs: arrays to run the model on, by name; inputs that are not given are made up. They state shapes, too.

    Raises:
        InputError: the file is no ONNX file, its graph is not valid, its external data are missing or lie outside its
            folder, or a size does not fit.
    """
    path = Path(path)
    wanted = {**{name: array.shape for name, array in (inputs or {}).items()}, **(shapes or {})}
    with contextlib.ExitStack() as stack:
        stack.enter_context(without_collector())
        stored = files.read(path)
        stored = dataclasses.replace(stored, model=normalized.settle(stored.model))
        stack.callback(stored.files.clear)  # otherwise a profile that is kept would keep the files open
        fitted = fitting.infer(stored, *tensors.bind_inputs(stored.model, shapes=wanted, dims=dims))
        inferred, bound, guessed = fitted.inferred, fitted.inputs, fitted.chosen.guessed
        steps = list(all_steps(inferred.steps))
        notes = fitted.notes()
        runs: Observed = {}
        if open_ends := sum([step.is_open for step in steps]):
            runs, note = _observed(path, steps, bound, inputs) if observe else ({}, "nothing was run to find them")
            notes.append(f"shapes of {open_ends} nodes depend on the data: {note}")
        params = parameters.learned((step.node for step in steps), all_outputs(inferred))
        nodes = node_costs(inferred.steps, params, runs)
        seen = _with_observed(tensors.tensors(inferred), steps, runs) if runs else None
        values = [value for _, value in tensors.named_values(inferred)]
        weights = list({id(value): value for value in values if value.is_weight}.values())
        counted = [value for value in weights if id(value) in params]
        first = sharing.first_of_equals(counted)
        notes += [*_notes(steps, nodes, runs, counted), *training.sentences(training.of_onnx(stored.model))]
        return Profile(
            name=path.name,
            inputs=bound,
            guessed=guessed,
            nodes=tuple(nodes),
            tensors=functools.partial(tensors.tensors, inferred) if seen is None else seen,  # type: ignore[arg-type]
            num_params=sum([params[id(value)] for value in counted]),
            num_unique_params=sum([params[id(counted[index])] for index in set(first)]),
            weight_bytes=sum([value.bytes for value in weights]),
            activation_bytes=sum([value.bytes for value in values if not value.is_weight])
            if seen is None
            else sum([info.bytes or 0 for info in seen.values() if not info.is_weight]),
            notes=tuple(notes),
        )


def _observed(
    path: Path, steps: Sequence[Step], bound: Mapping[str, tuple[int, ...]], inputs: Mapping[str, np.ndarray] | None
) -> tuple[Observed, str]:
    """The executions of the nodes in one run, and a note that says whether there was a run."""
    foreign = sorted({step.node.domain for step in steps} - set(_RUNTIME_DOMAINS))
    if foreign:
        return {}, f"nothing here runs operators of {', '.join(foreign)}"
    try:
        runs = observed.observe(path, bound, inputs)
    except BenchError as error:
        return {}, f"the run to observe them failed: {error}"
    return runs, f"observed in one run on {'the given' if inputs else 'made-up'} inputs"


def _with_observed(tensors: dict[str, TensorInfo], steps: Sequence[Step], runs: Observed) -> dict[str, TensorInfo]:
    """Tensors with the largest shape that each had in the run, where its shape does not follow from the file."""
    result = dict(tensors)
    for step in steps:
        node = step.node
        names = (*node.reads, *node.makes)
        values = (*node.inputs, *node.outputs)
        for execution in runs.get(node.name, ()):
            run = with_shapes(node, execution)
            for name, value, seen in zip(names, values, (*run.inputs, *run.outputs), strict=True):
                key = f"{node.path}:{name}" if node.path and f"{node.path}:{name}" in result else name
                if seen is not None and seen is not value and key in result:
                    info = result[key]
                    if not info.observed or (info.bytes or 0) < seen.bytes:
                        result[key] = dataclasses.replace(tensor_info(key, seen), observed=True)
    return result


def _notes(steps: Sequence[Step], nodes: Sequence[NodeCost], runs: Observed, counted: Sequence[Value]) -> list[str]:
    notes = []
    generated = sum(parameters.numel(value) for value in counted if value.generated)
    if generated:
        notes.append(f"{generated:,} of the parameters are not stored: ConstantOfShape nodes make them")
    unknown = [node for node in nodes if not node.known]
    if foreign := [node for node in unknown if (node.domain, node.op_type) not in macs.RULES]:
        names = ", ".join(sorted({f"{node.domain or 'ai.onnx'}.{node.op_type}" for node in foreign}))
        notes.append(f"the work of {len(foreign)} nodes is unknown and not counted: {names}")
    if shapeless := [node for node in unknown if (node.domain, node.op_type) in macs.RULES]:
        names = ", ".join(sorted({node.op_type for node in shapeless}))
        notes.append(f"the work of {len(shapeless)} nodes is not counted, for their shapes are not known: {names}")
    for step in steps:
        if step.why_unknown:
            notes.append(f"{step.node.what}: {step.why_unknown}")
        notes += [
            f"{step.node.what}: its {body.path.rpartition('.')[2]} cannot run with these sizes: {body.why_not}"
            for body in step.bodies
            if body.why_not
        ]
        if not all(body.why_not for body in step.bodies):
            notes.append(_counted(step, runs))
    return notes


def _counted(step: Step, runs: Observed) -> str:
    """A sentence that says how the subgraphs of a node are counted."""
    what, first = step.node.what, step.bodies[0]
    if runs:
        return f"{what}: its subgraphs are counted as often as they ran when observed"
    if first.is_branch:
        known = any(body.runs is not None for body in step.bodies)
        return f"{what}: {'the branch that is always taken' if known else 'the branch with more MACs'} is counted"
    if isinstance(first.runs, int):
        return f"{what}: its body is counted {first.runs} times"
    return f"{what}: the number of iterations is not known; its body is counted once"
