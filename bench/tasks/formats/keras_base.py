"""What every Keras or TensorFlow model of one's own has in common: called with its inputs in order, a list out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]


class KerasCall:
    """A Keras model that takes its inputs as arguments: models that Keras puts together take them in a list."""

    def __init__(self, model: Any, names: Sequence[str] | None = None) -> None:
        self._model = model
        self._names = names

    @property
    def trainable_weights(self) -> Sequence[Any]:
        weights: Sequence[Any] = self._model.trainable_weights
        return weights

    def __call__(self, *tensors: Any) -> list[Any]:
        named = self.named(*tensors)
        return [named[name] for name in self._names or named]

    def named(self, *tensors: Any) -> dict[str, Any]:
        """Outputs by name."""
        try:
            form = self._model.input
        except (AttributeError, ValueError):  # a model of a class of one's own takes what its `call` says
            return dict(named_tensors(self._model(*tensors, training=False)))
        import keras

        outputs = self._model(keras.tree.pack_sequence_as(form, list(tensors)), training=False)
        return dict(named_tensors(outputs))

    def outputs_of(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """The same for arrays."""
        return run(self.named, feeds)


def named_tensors(value: Any, name: str = "output") -> list[tuple[str, Any]]:
    """All tensors of what a model returned, in order, with names."""
    if isinstance(value, Mapping):
        return [found for key, item in value.items() for found in named_tensors(item, str(key))]
    if isinstance(value, (list, tuple)):
        return [found for place, item in enumerate(value) for found in named_tensors(item, f"{name}_{place}")]
    return [(name, value)]


def run(call: Callable[..., Mapping[str, Any]], feeds: Arrays) -> dict[str, np.ndarray]:
    """Outputs by name for arrays that a function of tensors takes in order."""
    import tensorflow as tf

    outputs = call(*[tf.convert_to_tensor(array) for array in feeds.values()])
    return {name: output.numpy() for name, output in outputs.items()}


def save(model: Any, path: Path) -> None:
    """Write the weights by their places."""
    from safetensors.numpy import save_file

    save_file({f"{place:05}": array for place, array in enumerate(model.get_weights())}, str(path))


def restore(model: Any, path: Path) -> None:
    """Give a model the weights of such a file."""
    from safetensors.numpy import load_file

    tensors = load_file(str(path))
    model.set_weights([tensors[name] for name in sorted(tensors)])
