"""A SavedModel folder. Its operators may read and write files, so it needs `--trust`."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.plugins.engines.archive import pack
from bench.tasks import probe, saved_graph, sizes, tf_models, tf_training
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import TensorFlowTask

_MARKER = "saved_model.pb"
_FILES, _FOLDERS = (_MARKER, "keras_metadata.pb", "fingerprint.pb"), ("variables/", "assets/", "assets.extra/")


def parts(name: str, names: Collection[str], trust: bool) -> list[str]:
    """The files that TensorFlow writes into such a folder."""
    return [file_name for file_name in names if file_name in _FILES or file_name.startswith(_FOLDERS)]


FORMAT = Format(
    described="a SavedModel folder",
    marker=_MARKER,
    code="a program that may read and write files",
    parts=parts,
    imports=("bench.tasks.keras_settings", "tensorflow", "keras"),
)
_SIGNATURE = "serving_default"


class SavedModelTask(TensorFlowTask):
    """The signature `serving_default` of a SavedModel, whose folder is kept as one archive."""

    weights = "model.tar"

    def build(self, source: str, weights: Path) -> Any:
        folder = tempfile.mkdtemp()  # for as long as this process: TensorFlow may read assets later
        with tarfile.open(weights) as archive:
            archive.extractall(folder, filter="data")
        inputs, outputs = ([spec.name for spec in side] for side in (self.inputs, self.outputs))
        return _signature_call(opened(Path(folder)), inputs, outputs)


def _signature_call(loaded: Any, inputs: Sequence[str], outputs: Sequence[str] | None = None) -> tf_models.OrderedCall:
    """The signature of a loaded SavedModel, called with its inputs in order."""

    def named(*tensors: Any) -> Any:
        # The loaded object keeps the variables, which the signature refers to weakly.
        return loaded.signatures[_SIGNATURE](**dict(zip(inputs, tensors, strict=True)))

    return tf_models.OrderedCall(named, loaded.signatures[_SIGNATURE].trainable_variables, outputs)


def opened(folder: Path) -> Any:
    """The object that TensorFlow loads from a SavedModel folder, or its graph where the objects cannot be restored.

    Raises:
        InputError: the folder holds no SavedModel, or the model has no signature `serving_default`.
    """
    tf_models.configure()
    import tensorflow as tf

    loaded: Any
    with refused("TensorFlow cannot load it"):
        try:
            loaded = tf.saved_model.load(str(folder))
        except Exception as error:  # such as objects of an older Keras, which the signatures do not need
            try:
                loaded = saved_graph.load(folder)
            except Exception:
                raise error from None
    if _SIGNATURE not in loaded.signatures:
        signatures = ", ".join(loaded.signatures) or "none"
        raise InputError(f"it has no signature {_SIGNATURE!r}; its signatures: {signatures}")
    return loaded


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the model, run it once to learn its outputs, and archive its folder.

    Raises:
        InputError: the model cannot be loaded, an input has no rank, or the model does not run.
    """
    loaded = opened(path)
    signature = loaded.signatures[_SIGNATURE].structured_input_signature[1]
    if any(spec.shape.rank is None for spec in signature.values()):
        raise InputError("an input has no shape")
    inputs = probe.specs_of([(name, spec.dtype.name, list(spec.shape)) for name, spec in signature.items()])
    call = _signature_call(loaded, list(signature))
    facts = sizes.choose(SavedModelTask, call.outputs_of, inputs, options)
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    pack(path, names, folder / SavedModelTask.weights)
    return facts.telling(tf_training.of_function(loaded.signatures[_SIGNATURE]))
