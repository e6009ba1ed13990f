"""LiteRT, formerly TensorFlow Lite: its interpreter with the XNNPACK delegate, which is its default on processors."""

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.plugins.engines.litert import LiteRtSession

CODE = """\
from ai_edge_litert.interpreter import Interpreter


def load(path, outputs):
    interpreter = Interpreter(str(path), num_threads={threads})
    if any(interpreter.get_signature_list()):
        runner = interpreter.get_signature_runner()
        return lambda feeds: runner(**feeds)
    inputs = {{port["name"]: port["index"] for port in interpreter.get_input_details()}}
    made = {{port["name"]: port["index"] for port in interpreter.get_output_details()}}

    def run(feeds):
        for name, array in feeds.items():
            interpreter.resize_tensor_input(inputs[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feeds.items():
            interpreter.set_tensor(inputs[name], array)
        interpreter.invoke()
        return {{name: interpreter.get_tensor(made[name]) for name in outputs}}

    return run
"""


class LiteRt(Runtime):
    """Opens `.tflite` files that have one signature."""

    title = "LiteRT"
    requires = ("ai_edge_litert",)
    extra = "litert"
    formats = ("tflite",)
    generates = True
    default_for = ("tflite",)
    imports = ("ai_edge_litert.interpreter",)

    def code(self, *, provider: str, threads: int) -> str | None:
        return CODE.format(threads=threads)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from ai_edge_litert.interpreter import Interpreter

        if task.request is not None:
            from bench.plugins.engines.litert_stepper import LiteRtStepper

            return LiteRtStepper(Interpreter(str(artifact), num_threads=threads), artifact, task.request)
        inputs, outputs = ([spec.name for spec in side] for side in (task.inputs, task.outputs))
        return LiteRtSession(Interpreter(str(artifact), num_threads=threads), artifact, inputs, outputs)
