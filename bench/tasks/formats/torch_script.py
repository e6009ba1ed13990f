"""A TorchScript file. Its archive holds pickles and a program, so it needs `--trust`."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

from bench.api import Arrays, TensorSpec, lengths
from bench.api.arrays import generate
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import dataset, probe, torch_training
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import TorchTask

MOST_LISTED_BYTES = 4 * 2**20
"""Largest list of an archive's files that is read: it has room for tens of thousands of tensors."""


def holds(path: Path) -> bool:
    """Whether a file is an archive that `torch.jit.save` wrote, as the names of the files in it tell.

    An archive whose list of files is larger than `MOST_LISTED_BYTES` counts as none, for this process reads the list.
    """
    try:
        with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names)


class _Bounded(io.FileIO):
    """A file that is read in pieces of a limited size; `zipfile` reads the list of an archive's files as one piece."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = MOST_LISTED_BYTES
        if size > MOST_LISTED_BYTES:
            raise ValueError(f"the list of the archive's files has {size} bytes, more than {MOST_LISTED_BYTES}")
        return super().read(size) or b""


FORMAT = Format(
    described="a TorchScript file (.pt, .pth or any other name)",
    suffixes=(".pt", ".pth"),
    holds=holds,
    code="pickled code",
    imports=("torch",),
)
_SAY = (
    "a TorchScript file does not say the shapes of its inputs: give each, such as --shape {name}=1x3x224x224 (or "
    "--shape {name}=1x16:int64), or samples by --dataset"
)


class TorchScriptTask(TorchTask):
    """A TorchScript module as it was saved."""

    weights = "model.pt"
    closed_to = {"torch.export": "torch.export takes no TorchScript; give the module itself, by a Python file"}

    def model(self, weights: Path) -> Any:
        return opened(weights)


def opened(path: Path) -> Any:
    """The `torch.jit.ScriptModule` of a file, switched to inference.

    Raises:
        InputError: the file holds no TorchScript, or PyTorch cannot load it.
    """
    import torch

    if not holds(path):
        raise InputError(
            "it is not TorchScript, but weights alone or a pickled module; save it by torch.jit.save, or write a "
            "Python file with build() and example_inputs()"
        )
    with warnings.catch_warnings(), refused("PyTorch cannot load it"):
        warnings.simplefilter("ignore")
        return torch.jit.load(str(path), map_location="cpu").eval()


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the module and run it on inputs of the shapes that were asked for.

    Raises:
        InputError: the file holds no TorchScript, shapes or samples are missing, or the module does not run on them.
    """
    from bench.tasks import torch_models

    model = opened(path)
    example = _example(_names(model), options)
    run = torch_models.Run(model)
    shapes = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in example.items())
    with refused(f"it does not run on {shapes}"):
        interface = probe.from_example(run, example)
    facts = interface.facts(TorchScriptTask, attributes={"nested": run.nested}, run=run)
    return facts.telling(torch_training.of_script(model))


def _names(model: Any) -> list[str]:
    """Names of the inputs without a default value.

    Raises:
        InputError: such an input is no tensor.
    """
    arguments = model.forward.schema.arguments[1:]
    needed = [argument for argument in arguments if not argument.has_default_value()]
    for argument in needed:
        if str(argument.type) != "Tensor":
            raise InputError(f"input {argument.name!r} is {argument.type}; only tensors can be fed")
    return [argument.name for argument in needed]


def _example(names: list[str], options: Asked) -> Arrays:
    """Arrays of one request: the data set's first sample, or made-up values of the shapes that were asked for.

    Raises:
        InputError: the data set or the shapes have not exactly the model's inputs.
    """
    if options.arrays is not None:
        arrays = dataset.named(options.arrays, names)
        dataset.check_names(arrays, names, "the data set")
        return {name: np.asarray(arrays[name][:1]) for name in names}
    if unknown := [name for name in options.shapes if name not in names]:
        raise InputError(f"it has no input {unknown[0]!r}; its inputs: {', '.join(names)}")
    if missing := [name for name in names if name not in options.shapes]:
        raise InputError(_SAY.format(name=missing[0]))
    generator = np.random.default_rng(0)
    shapes = {name: options.shapes[name] for name in names}
    specs = [
        TensorSpec(name=name, dtype=shape.dtype or "float32", shape=tuple(shape.sizes))
        for name, shape in shapes.items()
    ]
    limits = lengths.domains(specs)
    return {
        spec.name: np.asarray(generate(generator, spec.dtype, shapes[spec.name].sizes, limits.get(spec.name)))
        for spec in specs
    }
