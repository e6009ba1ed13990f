"""Raise the operator set version of an ONNX model, with proof that it still computes the same."""

from __future__ import annotations

from pathlib import Path

from bench.api import Task
from bench.api.errors import ArtifactError, RefusedError
from bench.graphs.deferred import onnx
from bench.graphs.diff.same_outputs import check_same_outputs
from bench.graphs.file import lazy


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set; 0 for a model that has no operator of it."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def told_if_raised(source: Path, target: Path) -> str | None:
    """A sentence about a file whose operator set version is newer than that of the file it was made from, or None."""
    before, after = (opset_of(lazy.read(path).model) for path in (source, target))
    return f"operator set {before} of the file before it was raised to {after}" if after > before else None


def raise_opset(model: onnx.ModelProto, version: int, task: Task) -> onnx.ModelProto:
    """The model at an operator set version of at least `version`.

    Raises:
        RefusedError: the model has no operator of ONNX's own set.
        ArtifactError: onnx cannot convert it, or its outputs for a training sample differ by more than `task.close`.
    """
    current = opset_of(model)
    if current >= version:
        return model
    if not current:
        raise RefusedError("the model has no operator of ONNX's own set")
    raising = f"it needs operator set {version}; raising the file's {current}"
    try:
        raised = onnx.version_converter.convert_version(model, version)
        least = onnx.helper.find_min_ir_version_for(raised.opset_import, ignore_unknown=True)
        raised.ir_version = max(model.ir_version, least)
        check_same_outputs(model, raised, task)
    except (onnx.version_converter.ConvertError, RuntimeError, ArtifactError) as error:
        raise ArtifactError(f"{raising} fails: {error}") from error
    return raised
