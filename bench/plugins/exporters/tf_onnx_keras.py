"""ONNX by Keras's own `Model.export` on its backend PyTorch, which is `torch.onnx` underneath."""

from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_nodes
from bench.plugins.engines.tensorflow.keras_exporter import KerasExporter


class TfOnnxKeras(KerasExporter):
    """ONNX of a Keras model that runs on PyTorch, too."""

    requires = ("keras", "torch", "onnxscript", "onnx", "onnxruntime")
    extra = "tf,torch"
    writes = "onnx"
    keras_format = "onnx"
    backend = "torch"
    suffix = ".onnx"

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
        onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}
