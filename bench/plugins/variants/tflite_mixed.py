"""A precision for each operator with weights of a TFLite file, as the option spells it: `tflite_mixed-4d2f`.

`f` is float32; `d` 8-bit weights, and activations rounded by their range in each run; `q` the same with weights of 4
bits; `w` 8-bit weights that are made floats before the product.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.api import Info, Part, Task, Variant, mixture
from bench.api.errors import RefusedError

FLOAT, DYNAMIC, BITS4, WEIGHTS = "f", "d", "q", "w"
_LETTERS = {
    "FULLY_CONNECTED": FLOAT + DYNAMIC + BITS4 + WEIGHTS,
    "CONV_2D": FLOAT + DYNAMIC + WEIGHTS,
    "DEPTHWISE_CONV_2D": FLOAT + DYNAMIC + WEIGHTS,
    "EMBEDDING_LOOKUP": FLOAT + DYNAMIC + BITS4,
    "CONV_2D_TRANSPOSE": FLOAT + DYNAMIC + WEIGHTS,
}
"""The precisions of each operator, by the quantizer's name of it."""


class TfLiteMixed(Variant):
    """Google's AI Edge Quantizer on the chosen operators, with a scale for each channel of a weight."""

    portable = True
    requires = ("ai_edge_quantizer",)
    extra = "litert"
    formats = ("tflite",)
    options = ()
    letters = {
        FLOAT: "float32",
        DYNAMIC: "int8, activations rounded in each run",
        BITS4: "4-bit weights, activations rounded to 8 bits in each run",
        WEIGHTS: "8-bit weights, products in float32",
    }
    lossy = True

    def parts(self, source: Path, *, task: Task) -> Sequence[Part]:
        return list(_parts(source))

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from ai_edge_quantizer import qtyping, quantizer, recipe_manager

        parts = list(_parts(source))
        chosen = mixture.chosen(option, parts)
        if chosen.keys() <= {FLOAT}:
            raise RefusedError("every operator stays float32")
        operators = {part.name: qtyping.TFLOperationName(part.operator) for part in parts}
        manager = recipe_manager.RecipeManager()
        for letter, names in chosen.items():
            for name in names:
                scope = f"^{re.escape(name)}$"
                if letter == WEIGHTS:
                    manager.add_weight_only_config(scope, operators[name], num_bits=8)
                elif letter != FLOAT:
                    manager.add_dynamic_config(scope, operators[name], num_bits=4 if letter == BITS4 else 8)
        tool = quantizer.Quantizer(str(source), manager.get_quantization_recipe())
        target.write_bytes(tool.quantize(enable_progress_report=False).quantized_model)
        return {f"num_{letter}": len(names) for letter, names in chosen.items()}


def _parts(source: Path) -> Iterator[Part]:
    """The operators of the quantizer's with stored weights, whose names, the scopes of a recipe, no other has."""
    from ai_edge_quantizer.utils import tfl_flatbuffer_utils as flatbuffers

    model = flatbuffers.read_model(str(source))
    named: dict[str, Part] = {}
    double = set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex].builtinCode
            kind = str(getattr(flatbuffers.TFL_OP_CODE_TO_NAME.get(code), "value", ""))
            tensors = [graph.tensors[index] for index in operator.inputs if index >= 0]
            shapes = [
                tuple(map(int, tensor.shape))
                for tensor in tensors
                if tensor.shape is not None and len(tensor.shape) > 1 and model.buffers[tensor.buffer].data is not None
            ]
            if kind not in _LETTERS or not shapes:
                continue
            name = flatbuffers.get_op_scope(operator, graph.tensors)
            if name in named:
                double.add(name)
            named[name] = Part(
                name=name,
                operator=kind,
                alike=f"{kind} {' '.join('x'.join(map(str, shape)) for shape in shapes)}",
                letters=_LETTERS[kind],
                num_weights=sum(map(math.prod, shapes)),
            )
    yield from (part for name, part in named.items() if name not in double)
