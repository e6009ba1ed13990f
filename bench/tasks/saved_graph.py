"""The graph of a SavedModel with its variables as constants, for models whose Python objects cannot be restored.

`tf.saved_model.load` restores the objects that were saved, and fails where a class has changed, such as the optimizer
of an older Keras. The graphs of the signatures need none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """A frozen signature, which is called like one that `tf.saved_model.load` restored.

    Attributes:
        function: takes the inputs in order and gives the outputs in order.
        structured_input_signature: an empty tuple, and the `tf.TensorSpec` of each input by name.
        outputs: names of the outputs.
        trainable_variables: a `tf.TensorSpec` for each weight; the graph does not tell which of them training changed.
    """

    function: Any
    structured_input_signature: tuple[tuple[()], Mapping[str, Any]]
    outputs: tuple[str, ...]
    trainable_variables: Sequence[Any]

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """The output tensors by name, for input tensors by name."""
        tensors = self.function(*(inputs[name] for name in self.structured_input_signature[1]))
        return dict(zip(self.outputs, tensors, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """A SavedModel as its signatures alone, by name."""

    signatures: Mapping[str, Signature]


def load(folder: Path) -> Loaded:
    """Freeze every signature of a SavedModel that has inputs and outputs.

    Raises:
        Exception: TensorFlow's own, where the graph cannot be loaded either.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.load(session, [tf.saved_model.SERVING], str(folder))
        definitions = {
            name: definition
            for name, definition in meta.signature_def.items()
            if definition.inputs and definition.outputs
        }
        made_by = sorted(
            {info.name.split(":")[0] for definition in definitions.values() for info in definition.outputs.values()}
        )
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), made_by)
    trained = [tensor for tensor in map(_weight, frozen.node) if tensor is not None]
    wrapped = v1.wrap_function(lambda: v1.import_graph_def(frozen, name=""), [])
    return Loaded(
        signatures={name: _signature(wrapped, definition, trained) for name, definition in definitions.items()}
    )


def _weight(node: Any) -> Any | None:
    """The `tf.TensorSpec` of a constant of floating-point numbers with an axis, which was a variable; else None."""
    import tensorflow as tf

    if node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    dtype, shape = tf.as_dtype(tensor.dtype), tf.TensorShape(tensor.tensor_shape)
    return tf.TensorSpec(shape, dtype) if dtype.is_floating and shape.rank else None


def _signature(wrapped: Any, definition: Any, trained: Sequence[Any]) -> Signature:
    """A signature whose graph calls no functions: converters cannot follow calls within an imported graph."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    inputs, outputs = (
        {name: wrapped.graph.as_graph_element(info.name) for name, info in sorted(side.items())}
        for side in (definition.inputs, definition.outputs)
    )
    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in inputs.items()}
    return Signature(
        function=convert_variables_to_constants_v2(wrapped.prune(list(inputs.values()), list(outputs.values()))),
        structured_input_signature=((), specs),
        outputs=tuple(outputs),
        trainable_variables=trained,
    )
