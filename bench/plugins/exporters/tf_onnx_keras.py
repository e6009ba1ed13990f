"""ONNX by Keras's own `Model.export` on its backend PyTorch, which is `torch.onnx` underneath."""

from __future__ import annotations

import re
import unittest.mock
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.deferred import onnx, torch
from bench.onnxfile.file.digest import all_nodes
from bench.plugins.engines.tensorflow.keras_exporter import KerasExporter

_LEFT = re.compile(r"calling (\w+)\.call\(\).*numpy\(\)", re.DOTALL)
"""What is said of a layer that turns its tensors into arrays of NumPy, as each function of TensorFlow does."""


class TfOnnxKeras(KerasExporter):
    """ONNX of a Keras model that runs on PyTorch, too."""

    requires = ("keras", "torch", "onnxscript", "onnx", "onnxruntime")
    extra = "tf,torch"
    writes = "onnx"
    keras_format = "onnx"
    backend = "torch"
    suffix = ".onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        names = unittest.mock.patch.object(torch.nn.ParameterDict, "_key_to_attr", _attribute)
        arrays = unittest.mock.patch.object(torch.Tensor, "__array__", _no_constant(torch.Tensor.__array__))
        norms = unittest.mock.patch.multiple(torch.nn.functional, layer_norm=_layer_norm, rms_norm=_rms_norm)
        try:
            with names, norms, arrays:
                return super().export(task, source, target)
        except RuntimeError as error:
            if (left := _LEFT.search(str(error))) is None:
                raise
            reason = f"the layer {left[1]} computes in TensorFlow or NumPy, where Keras's PyTorch cannot follow it"
            raise RefusedError(reason) from error

    def finish(self, written: Path, task: Task, target: Path) -> Info:
        import onnxruntime

        proto = onnx.load(written)
        graph = proto.graph
        for kind, ports, specs in (("inputs", graph.input, task.inputs), ("outputs", graph.output, task.outputs)):
            if len(ports) != len(specs):
                raise ArtifactError(f"Keras wrote {len(ports)} {kind}; the task has {len(specs)}")
            names = {port.name: spec.name for port, spec in zip(ports, specs, strict=True)}
            for node in all_nodes(proto):
                node.input[:] = [names.get(name, name) for name in node.input]
                node.output[:] = [names.get(name, name) for name in node.output]
            for port in ports:
                port.name = names[port.name]
        onnx.save(proto, target)
        try:
            onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ArtifactError(f"ONNX Runtime does not open what Keras wrote: {error}") from error
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}


def _no_constant(as_array: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's conversion to NumPy; it fails in a trace, which would have the array as a constant without an error."""

    def convert(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if torch.jit.is_tracing():
            raise RuntimeError("numpy() of a traced tensor")
        return as_array(tensor, *arguments, **named)

    return convert


def _attribute(_: Any, path: str) -> str:
    """The attribute for a variable of Keras: PyTorch takes no dot in it, which names of layers may have (Keras 3.15.1).

    Two slashes, which Keras writes nowhere, stand for a dot, so that names stay apart.
    """
    return path.replace(".", "//")


def _layer_norm(x: torch.Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """As PyTorch's function of that name, with sizes that are no part of a trace, as the translation wants them."""
    return torch.layer_norm(x, [int(size) for size in shape], weight, bias, eps)


def _rms_norm(x: torch.Tensor, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """As PyTorch's function of that name, by operators that the translation of a trace has (torch 2.13.0).

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    axes = tuple(range(-len(shape), 0))
    epsilon = torch.finfo(x.dtype).eps if eps is None else eps
    normal = x * torch.rsqrt(x.square().mean(axes, keepdim=True) + epsilon)
    return normal if weight is None else normal * weight
