"""The bases of the exporters from PyTorch: inputs to trace with, dynamic axes, and clean ONNX files."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api import UNKNOWN, Exporter, Info, Task, TensorSpec
from bench.api.errors import ArtifactError, BenchError
from bench.api.names import Role
from bench.onnxfile.deferred import np, onnx, torch
from bench.onnxfile.file.digest import all_graphs, all_nodes, fed_inputs
from bench.onnxfile.file.interface import check_interface
from bench.onnxfile.shapes.feeds import sample_feeds
from bench.plugins.engines.notes import drop_metadata
from bench.plugins.engines.pytorch import attention

_EXAMPLE_BATCH = 2  # from a batch of 1 the exporter bakes 1 into the Reshapes around an LSTM (torch 2.13.0)
_EXAMPLE_SIZE = 64
"""Size of every other dynamic dimension when the task has no samples to take an example from."""


class TorchExporter(Exporter):
    """Takes a model from PyTorch."""

    requires: ClassVar[tuple[str, ...]] = ("torch",)
    extra = "torch"
    sources = ("torch",)
    method = "torch.export"

    def export(self, task: Task, source: str, target: Path) -> Info:
        model = task.build(source, task.weights_path)
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            return self.convert(model, example_tensors(task), task, target)

    def convert(self, model: torch.nn.Module, example: tuple[torch.Tensor, ...], task: Task, target: Path) -> Info:
        """Write the artifact of a model, without gradients; warnings are not shown.

        Args:
            example: inputs to trace with, in the task's order.

        Returns:
            Facts to keep with the artifact.
        """
        raise NotImplementedError


def exported(model: Any, example: tuple[torch.Tensor, ...], task: Task) -> torch.export.ExportedProgram:
    """A model's exported program, with every dynamic dimension of the task within bounds that the model sets itself.

    Such as by a table of positions.
    """
    dynamic = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in dynamic_axes(task.inputs).values())
    return torch.export.export(model, example, dynamic_shapes=dynamic)


class TorchOnnxExporter(TorchExporter):
    """Writes ONNX, by torch.export and a translation to ONNX unless a subclass has another way."""

    requires: ClassVar[tuple[str, ...]] = ("torch", "onnxscript", "onnx")
    writes = "onnx"

    def convert(self, model: torch.nn.Module, example: tuple[torch.Tensor, ...], task: Task, target: Path) -> Info:
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        notes = {}
        try:
            self._write(model, example, task, target)
        except Exception as error:
            replaced = [] if isinstance(error, MemoryError) else attention.use_eager(model)
            if not replaced or not self._is_written(model, example, task, target):
                raise  # attention is not what it fails by
            notes["note"] = f"exported with {attention.SETTING}, for its export with {' and '.join(replaced)} fails"
        proto = onnx.load(target)
        _clean(proto, task)
        onnx.save(proto, target)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain), **notes}

    def _write(self, model: torch.nn.Module, example: tuple[torch.Tensor, ...], task: Task, target: Path) -> None:
        """Write what PyTorch makes of the model.

        Raises:
            ArtifactError: it fails, and names the cause of its error.
        """
        try:
            # Without gradients, PyTorch's attention takes fused operators, which its former exporter cannot translate.
            with torch.enable_grad():
                torch.onnx.export(
                    model,
                    example,
                    str(target),
                    input_names=[spec.name for spec in task.inputs],
                    output_names=[spec.name for spec in task.outputs],
                    **self.options(task),
                )
        except Exception as error:
            if error.__cause__ is None:
                raise
            # The cause says more than PyTorch's advice, which stands before it.
            raise ArtifactError(f"{type(error).__name__}: {error.__cause__}") from error

    def _is_written(self, *request: Any) -> bool:
        """Whether `_write` succeeds."""
        with contextlib.suppress(Exception):
            self._write(*request)
            return True
        return False

    def options(self, task: Task) -> dict[str, Any]:
        """Arguments of `torch.onnx.export`, by name, that keep every dynamic dimension of the task dynamic."""
        return {"dynamo": True, "dynamic_shapes": dynamic_shapes(task), "external_data": False, "verbose": False}


class TorchScriptExporter(TorchOnnxExporter):
    """Writes ONNX by PyTorch's former exporter: a TorchScript trace, translated at the opset that it prefers.

    A trace knows nothing of modules, so a weight that layers share is written once for each of them; the last step
    merges equal weights.
    """

    requires: ClassVar[tuple[str, ...]] = ("torch", "onnx")
    method = "trace"
    merges: ClassVar[bool] = True
    """Whether equal weights are merged."""

    def options(self, task: Task) -> dict[str, Any]:
        axes = dynamic_axes((*task.inputs, *task.outputs))
        # It merges no weights that could be fed.
        return {"dynamo": False, "dynamic_axes": axes, "keep_initializers_as_inputs": not self.merges}


class TorchThroughOnnxExporter(TorchOnnxExporter):
    """Writes another format, converted from the ONNX file: of PyTorch's exporter, or else of its former one."""

    def export(self, task: Task, source: str, target: Path) -> Info:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            path = Path(folder, "model.onnx")
            info = self._exported(task, source, path)
            check_interface(path, task)  # nobody else sees this file
            return {**info, **self.convert_onnx(path, task, target)}

    def _exported(self, task: Task, source: str, path: Path) -> Info:
        try:
            return super().export(task, source, path)
        except Exception as error:
            former = TorchScriptExporter(name=self.name, path=self.path)
            if isinstance(error, MemoryError) or former.refusal(task) is not None:
                raise
            try:
                info = former.export(task, source, path)
            except Exception:
                raise error  # noqa: B904 (it is not a consequence of the other exporter's)
            notes = ("by PyTorch's former exporter, for its export by torch.export fails", info.get("note"))
            return {**info, "note": "; ".join(filter(None, notes))}

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        """Convert the ONNX file `path` to the artifact `target` and return facts to keep with it."""
        raise NotImplementedError


def example_tensors(task: Task) -> tuple[torch.Tensor, ...]:
    """Inputs to trace with, in the task's order: samples if the task has them, since a model may branch on values."""
    try:
        feeds = sample_feeds(task, task.samples("train").inputs, 0, batch=_EXAMPLE_BATCH)
    except BenchError:
        feeds = {}
        sizes = {dim: _EXAMPLE_BATCH for spec in task.inputs for dim in spec.shape[:1]}
        for spec in task.inputs:
            shape = [dim if isinstance(dim, int) else sizes.get(dim, _EXAMPLE_SIZE) for dim in spec.shape]
            feeds[spec.name] = np.ones(shape, spec.dtype)
    return tuple(torch.from_numpy(feeds[spec.name]) for spec in task.inputs)


def single(example: tuple[torch.Tensor, ...], task: Task) -> tuple[torch.Tensor, ...]:
    """Of inputs to trace with, those of one sample: without an axis of samples, they are one already."""
    return tuple(tensor[:1] for tensor in example) if task.batched else example


def dynamic_axes(specs: Sequence[TensorSpec]) -> dict[str, dict[int, str]]:
    """Names of the dynamic dimensions by axis, by the name of the input or output; `UNKNOWN` is no name."""
    return {
        spec.name: {axis: dim for axis, dim in enumerate(spec.shape) if isinstance(dim, str) and dim != UNKNOWN}
        for spec in specs
    }


def dynamic_shapes(task: Task) -> tuple[Any, ...]:
    """The dynamic dimensions by axis for `torch.export`, in the order of the inputs: equal names are one dimension.

    A pass of a decoder takes the tensors of its cache as further positional arguments, which are one to `torch.export`.
    """
    axes = dynamic_axes(task.inputs)
    dims = {name: torch.export.Dim(name) for named in axes.values() for name in named.values()}
    shapes = tuple({axis: dims[name] for axis, name in axes[spec.name].items()} for spec in task.inputs)
    return (shapes[0], shapes[1:]) if task.role is Role.DECODING_STEP else shapes


def _clean(model: onnx.ModelProto, task: Task) -> None:
    """Drop notes on each node's origin, weights among the inputs, and shapes that may be wrong.

    The notes hold paths of this machine, and change the file's size and hash. A weight that a request may replace is no
    constant. Shapes inside the graph are dropped, and the fixed sizes of outputs that the task declares dynamic: torch
    2.13.0 states the example's sequence length as the fixed size of an LSTM's output, though the graph fixes nothing; a
    simplifier that believes the statement would fix it. `check_interface` infers the real sizes.
    """
    drop_metadata(model)
    for node in all_nodes(model):
        node.ClearField("doc_string")
    inputs = fed_inputs(model.graph)
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for graph in all_graphs(model):
        graph.ClearField("value_info")
    specs = {spec.name: spec for spec in task.outputs}
    for value in model.graph.output:
        for stated, dim in zip(value.type.tensor_type.shape.dim, specs[value.name].shape, strict=True):
            if isinstance(dim, str) and stated.HasField("dim_value"):
                stated.dim_param = dim
