"""A SavedModel folder. It is a program, whose operators may read and write files, so it takes `--trust`."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.tasks import sizes
from bench.tasks.formats import keras_base
from bench.tasks.formats.keras import specs
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

SIGNATURE = "serving_default"


class SavedModelTask(OwnTask):
    """The signature `serving_default` of a SavedModel, kept as one archive."""

    sources = ("tf",)
    requires = ("tensorflow", "keras")
    extra = "tf"
    weights = "model.tar"

    def build(self, source: str, weights: Path) -> Any:
        folder = tempfile.mkdtemp()  # for as long as this process: TensorFlow may read assets later
        with tarfile.open(weights) as archive:
            archive.extractall(folder, filter="data")
        return SignatureCall(
            opened(Path(folder)), [spec.name for spec in self.inputs], [spec.name for spec in self.outputs]
        )


class SignatureCall:
    """A signature that takes its inputs as arguments and returns its outputs as a list."""

    def __init__(self, loaded: Any, inputs: list[str], outputs: list[str] | None = None) -> None:
        self._loaded = loaded  # it holds the variables
        self._signature = loaded.signatures[SIGNATURE]
        self._inputs, self._outputs = inputs, outputs

    @property
    def trainable_weights(self) -> Any:
        return self._signature.trainable_variables

    def __call__(self, *tensors: Any) -> list[Any]:
        named = self.named(*tensors)
        return [named[name] for name in self._outputs or named]

    def named(self, *tensors: Any) -> Any:
        """Outputs by name."""
        return self._signature(**dict(zip(self._inputs, tensors, strict=True)))


def opened(folder: Path) -> Any:
    """The loaded object.

    Raises:
        InputError: it is none, or has no such signature.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(str(folder))
    except Exception as error:
        raise InputError(f"TensorFlow cannot load it: {type(error).__name__}: {error}") from error
    if SIGNATURE not in loaded.signatures:
        found = ", ".join(loaded.signatures) or "none"
        raise InputError(f"it has no signature {SIGNATURE!r}; its signatures: {found}")
    return loaded


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Load the model and run it once."""
    loaded = opened(path)
    signature = loaded.signatures[SIGNATURE].structured_input_signature[1]
    if any(spec.shape.rank is None for spec in signature.values()):
        raise InputError("an input has no shape")
    inputs = specs([(name, spec.dtype.name, list(spec.shape)) for name, spec in signature.items()])
    call = SignatureCall(loaded, list(signature))
    chosen = sizes.choose(lambda feeds: keras_base.run(call.named, feeds), inputs, asked)
    with tarfile.open(folder / "model.tar", "w") as archive:
        for file in sorted(path.rglob("*")):
            archive.add(file, str(file.relative_to(path)), recursive=False, filter=_without_time)
    return chosen.found(base=f"{__name__}:SavedModelTask", weights="model.tar", attributes={"trust": True})


def _without_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
