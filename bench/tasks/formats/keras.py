"""A `.keras` file. Keras refuses Lambda layers, which hold pickled code, unless the file is trusted."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import TensorSpec
from bench.api.errors import InputError
from bench.tasks import probe, sizes
from bench.tasks.formats import keras_base
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

if TYPE_CHECKING:
    from collections.abc import Sequence

UNSAFE = ("safe_mode", "unsafe", "untrusted", "Lambda")


class KerasTask(OwnTask):
    """A Keras model as it was saved."""

    sources = ("tf",)
    requires = ("tensorflow", "keras")
    extra = "tf"
    weights = "model.keras"

    def build(self, source: str, weights: Path) -> Any:
        return keras_base.KerasCall(opened(weights, trust=self.trust), [spec.name for spec in self.outputs])


def opened(path: Path, *, trust: bool) -> Any:
    """The model, for inference alone.

    Raises:
        InputError: it holds code that was not trusted, or is no model.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras

    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:
        if not trust and any(sign in str(error) for sign in UNSAFE):
            raise InputError("it holds pickled code (a Lambda layer); add --trust to load it") from error
        raise InputError(f"Keras cannot load it: {type(error).__name__}: {error}") from error


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Load the model and run it once."""
    shutil.copyfile(path, folder / "model.keras")
    model = opened(folder / "model.keras", trust=asked.trust)
    if not getattr(model, "inputs", None):
        raise InputError("it does not say what its inputs are; write a Python file with build() and example_inputs()")
    names = unique([tensor.name for tensor in model.inputs])
    inputs = specs([(name, tensor.dtype, tensor.shape) for name, tensor in zip(names, model.inputs, strict=True)])
    chosen = sizes.choose(keras_base.KerasCall(model).outputs_of, inputs, asked)
    return chosen.found(
        base=f"{__name__}:KerasTask", weights="model.keras", attributes={"trust": True} if asked.trust else {}
    )


def specs(fields: Sequence[tuple[str, str, Sequence[int | None]]]) -> tuple[TensorSpec, ...]:
    """Specs of inputs, their open dimensions named: the first one `batch` where all have it open."""
    batched = all(len(shape) and shape[0] is None for _, _, shape in fields)
    return tuple(
        TensorSpec(
            name=name,
            dtype=str(dtype),
            shape=tuple(
                int(dim) if dim is not None else probe.BATCH if batched and axis == 0 else f"{name}_{axis}"
                for axis, dim in enumerate(shape)
            ),
        )
        for name, dtype, shape in fields
    )


def unique(names: Sequence[str]) -> list[str]:
    """Names that every exporter takes, each once."""
    plain: list[str] = []
    for name in names:
        text = re.sub(r"[^A-Za-z0-9_]+", "_", name.removesuffix(":0")).strip("_") or "input"
        plain.append(text if text not in plain else f"{text}_{len(plain)}")
    return plain
