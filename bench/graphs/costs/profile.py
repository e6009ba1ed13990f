"""What an ONNX file costs before it is run: shapes, MACs, parameters and bytes, of every node and in total."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import BenchError
from bench.graphs.costs import macs, observed, sharing
from bench.graphs.costs.nodes import NodeCost, Observed, node_costs
from bench.graphs.deferred import np
from bench.graphs.file import lazy as files
from bench.graphs.file import settled
from bench.graphs.file.lazy import Stored
from bench.graphs.shapes import inference
from bench.graphs.shapes import tensors as shapes
from bench.graphs.shapes.node import Value
from bench.graphs.shapes.steps import Step, all_outputs, all_steps
from bench.graphs.shapes.tensors import TensorInfo
from bench.graphs.weights import parameters

RUNTIME_DOMAINS = ("", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc")
"""Domains of the operators that ONNX Runtime can run."""


class WhenAsked:
    """A field of a dataclass that may be set to a function, which then makes its value when someone first reads it.

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
    """What a model costs.

    Attributes:
        name: of the file.
        inputs: shapes of its inputs that everything here is for.
        guessed: dynamic dimensions whose sizes nobody gave.
        nodes: in order; those of a subgraph directly after the node that holds it.
        tensors: by name; of a subgraph by `<path>:<name>`. They are described when someone first asks: there are
            several for each node, and the totals need none of it.
        num_params: parameters that are stored and read, each tensor once.
        num_unique_params: the same, of equal tensors only one.
        weight_bytes: of everything that is stored, each tensor once.
        activation_bytes: of everything else, inputs included.
        notes: what a reader should know of these figures.
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
        """For copies and pickles: with all of the tensors."""
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
        """What `dataclasses.asdict` gave, perhaps by way of JSON."""
        nodes = tuple(NodeCost(**{name: _frozen(value) for name, value in node.items()}) for node in fields["nodes"])
        tensors = {
            name: TensorInfo(**{key: _frozen(value) for key, value in info.items()})
            for name, info in fields["tensors"].items()
        }
        rest = {key: value for key, value in fields.items() if key not in ("nodes", "tensors", "inputs", "notes")}
        inputs = {name: tuple(shape) for name, shape in fields["inputs"].items()}
        return cls(nodes=nodes, tensors=tensors, inputs=inputs, notes=tuple(fields["notes"]), **rest)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def profile(
    path: Path | str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    observe: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> Profile:
    """Analyse an ONNX file. Its weights are not loaded.

    Args:
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name. What neither tells is guessed.
        observe: run the model once, in a process of its own, where shapes or the number of iterations depend on data.
        inputs: what to run it on; made up where it is not given. Their shapes need not be given again.

    Raises:
        InputError: it is no ONNX file, its graph is not valid, external data are missing or lie outside its folder, or
            a size does not fit.
    """
    path = Path(path)
    with _without_collector():
        stored = files.read(path)
        stored = dataclasses.replace(stored, model=settled.settle(stored.model))
        wanted = {**{name: array.shape for name, array in (inputs or {}).items()}, **(shapes or {})}
        try:
            return _profile(path, stored, wanted, dims, observe, inputs)
        finally:
            stored.files.clear()  # a profile that is kept shall keep no file open


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Python's garbage collector would look again and again at objects that are all still in use."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _profile(
    path: Path,
    stored: Stored,
    wanted: Mapping[str, Sequence[int]],
    dims: Mapping[str, int] | None,
    observe: bool,
    inputs: Mapping[str, np.ndarray] | None,
) -> Profile:
    bound, guessed = shapes.bind_inputs(stored.model, shapes=wanted, dims=dims)
    inferred = inference.infer(stored, bound)
    steps = list(all_steps(inferred.steps))
    notes = []
    if guessed:
        notes.append("sizes left open were guessed: " + ", ".join(f"{dim}={size}" for dim, size in guessed.items()))
    runs: Observed = {}
    if open_ends := sum([step.is_open for step in steps]):
        runs, note = _observed(path, steps, bound, inputs) if observe else ({}, "nothing was run to find them")
        notes.append(f"shapes of {open_ends} nodes depend on the data: {note}")
    params = parameters.learned((step.node for step in steps), all_outputs(inferred))
    nodes = node_costs(inferred.steps, params, runs)
    seen = _with_observed(shapes.tensors(inferred), steps, runs) if runs else None
    values = list(shapes.values(inferred))
    weights = list({id(value): value for value in values if value.is_weight}.values())
    counted = [value for value in weights if id(value) in params]
    first = sharing.first_of_equals(counted)
    notes += _notes(steps, nodes, runs, counted)
    return Profile(
        name=path.name,
        inputs=bound,
        guessed=guessed,
        nodes=tuple(nodes),
        tensors=functools.partial(shapes.tensors, inferred) if seen is None else seen,  # type: ignore[arg-type]
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
    """How the nodes ran, and a note on it."""
    foreign = sorted({step.node.domain for step in steps} - set(RUNTIME_DOMAINS))
    if foreign:
        return {}, f"nothing here runs operators of {', '.join(foreign)}"
    try:
        runs = observed.observe(path, bound, inputs)
    except BenchError as error:
        return {}, f"the run to observe them failed: {error}"
    return runs, f"observed in one run on {'the given' if inputs else 'made-up'} inputs"


def _with_observed(tensors: dict[str, TensorInfo], steps: Sequence[Step], runs: Observed) -> dict[str, TensorInfo]:
    """Tensors with the largest shape that each was seen with, where it does not follow from the file."""
    result = dict(tensors)
    for step in steps:
        node = step.node
        for names, values, side in (
            (node.reads, node.inputs, "inputs"),
            (node.makes, node.outputs, "outputs"),
        ):
            pairs = [
                (name, value)
                for name, value in zip(names, values, strict=True)
                if value is not None and not value.proto
            ]
            for execution in runs.get(node.name, ()):
                seen = getattr(execution, side)
                if len(seen) != len(pairs):  # what is no tensor was not seen
                    continue
                for (name, value), shape in zip(pairs, seen, strict=True):
                    key = f"{node.path}:{name}" if node.path and f"{node.path}:{name}" in result else name
                    if key in result and not value.is_static:
                        result[key] = _larger(result[key], value, shape)
    return result


def _larger(info: TensorInfo, value: Value, shape: tuple[int, ...]) -> TensorInfo:
    seen = Value(value.dtype, shape)
    if info.observed and (info.bytes or 0) >= seen.bytes:
        return info
    return dataclasses.replace(shapes.tensor_info(info.name, seen), observed=True)


def _notes(steps: Sequence[Step], nodes: Sequence[NodeCost], runs: Observed, counted: Sequence[Value]) -> list[str]:
    notes = []
    generated = sum(parameters.numel(value) for value in counted if value.generated)
    if generated:
        notes.append(f"{generated:,} of the parameters are not stored: ConstantOfShape nodes make them")
    unknown = [node for node in nodes if not node.known]
    foreign = [node for node in unknown if (node.domain, node.op_type) not in macs.RULES]
    if foreign:
        names = ", ".join(sorted({f"{node.domain or 'ai.onnx'}.{node.op_type}" for node in foreign}))
        notes.append(f"the work of {len(foreign)} nodes is unknown and not counted: {names}")
    if len(unknown) > len(foreign):
        names = ", ".join(sorted({node.op_type for node in unknown if (node.domain, node.op_type) in macs.RULES}))
        number = len(unknown) - len(foreign)
        notes.append(f"the work of {number} nodes is not counted, for their shapes are not known: {names}")
    for step in steps:
        if step.why_unknown:
            notes.append(f"{step.node.what}: {step.why_unknown}")
        if step.bodies:
            notes.append(_counted(step, runs))
    return notes


def _counted(step: Step, runs: Observed) -> str:
    """How subgraphs were counted."""
    what, first = step.node.what, step.bodies[0]
    if runs:
        return f"{what}: its subgraphs are counted as often as they ran when observed"
    if first.is_branch:
        known = any(body.runs is not None for body in step.bodies)
        return f"{what}: {'the branch that is always taken' if known else 'the branch with more MACs'} is counted"
    if isinstance(first.runs, int):
        return f"{what}: its body is counted {first.runs} times"
    return f"{what}: the number of iterations is not known; its body is counted once"
