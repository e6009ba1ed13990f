"""Which kind of model a path holds, by its name and by what lies in the folder: nothing is opened to tell."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.api.errors import InputError

ALLOWED = (
    "--model takes an .onnx, .tflite or .keras file, a Python file with a build(), a TorchScript (.pt) or torch.export "
    "(.pt2) file, a SavedModel or transformers folder, or a folder with a task.py"
)

DATASETS = (
    "--dataset takes an .npz file of arrays by input name, a folder with an .npz (or .npy) file for each sample, or a "
    "Python file with samples(split), metrics(outputs, targets) and metric_name"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of model.

    Attributes:
        module: the file in `bench/tasks/formats/` that reads it.
        code: what code the file holds that would run while it is opened, so that it takes `--trust`; None for no code,
            or code that the person named as such.
    """

    module: str
    code: str | None = None


FILES = {
    ".onnx": Kind(module="onnx"),
    ".tflite": Kind(module="tflite"),
    ".keras": Kind(module="keras"),
    ".py": Kind(module="python"),
    ".pt": Kind(module="torch_script", code="pickled code"),
    ".pth": Kind(module="torch_script", code="pickled code"),
    ".pt2": Kind(module="torch_export", code="pickles and expressions that are evaluated"),
}
SAVED_MODEL = Kind(module="saved_model", code="a program that may read and write files")
TRANSFORMERS = Kind(module="transformers")


def kind_of(path: Path) -> Kind:
    """The kind of a file, or of a folder without a `task.py`.

    Raises:
        InputError: there is nothing, or nothing that can be measured; the message says what can.
    """
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InputError(f"no such file or folder: {path}; {ALLOWED}")
    if not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder; {ALLOWED}")
    kind = FILES.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} is of no kind that can be measured; {ALLOWED}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    return kind


def _folder(path: Path) -> Kind:
    if (path / "saved_model.pb").is_file():
        return SAVED_MODEL
    if not (path / "config.json").is_file():
        raise InputError(f"no task.py, saved_model.pb or config.json in {path}; {ALLOWED}")
    if not any(path.glob("*.safetensors")):
        raise InputError(
            f"no .safetensors in {path}: of transformers' files no other weights are read, for they hold code"
        )
    return TRANSFORMERS


def check_dataset(path: Path) -> None:
    """Refuse what cannot be a data set.

    Raises:
        InputError: there is nothing, or of another kind.
    """
    if not path.exists():
        raise InputError(f"no such file or folder: {path}; {DATASETS}")
    if path.is_file() and path.suffix not in (".npz", ".py"):
        raise InputError(f"{path} is of no kind that can be read; {DATASETS}")
