"""Code that all TensorFlow models of a user share: called with inputs in order, they return a list of outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays


def configure() -> None:
    """Set, before Keras or TensorFlow is imported, TensorFlow as Keras's backend and warnings as the least to log."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


class OrderedCall:
    """A model that takes its input tensors as arguments in order and returns its output tensors as a list.

    Args:
        named: the model as a function from its input tensors in order to its output tensors by name.
        trainable_weights: the weights that training changes; the runtimes count them as parameters.
        names: names of the outputs in the order to return them; None for the model's own order.
    """

    def __init__(
        self, named: Callable[..., Mapping[str, Any]], trainable_weights: Sequence[Any], names: Sequence[str] | None
    ) -> None:
        self.trainable_weights = trainable_weights
        self._named, self._names = named, names

    def __call__(self, *tensors: Any) -> list[Any]:
        named = self._named(*tensors)
        return [named[name] for name in self._names or named]

    def outputs_of(self, feeds: Arrays) -> Arrays:
        """Output arrays by name, for input arrays in order."""
        import tensorflow as tf

        outputs = self._named(*[tf.convert_to_tensor(array) for array in feeds.values()])
        return {name: output.numpy() for name, output in outputs.items()}


def keras_call(model: Any, names: Sequence[str] | None = None) -> OrderedCall:
    """A Keras model as a call; a model that Keras assembled from layers takes its inputs in a structure."""

    def named(*tensors: Any) -> dict[str, Any]:
        try:
            structure = model.input
        except (AttributeError, ValueError):  # a subclass of `keras.Model` takes the arguments of its `call`
            return dict(_named_tensors(model(*tensors, training=False)))
        import keras

        return dict(_named_tensors(model(keras.tree.pack_sequence_as(structure, list(tensors)), training=False)))

    # Weights that were frozen while others were trained are parameters, too. To unfreeze them would change the model: a
    # frozen normalization that is called in training mode takes the statistics that it keeps.
    learned = {id(weight) for layer in model._flatten_layers() for weight in layer._trainable_variables}
    return OrderedCall(named, [weight for weight in model.weights if id(weight) in learned], names)


def _named_tensors(value: Any, name: str = "output") -> list[tuple[str, Any]]:
    """Names and tensors of a nested output in order; a tensor in a list or tuple is named by its place."""
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _named_tensors(item, str(key))]
    if isinstance(value, (list, tuple)):
        return [pair for place, item in enumerate(value) for pair in _named_tensors(item, f"{name}_{place}")]
    return [(name, value)]


def save(model: Any, path: Path) -> None:
    """Write a Keras model's weights as safetensors, named by their places."""
    from safetensors.numpy import save_file

    save_file({f"{place:05}": array for place, array in enumerate(model.get_weights())}, str(path))


def restore(model: Any, path: Path) -> None:
    """Give a Keras model the weights of a file that `save` wrote."""
    from safetensors.numpy import load_file

    tensors = load_file(str(path))
    model.set_weights([tensors[name] for name in sorted(tensors)])


def unique(names: Sequence[str]) -> list[str]:
    """The names of tensors as every exporter takes them: letters, digits and underscores, each name once."""
    plain: list[str] = []
    for name in names:
        text = re.sub(r"[^A-Za-z0-9_]+", "_", name.removesuffix(":0")).strip("_") or "input"
        plain.append(text if text not in plain else f"{text}_{len(plain)}")
    return plain
