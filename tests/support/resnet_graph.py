"""ResNet-18 as an ONNX graph, in fewer channels, for the tests of work on graphs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Net:
    """A builder of a network of convolutions; weights are small random numbers."""

    def __init__(self, side: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.side = side
        self.generator = np.random.default_rng(0)

    def add(self, op_type: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}:out"], name=name, **attributes))
        return f"{name}:out"

    def weight(self, name: str, *shape: int) -> str:
        self.weights[name] = self.generator.standard_normal(shape, np.float32) * np.float32(0.1)
        return name

    def conv(self, x: str, name: str, inputs: int, outputs: int, window: int, stride: int) -> str:
        kernel = self.weight(f"{name}.w", outputs, inputs, window, window)
        pads = [window // 2] * 4
        return self.add("Conv", [x, kernel, self.weight(f"{name}.b", outputs)], name, strides=[stride] * 2, pads=pads)

    def block(self, x: str, name: str, inputs: int, outputs: int, stride: int) -> str:
        h = self.add("Relu", [self.conv(x, f"{name}.conv1", inputs, outputs, 3, stride)], f"{name}.relu1")
        h = self.conv(h, f"{name}.conv2", outputs, outputs, 3, 1)
        beside = x if inputs == outputs else self.conv(x, f"{name}.shortcut", inputs, outputs, 1, stride)
        return self.add("Relu", [self.add("Add", [h, beside], f"{name}.add")], f"{name}.relu2")

    def model(self, output: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("image", FLOAT, ["N", 3, self.side, self.side])],
            [helper.make_tensor_value_info(output, FLOAT, ["N", 10])],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def resnet18(width: int = 4, side: int = 32) -> onnx.ModelProto:
    """Eight blocks of two convolutions, as ResNet-18 has them, in fewer channels."""
    net = Net(side)
    x = net.add("Relu", [net.conv("image", "stem", 3, width, 7, 2)], "stem.relu")
    x = net.add("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = width
    for stage in range(4):
        for place in range(2):
            wider = width * 2**stage
            x = net.block(x, f"layer{stage + 1}.{place}", channels, wider, 2 if stage and not place else 1)
            channels = wider
    x = net.add("Flatten", [net.add("GlobalAveragePool", [x], "pool")], "flatten")
    x = net.add("Gemm", [x, net.weight("fc.w", 10, channels), net.weight("fc.b", 10)], "fc", transB=1)
    return net.model(x)
