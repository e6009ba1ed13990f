"""A `torch.export` file. It holds pickles, and expressions that Python evaluates, so it needs `--trust`."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

from bench.api import TensorSpec, files
from bench.api.errors import InputError
from bench.tasks import probe, sizes, torch_training
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import TorchTask

FORMAT = Format(
    described="a torch.export (.pt2) file",
    suffixes=(".pt2",),
    code="pickles and expressions that are evaluated",
    imports=("torch",),
)


class TorchExportTask(TorchTask):
    """A program that `torch.export.save` wrote."""

    weights = "model.pt2"

    def model(self, weights: Path) -> Any:
        return _as_module(opened(weights))


def opened(path: Path) -> Any:
    """The `torch.export.ExportedProgram` of a file.

    Raises:
        InputError: PyTorch cannot load the file as an exported program.
    """
    import torch

    what = "PyTorch cannot load it as an exported program"
    advice = "; a package of AOTInductor is compiled already, and cannot be exported again"
    # The file is opened here, for PyTorch asks for the ending .pt2.
    with warnings.catch_warnings(), files.opened(path) as file, refused(what, advice=advice):
        warnings.simplefilter("ignore")
        return torch.export.load(file)


def _as_module(program: Any) -> Any:
    """The program as a module for exporters, which call `train` and `eval`: its mode is that of its export for ever."""
    module = program.module()
    module.train = module.eval = lambda *_: module
    return module


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the program, which states its inputs, and run it once to learn its outputs.

    Raises:
        InputError: the file holds no program that can be fed, or the program does not run.
    """
    from bench.tasks import torch_models

    program = opened(path)
    run = torch_models.Run(_as_module(program))
    facts = sizes.choose(TorchExportTask, run, _inputs(program), options)
    facts = dataclasses.replace(facts, attributes={"nested": run.nested})
    return facts.telling(torch_training.of_program(program))


def _inputs(program: Any) -> tuple[TensorSpec, ...]:
    """Specs of the program's inputs; a dynamic dimension that comes first in all of them is named `batch`.

    Raises:
        InputError: inputs were exported by name, or an input is no tensor.
    """
    _, arguments = program.call_spec.in_spec.children()
    if arguments.num_leaves:
        raise InputError("it was exported with inputs by name; export it with its inputs in a tuple")
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    names = [str(name) for name in program.graph_signature.user_inputs]
    specs = []
    for name in names:
        value: Any = values.get(name)
        if not hasattr(value, "shape"):
            raise InputError(f"input {name!r} is no tensor; only tensors can be fed")
        shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in value.shape)
        specs.append(TensorSpec(name=name, dtype=str(value.dtype).removeprefix("torch."), shape=shape))
    firsts = {spec.shape[:1] for spec in specs}
    batch = firsts.pop() if len(firsts) == 1 else ()
    first = next((dim for dim in batch if isinstance(dim, str) and dim.isidentifier()), None)
    if first is None:
        return tuple(specs)
    whole = re.compile(rf"\b{first}\b")  # which may stand within others, as in `2*s0`
    return tuple(
        dataclasses.replace(
            spec, shape=tuple(whole.sub(probe.BATCH, dim) if isinstance(dim, str) else dim for dim in spec.shape)
        )
        for spec in specs
    )
