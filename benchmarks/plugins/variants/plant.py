"""Planted differences of real models, each at one node, for `benchmarks/blamed.py`.

`kernelN` computes one node by a costlier equal, `unfuseN` keeps an activation from being fused into what it follows,
`transposeN` adds transpositions, and their inverses, before a node; `precisionN` and `errorN` change the values that
one node gives: its weight is rounded to few bits, or its output is scaled. N counts the nodes at which it can be done,
from those that do the most; the artifact's facts name the node.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.api import Task, Variant
from bench.api.errors import RefusedError

NUM_PLACES = 40
KINDS = ("kernel", "unfuse", "transpose", "precision", "error")
_SCALE = 1.03
"""Of an output with a planted error."""
_MORE_PRODUCTS = 4
"""How many times as many columns of zeros as it has columns a costlier product with a weight gets."""
_OPEN_SIZE = 224
"""Taken for a size of an input that a file leaves open."""
_TURNS = 3
"""Pairs of transpositions: one takes 1.7 [0.7, 2.8] % of the time of nudenet's detector, which is not clear."""
_STEPS = 6
"""Steps of a weight of a planted loss of precision, on either side of zero."""


class Plant(Variant):
    """Changes one node."""

    options = tuple(f"{kind}{number}" for kind in KINDS for number in range(NUM_PLACES))
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx

        kind = option.rstrip("0123456789")
        number = int(option.removeprefix(kind))
        model = onnx.load(source)
        planter = Planter(model)
        places = list(planter.places(kind))
        if number >= len(places):
            raise RefusedError(f"{len(places)} nodes take a planted {kind}, and {number} is beyond them")
        place = places[number]
        name, operator = place.name or place.output[0], place.op_type
        planter.plant(kind, place)
        del model.graph.value_info[:]
        onnx.checker.check_model(model)
        onnx.save(model, target)
        return {"planted": name, "operator": operator, "num_places": len(places)}


def _sized(model: Any) -> Any:
    """A copy in which no size of an input is open, so that the sizes of all tensors are known."""
    sized = type(model)()
    sized.CopyFrom(model)
    del sized.graph.value_info[:]
    weights = {tensor.name for tensor in sized.graph.initializer}
    for value in sized.graph.input:
        for place, dim in enumerate(value.type.tensor_type.shape.dim if value.name not in weights else ()):
            if not dim.dim_value:
                dim.dim_value = _OPEN_SIZE if place else 1
    return sized


class Planter:
    """Plants differences in a model, in place."""

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper, shape_inference

        self.graph = model.graph
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        inferred = shape_inference.infer_shapes(_sized(model)).graph
        values = (*inferred.value_info, *inferred.input, *inferred.output)
        self.ranks = {
            value.name: len(value.type.tensor_type.shape.dim)
            for value in values
            if value.type.tensor_type.HasField("shape") and value.type.tensor_type.elem_type == 1
        }
        self.sizes = {
            value.name: math.prod(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim) for value in values
        }
        self._kinds: dict[str, Callable[[Any], bool]] = {
            "kernel": self._has_costlier,
            "unfuse": lambda node: node.op_type == "Relu" and self._follows(node, ("Conv",)),
            "transpose": lambda node: self.ranks.get(node.input[0], 0) >= 3 if node.input else False,
            "precision": self._has_weight,
            "error": lambda node: bool(node.output) and self.ranks.get(node.output[0], 0) >= 2,
        }

    def places(self, kind: str) -> Iterator[Any]:
        """The nodes at which a kind of difference can be planted, those that do the most first."""
        nodes = [node for node in self.graph.node if node.input and node.output and self._kinds[kind](node)]
        work = self._turned if kind == "transpose" else self._work
        return iter(sorted(nodes, key=lambda node: -work(node)))

    def _turned(self, node: Any) -> float:
        """Elements of what a planted transposition turns around."""
        return float(self.sizes.get(node.input[0], 1))

    def _work(self, node: Any) -> float:
        """About how much a node does: elements of its output, times products for each."""
        weight = self.weights.get(node.input[1]) if len(node.input) > 1 else None
        products = weight.size / weight.shape[0] if weight is not None and node.op_type == "Conv" else 1.0
        if weight is not None and node.op_type in ("MatMul", "Gemm"):
            products = float(weight.shape[0])
        return self.sizes.get(node.output[0], 1.0) * products

    def plant(self, kind: str, node: Any) -> None:
        """Plant a difference at a node."""
        getattr(self, f"_{kind}")(node)

    def _follows(self, node: Any, operators: tuple[str, ...]) -> bool:
        return any(node.input[0] in other.output and other.op_type in operators for other in self.graph.node)

    def _has_weight(self, node: Any) -> bool:
        weight = self.weights.get(node.input[1]) if len(node.input) > 1 else None
        return node.op_type in ("Conv", "MatMul", "Gemm") and weight is not None and weight.dtype.name == "float32"

    def _has_costlier(self, node: Any) -> bool:
        if node.op_type in ("Relu", "Sigmoid", "Erf", "Tanh", "Softmax", "LayerNormalization"):
            return self.ranks.get(node.output[0], 0) >= 2
        return self._has_weight(node) and (node.op_type != "Conv" or self.weights[node.input[1]].ndim == 4)

    def _add(self, name: str, array: Any) -> str:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _replace(self, node: Any, nodes: list[Any]) -> None:
        place = next(index for index, other in enumerate(self.graph.node) if other is node or other == node)
        others = list(self.graph.node)
        others[place : place + 1] = nodes
        del self.graph.node[:]
        self.graph.node.extend(others)

    def _kernel(self, node: Any) -> None:
        """Compute a node by a costlier equal."""
        import numpy as np
        from onnx import helper

        output, name = node.output[0], f"planted_{node.output[0]}"
        if node.op_type == "Conv":
            self._larger_kernel(node)
        elif node.op_type in ("MatMul", "Gemm"):
            weight = self.weights[node.input[1]]
            is_turned = any(each.name == "transB" and each.i for each in node.attribute)
            axis = 0 if is_turned else -1
            widened = np.concatenate([weight, *[np.zeros_like(weight)] * _MORE_PRODUCTS], axis=axis)
            node.input[1] = self._add(f"{name}_weight", widened)
            if len(node.input) > 2 and self.weights.get(node.input[2]) is not None:
                bias = self.weights[node.input[2]]
                node.input[2] = self._add(
                    f"{name}_bias", np.concatenate([bias, *[np.zeros_like(bias)] * _MORE_PRODUCTS], axis=-1)
                )
            node.output[0] = f"{name}_wide"
            size = weight.shape[0] if is_turned else weight.shape[-1]
            ends = [
                self._add(f"{name}_{key}", np.array([value], np.int64))
                for key, value in (("start", 0), ("end", size), ("axis", -1))
            ]
            narrow = helper.make_node("Slice", [node.output[0], *ends], [output], name=f"{name}_slice")
            copy = type(node)()
            copy.CopyFrom(node)
            self._replace(node, [copy, narrow])
        else:
            # The same values twice through the operator, and the larger of both: three passes more over memory.
            copies = []
            for number in range(2):
                copy = type(node)()
                copy.CopyFrom(node)
                copy.name, copy.output[0] = f"{name}_{number}", f"{name}_{number}"
                copies.append(copy)
            shift = self._add(f"{name}_zero", np.array(1e-38, np.float32))
            copies[1].input[0] = f"{name}_again"
            again = helper.make_node("Add", [node.input[0], shift], [f"{name}_again"], name=f"{name}_again")
            largest = helper.make_node("Max", [f"{name}_0", f"{name}_1"], [output], name=f"{name}_max")
            self._replace(node, [again, *copies, largest])

    def _larger_kernel(self, node: Any) -> None:
        """Pad the kernel of a convolution with zeros, by one on each side for each step of dilation."""
        import numpy as np

        weight = self.weights[node.input[1]]
        attributes = {each.name: each for each in node.attribute}
        pads = list(attributes["pads"].ints) if "pads" in attributes else [0, 0, 0, 0]
        dilations = list(attributes["dilations"].ints) if "dilations" in attributes else [1, 1]
        padded = np.pad(weight, [(0, 0), (0, 0), (1, 1), (1, 1)])
        node.input[1] = self._add(f"planted_{node.output[0]}_weight", padded)
        for name, values in (
            ("pads", [pad + step for pad, step in zip(pads, [*dilations, *dilations], strict=True)]),
            ("kernel_shape", padded.shape[2:]),
        ):
            for each in [each for each in node.attribute if each.name == name]:
                node.attribute.remove(each)
            attribute = node.attribute.add()
            attribute.name, attribute.type = name, 7
            attribute.ints.extend(values)

    def _unfuse(self, node: Any) -> None:
        """Compute a Relu by a maximum, which no runtime fuses into the convolution before it."""
        import numpy as np
        from onnx import helper

        zero = self._add(f"planted_{node.output[0]}_zero", np.array([[0.0]], np.float32))
        name = node.name or node.output[0]
        # A parametric one whose slope is 0 is another operator with the same values.
        self._replace(node, [helper.make_node("PRelu", [node.input[0], zero], list(node.output), name=name)])

    def _transpose(self, node: Any) -> None:
        """Turn the first input around and back, some times; reshapes after each keep it from cancelling the next."""
        import numpy as np
        from onnx import helper

        source, name = node.input[0], f"planted_{node.output[0]}"
        rank = self.ranks[source]
        turned = [0, *range(2, rank), 1]
        back = [0, rank - 1, *range(1, rank - 1)]
        shape = self._add(f"{name}_flat", np.array([0, 0, -1], np.int64))
        nodes: list[Any] = []
        for number in range(2 * _TURNS):
            own, perm = f"{name}_{number}", back if number % 2 else turned
            nodes += [
                helper.make_node("Transpose", [source], [f"{own}_turned"], perm=perm, name=f"{own}_turn"),
                helper.make_node("Shape", [f"{own}_turned"], [f"{own}_shape"], name=f"{own}_shape"),
                helper.make_node("Reshape", [f"{own}_turned", shape], [f"{own}_flat"], name=f"{own}_flatten"),
                helper.make_node("Reshape", [f"{own}_flat", f"{own}_shape"], [f"{own}_again"], name=f"{own}_re"),
            ]
            source = f"{own}_again"
        copy = type(node)()
        copy.CopyFrom(node)
        copy.input[0] = source
        self._replace(node, [*nodes, copy])

    def _precision(self, node: Any) -> None:
        """Round the weight of a node to few steps."""
        import numpy as np

        weight = self.weights[node.input[1]]
        step = float(np.abs(weight).max()) / _STEPS or 1.0
        rounded = (np.round(weight / step) * step).astype(np.float32)
        node.input[1] = self._add(f"planted_{node.output[0]}_weight", rounded)

    def _error(self, node: Any) -> None:
        """Scale the output of a node."""
        import numpy as np
        from onnx import helper

        output, name = node.output[0], f"planted_{node.output[0]}"
        scale = self._add(f"{name}_scale", np.array(_SCALE, np.float32))
        copy = type(node)()
        copy.CopyFrom(node)
        copy.output[0] = f"{name}_right"
        self._replace(node, [copy, helper.make_node("Mul", [f"{name}_right", scale], [output], name=f"{name}_wrong")])
