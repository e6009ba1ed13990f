"""A Python file with `build()`, which returns a PyTorch module or a Keras model, and `example_inputs()`.

The file is code that the user named, so it needs no `--trust`; it is executed in a child process only. The weights that
the first call of `build()` makes are kept, random ones included, so that every process has the same weights.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from bench.api import Arrays
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import plausible, probe, tf_models, tf_training
from bench.tasks.code import imported_from, load
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask, TensorFlowTask, TorchTask

FORMAT = Format(described="a Python file with a build()", suffixes=(".py",))
_SEED = 0
NEEDED = ("build", "example_inputs")
_EXAMPLE = "a dict of arrays or tensors by input name, in the order in which the model takes them"


class TorchFileTask(TorchTask):
    """A file that builds a PyTorch module."""

    requires = ("torch", "safetensors")

    def import_packages(self, source: str) -> None:
        super().import_packages(source)
        self.refuse_changed()
        load(Path(self.origin))

    def model(self, weights: Path) -> Any:
        from bench.tasks import torch_models

        self.refuse_changed()
        return torch_models.restore(built(Path(self.origin)), weights)


class KerasFileTask(TensorFlowTask):
    """A file that builds a Keras model."""

    requires = ("tensorflow", "keras", "safetensors")

    def import_packages(self, source: str) -> None:
        self.refuse_changed()
        load(Path(self.origin))

    def build(self, source: str, weights: Path) -> Any:
        self.refuse_changed()
        model = built(Path(self.origin))
        tf_models.restore(model, weights)
        return tf_models.keras_call(model, [spec.name for spec in self.outputs])


def built(path: Path) -> Any:
    """The model that the file's `build()` returns, with the random number generators seeded before.

    Raises:
        InputError: the file does not define `build()` and `example_inputs()`.
        PluginError: the file raises while it is executed.
    """
    module = load(path)
    missing = [name for name in NEEDED if not callable(getattr(module, name, None))]
    if missing:
        raise InputError(
            f"it does not define {' and '.join(f'{name}()' for name in missing)}: build() returns a torch.nn.Module or "
            f"a Keras model, and example_inputs() {_EXAMPLE}"
        )
    _seed()
    return module.build()


def _seed() -> None:
    """Seed the random number generators of Python (from which Keras draws its seeds), NumPy and PyTorch."""
    random.seed(_SEED)
    np.random.seed(_SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Build the model, run it on its example and keep its weights.

    Raises:
        InputError: `build()` or `example_inputs()` is missing or returns another type, or the model does not run.
    """
    model = built(path)
    _seed()
    example = _example(load(path).example_inputs())
    task: type[OwnTask]
    run: Any
    if _is_a(model, "torch.nn.modules.module", "Module"):
        from bench.tasks import torch_models

        model.eval()
        torch_models.save(model, folder / TorchFileTask.weights)
        task, run = TorchFileTask, torch_models.Run(model)
    elif _is_a(model, "keras.src.layers.layer", "Layer"):
        task, run = KerasFileTask, tf_models.keras_call(model).outputs_of
        run(example)  # a Keras model that was not called yet has no weights
        tf_models.save(model, folder / KerasFileTask.weights)
    else:
        raise InputError(f"build() returned {type(model).__name__}; it must return a torch.nn.Module or a Keras model")
    with refused("the model does not run on example_inputs()"):
        interface = probe.from_example(run, example)
        notes = plausible.unsteady(run, example)
    attributes: dict[str, Any] = {"origin": str(path.resolve())}
    if task is TorchFileTask:
        attributes["nested"] = run.nested
    files = tuple(imported_from(path.resolve().parent))
    facts = interface.facts(task, attributes=attributes, example=example, files=files, notes=notes, run=run)
    return facts.telling(tf_training.of_keras(model, facts.inputs) if task is KerasFileTask else ())


def _example(inputs: Any) -> Arrays:
    """The arrays that `example_inputs()` returned, as NumPy arrays by input name.

    Raises:
        InputError: the function returned no dict, or values that cannot be fed.
    """
    if not isinstance(inputs, dict) or not inputs:
        raise InputError(f"example_inputs() returned {type(inputs).__name__}; it must return {_EXAMPLE}")
    arrays = {}
    for name, value in inputs.items():
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        # NumPy makes float64 of a Python float, which a float32 model does not take.
        arrays[str(name)] = value.astype(np.float32) if value.dtype == np.float64 and not value.ndim else value
        if value.dtype.kind not in probe.KINDS:
            raise InputError(f"example_inputs(): {name!r} holds {value.dtype}; only real numbers and bools can be fed")
    return arrays


def _is_a(value: object, module: str, name: str) -> bool:
    """Whether a value is an instance of the class of that module and name, without importing its package."""
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(value).__mro__)
