"""Raise the operator set version of an ONNX model, with proof that it still computes the same."""

from __future__ import annotations

from pathlib import Path

from bench.api import Task
from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.diff.same_outputs import check_same_outputs
from bench.onnxfile.file import lazy
from bench.onnxfile.file.digest import all_nodes
from bench.onnxfile.file.normalized import inline_functions
from bench.onnxfile.file.replace import replace_all

_OWN = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""
OLDEST = 13
"""The version that a file gets whose operators are all of other domains: every tool knows it."""
_HIDING = "inferometer.hidden"
"""A domain for operators that a converter is not to see."""


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set; 0 for a model that has no operator of it."""
    return next((entry.version for entry in model.opset_import if entry.domain in _OWN), 0)


def state_own_set(model: onnx.ModelProto) -> None:
    """State a version of ONNX's own operator set, in place, in a model that has none: some tools look for it."""
    if not opset_of(model):
        model.opset_import.append(onnx.helper.make_opsetid("", OLDEST))


def told_if_raised(source: Path, target: Path) -> str | None:
    """A sentence about a file whose operator set version is newer than that of the file it was made from, or None."""
    before, after = (opset_of(lazy.read(path).model) for path in (source, target))
    return f"operator set {before} of the file before it was raised to {after}" if after > before > 0 else None


def raise_opset(model: onnx.ModelProto, version: int, task: Task) -> onnx.ModelProto:
    """The model at an operator set version of at least `version`; where it is raised, without local functions.

    Raises:
        RefusedError: the model has no operator of ONNX's own set.
        ArtifactError: onnx cannot convert it, or its outputs for a training sample differ by more than `task.close`.
    """
    current = opset_of(model)
    if current >= version:
        return model
    model = inline_functions(model)  # onnx's converter drops them
    if not current:
        raise RefusedError("the model has no operator of ONNX's own set")
    raising = f"it needs operator set {version}; raising the file's {current}"
    if model.functions:
        name = model.functions[0].name
        raise ArtifactError(f"{raising} fails: its function {name!r} states another version of an operator set")
    try:
        raised = _converted(model, current, version)
        least = onnx.helper.find_min_ir_version_for(raised.opset_import, ignore_unknown=True)
        raised.ir_version = max(model.ir_version, least)
        check_same_outputs(model, raised, task)
    except (onnx.version_converter.ConvertError, RuntimeError, ArtifactError) as error:
        raise ArtifactError(f"{raising} fails: {error}") from error
    return raised


def is_complete(model: onnx.ModelProto) -> bool:
    """Whether the operator set version of a model has all operators that it uses; its weights are not looked at."""
    return _version_needed(model) <= opset_of(model)


def complete(model: onnx.ModelProto, task: Task) -> onnx.ModelProto:
    """The model at the first operator set version that has all operators that it uses.

    ONNX Runtime runs operators of newer sets in older files, and its optimizers write such files; others refuse them.

    Raises:
        ArtifactError: as `raise_opset`.
    """
    return model if is_complete(model) else raise_opset(model, _version_needed(model), task)


def _version_needed(model: onnx.ModelProto) -> int:
    """The first operator set version that has all of ONNX's own operators that a model uses; 0 if it uses none.

    Functions that state a version of their own are left out.
    """
    inlined = inline_functions(model)
    inlined.ClearField("functions")
    return max(_first_versions(inlined).values(), default=0)


def _converted(model: onnx.ModelProto, current: int, version: int) -> onnx.ModelProto:
    """The model at another version, by onnx's converter, which gives up on operators of newer sets."""
    first = _first_versions(model)
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for node in all_nodes(copy):
        if node.domain in _OWN and first.get(node.op_type, 0) > current:
            node.domain = _HIDING
    copy.opset_import.append(onnx.helper.make_opsetid(_HIDING, 1))
    raised = onnx.version_converter.convert_version(copy, version)
    for node in all_nodes(raised):
        if node.domain == _HIDING:
            node.domain = ""
    replace_all(raised.opset_import, [entry for entry in raised.opset_import if entry.domain != _HIDING])
    return raised


def _first_versions(model: onnx.ModelProto) -> dict[str, int]:
    """The first version of ONNX's own set that has each operator of the model; without those that none has."""
    used = {node.op_type for node in all_nodes(model) if node.domain in _OWN}
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in _OWN and schema.name in used:
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return first
