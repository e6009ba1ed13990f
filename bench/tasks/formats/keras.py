"""A `.keras` file. Keras refuses Lambda layers, which hold pickled code, unless the file is trusted."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any, ClassVar

from bench.api.errors import InputError
from bench.tasks import probe, sizes, tf_models, tf_training
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.pretrained_folder import shown
from bench.tasks.user_task import TensorFlowTask

FORMAT = Format(
    described="a .keras file", suffixes=(".keras",), imports=("bench.tasks.keras_settings", "tensorflow", "keras")
)
UNSAFE = ("safe_mode", "unsafe", "untrusted", "Lambda")
"""Words by which Keras's error about a Lambda layer is known."""
_NOT_FOUND = re.compile(r"Could not locate \w+ '([^']+)'")
"""How Keras says that it does not have a class or a function that a file names; other errors quote it, too."""
_NOT_INSTALLED = re.compile(
    r"Could not deserialize \w+ '([^']+)' because its parent module (\w+)[\w.]* cannot be imported"
)
"""How Keras says that a class is of a package that it would import, but that is not there."""
_PACKAGES = {"keras_hub": "keras-hub", "keras_cv": "keras-cv", "keras_nlp": "keras-nlp"}
"""The packages that Keras imports by itself, and what installs them; no other text of a file becomes a command."""


class KerasTask(TensorFlowTask):
    """A Keras model as it was saved."""

    weights = "model.keras"
    trust: ClassVar[bool] = False
    """Whether code that the model's file holds may run."""

    def build(self, source: str, weights: Path) -> Any:
        return tf_models.keras_call(opened(weights, trust=self.trust), [spec.name for spec in self.outputs])


def opened(path: Path, *, trust: bool) -> Any:
    """The `keras.Model` of a file, for inference alone.

    Raises:
        InputError: the file holds code and is not trusted, or holds no model.
    """
    if not zipfile.is_zipfile(path):
        raise InputError("it is no zip archive, as a whole .keras file is: was it cut off while it was copied?")
    tf_models.configure()
    import keras

    with refused("Keras cannot load it"):
        try:
            return keras.saving.load_model(path, compile=False, safe_mode=not trust)
        except Exception as error:
            if not trust and any(sign in str(error) for sign in UNSAFE):
                raise InputError("it holds pickled code (a Lambda layer); add --trust to load it") from error
            raise


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Copy the file, load the model and run it once to learn its outputs.

    Raises:
        InputError: the model cannot be loaded, does not state its inputs, or does not run.
    """
    shutil.copyfile(path, folder / "model.keras")
    try:
        model = opened(folder / "model.keras", trust=options.trust)
    except InputError as error:
        if missing := _NOT_INSTALLED.search(str(error.__cause__)):
            name, package = shown(missing[1]), missing[2]
            if package not in _PACKAGES:
                raise InputError(f"it names {name} of a package {package}, which is not installed") from error
            raise InputError(
                f"it needs {name} of {package}, not installed; pip install {_PACKAGES[package]}"
            ) from error
        if missing := _NOT_FOUND.search(str(error.__cause__)):
            raise InputError(
                f"it needs {shown(missing[1])}, which is not Keras's own and is not in the file; write a Python file "
                "that imports it, with example_inputs() and a build() that returns the loaded model"
            ) from error
        raise
    if not getattr(model, "inputs", None):
        raise InputError("it does not say what its inputs are; write a Python file with build() and example_inputs()")
    names = tf_models.unique([tensor.name for tensor in model.inputs])
    fields = [(name, tensor.dtype, tensor.shape) for name, tensor in zip(names, model.inputs, strict=True)]
    call, attributes = tf_models.keras_call(model), {"trust": True} if options.trust else {}
    facts = sizes.choose(KerasTask, call.outputs_of, probe.specs_of(fields), options, attributes)
    return facts.telling(tf_training.of_keras(model, facts.inputs))
