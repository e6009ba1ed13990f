"""A Python file with `build()`, which returns a PyTorch module or a Keras model, and `example_inputs()`.

The file is code that the person named, so it is run, but in a worker. Weights are what `build()` gives when the model
is first seen: they are kept, so that every process has the same ones, random ones included.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.errors import InputError
from bench.tasks import probe
from bench.tasks.code import imported_from, load
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

if TYPE_CHECKING:
    import numpy as np

SEED = 0
NEEDED = ("build", "example_inputs")
EXAMPLE = "a dict of arrays or tensors by input name, in the order in which the model takes them"


class TorchFileTask(OwnTask):
    """A file that builds a PyTorch module."""

    sources = ("torch",)
    requires = ("torch", "safetensors")
    extra = "torch"
    weights = "weights.safetensors"

    def build(self, source: str, weights: Path) -> Any:
        from bench.tasks.formats import torch_base

        model = built(Path(self.origin))
        torch_base.restore(model, weights)
        return torch_base.Flat(model) if self.nested else model


class KerasFileTask(OwnTask):
    """A file that builds a Keras model."""

    sources = ("tf",)
    requires = ("tensorflow", "keras", "safetensors")
    extra = "tf"
    weights = "weights.safetensors"

    def build(self, source: str, weights: Path) -> Any:
        from bench.tasks.formats import keras_base

        model = built(Path(self.origin))
        keras_base.restore(model, weights)
        return keras_base.KerasCall(model, [spec.name for spec in self.outputs])


def built(path: Path) -> Any:
    """What `build()` returns, with the generators of random numbers seeded."""
    module = load(path)
    missing = [name for name in NEEDED if not callable(getattr(module, name, None))]
    if missing:
        raise InputError(
            f"it does not define {' and '.join(f'{name}()' for name in missing)}: build() returns a torch.nn.Module or "
            f"a Keras model, and example_inputs() {EXAMPLE}"
        )
    _seed()
    return module.build()


def _seed() -> None:
    """Seed what models and examples are drawn from: Keras draws its seeds from Python's generator."""
    import numpy as np

    random.seed(SEED)
    np.random.seed(SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Build the model, run it on its example and keep its weights.

    Raises:
        InputError: the file does not give what it should.
    """
    model = built(path)
    _seed()
    example = _example(load(path).example_inputs())
    if _is_a(model, "torch.nn.modules.module", "Module"):
        from bench.tasks.formats import torch_base

        model.eval()
        torch_base.save(model, folder / "weights.safetensors")
        base, run = "TorchFileTask", lambda feeds: torch_base.outputs_of(model, feeds)
    elif _is_a(model, "keras.src.layers.layer", "Layer"):
        from bench.tasks.formats import keras_base

        base, run = "KerasFileTask", keras_base.KerasCall(model).outputs_of
        run(example)  # a model that was not built has no weights yet
        keras_base.save(model, folder / "weights.safetensors")
    else:
        raise InputError(f"build() returned {type(model).__name__}; it must return a torch.nn.Module or a Keras model")
    attributes: dict[str, Any] = {"origin": str(path.resolve())}
    try:
        found = probe.from_example(run, example)
        if base == "TorchFileTask":
            attributes["nested"] = torch_base.needs_flat(model, example)
    except Exception as error:
        raise InputError(f"the model does not run on example_inputs(): {type(error).__name__}: {error}") from error
    return Found(
        base=f"{__name__}:{base}",
        weights="weights.safetensors",
        inputs=found.inputs,
        outputs=found.outputs,
        batched=found.batched,
        attributes=attributes,
        example=example,
        files=tuple(imported_from(path.resolve().parent)),
    )


def _example(given: Any) -> dict[str, np.ndarray]:
    import numpy as np

    if not isinstance(given, dict) or not given:
        raise InputError(f"example_inputs() returned {type(given).__name__}; it must return {EXAMPLE}")
    arrays = {}
    for name, value in given.items():
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        # A Python float becomes float64, which no model of float32 takes.
        arrays[str(name)] = value.astype(np.float32) if value.dtype == np.float64 and not value.ndim else value
        if value.dtype.kind not in probe.KINDS:
            raise InputError(f"example_inputs(): {name!r} holds {value.dtype}; only real numbers and bools can be fed")
    return arrays


def _is_a(value: object, module: str, name: str) -> bool:
    """Whether a value is of a class, without importing its package."""
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(value).__mro__)
