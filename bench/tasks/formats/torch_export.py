"""A `torch.export` file. It holds pickles, and expressions that Python evaluates, so it takes `--trust`."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import TensorSpec
from bench.api.errors import InputError
from bench.tasks import probe, sizes
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

if TYPE_CHECKING:
    import numpy as np

    from bench.api import Arrays


class TorchExportTask(OwnTask):
    """A program that `torch.export.save` wrote."""

    sources = ("torch",)
    requires = ("torch",)
    extra = "torch"
    weights = "model.pt2"

    def build(self, source: str, weights: Path) -> Any:
        from bench.tasks.formats import torch_base

        model = as_module(opened(weights))
        return torch_base.Flat(model) if self.nested else model


def opened(path: Path) -> Any:
    """The exported program.

    Raises:
        InputError: it is none.
    """
    import torch

    with warnings.catch_warnings(), path.open("rb") as file:  # by file: the artifact is not called .pt2
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(file)
        except Exception as error:
            raise InputError(
                f"PyTorch cannot load it as an exported program: {sizes.one_line(error)}; a package of AOTInductor "
                "is compiled already, and cannot be exported again"
            ) from error


def as_module(program: Any) -> Any:
    """The program as a module that exporters take: they switch it to inference, where it is for good."""
    module = program.module()
    module.train = module.eval = lambda *_: module
    return module


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Load the program, whose inputs say their shapes, and run it."""
    from bench.tasks.formats import torch_base

    program = opened(path)
    inputs = _inputs(program)
    module = as_module(program)
    nested = []

    def run(feeds: Arrays) -> dict[str, np.ndarray]:
        nested.append(torch_base.needs_flat(module, feeds))
        return torch_base.outputs_of(module, feeds)

    chosen = sizes.choose(run, inputs, asked)
    shutil.copyfile(path, folder / "model.pt2")
    return chosen.found(
        base=f"{__name__}:TorchExportTask", weights="model.pt2", attributes={"trust": True, "nested": nested[-1]}
    )


def _inputs(program: Any) -> tuple[TensorSpec, ...]:
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
        specs.append((name, str(value.dtype).removeprefix("torch."), shape))
    firsts = {shape[:1] for _, _, shape in specs}
    named = {next(iter(firsts))[0]: probe.BATCH} if len(firsts) == 1 and firsts != {()} else {}
    named = {old: new for old, new in named.items() if isinstance(old, str)}
    return tuple(
        TensorSpec(name=name, dtype=dtype, shape=tuple(named.get(dim, dim) for dim in shape))
        for name, dtype, shape in specs
    )
