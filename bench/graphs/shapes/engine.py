"""Every shape of a model as a function of its dynamic dimensions, evaluated for new sizes without running the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.api.errors import InputError, suggest
from bench.graphs.deferred import onnx
from bench.graphs.file import settled
from bench.graphs.file.lazy import Stored, read
from bench.graphs.shapes import inference
from bench.graphs.shapes import tensors as shapes
from bench.graphs.shapes.compiled import compile_shapes
from bench.graphs.shapes.dims import Dim, Shape
from bench.graphs.shapes.steps import Inferred, unknowns


class ShapeEngine:
    """The shapes of a model's tensors, for any sizes of its dynamic dimensions.

    The shapes are compiled to one function when the engine is made; a call takes microseconds.

    Attributes:
        dims: names of the dynamic dimensions, such as `("batch", "height")`.
        expressions: the shape of each tensor, by name, over those names; one of which not even the number of axes is
            known is not among them. Inside subgraphs names are `<path>:<name>`.
        undecided: tensors whose shapes depend on data, not on the dimensions alone.
    """

    def __init__(self, inferred: Inferred) -> None:
        self.expressions: dict[str, Shape] = shapes.expressions(inferred)
        names = [size for shape in shapes.dynamic_inputs(inferred.model).values() for size in shape or ()]
        self.dims: tuple[str, ...] = tuple(dict.fromkeys(str(size) for size in names if isinstance(size, Dim)))
        self.undecided: tuple[str, ...] = tuple(
            name for name, shape in self.expressions.items() if any(unknowns(size) for size in shape)
        )
        apart = set(self.undecided)
        decided = {name: shape for name, shape in self.expressions.items() if name not in apart}
        self._compiled = compile_shapes(decided, self.dims)

    @classmethod
    def of_file(cls, path: Path | str) -> ShapeEngine:
        """The engine of an ONNX file, whose weights are not loaded.

        Raises:
            InputError: as `bench.graphs.profile`.
        """
        path = Path(path)
        stored = read(path)
        return cls(_inferred(Stored(model=settled.settle(stored.model), path=path)))

    @classmethod
    def of_model(cls, model: onnx.ModelProto) -> ShapeEngine:
        """The engine of a model in memory."""
        return cls(_inferred(Stored(model=settled.settle(model), path=None)))

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor that is not undecided, by name.

        Args:
            sizes: of every dynamic dimension, by name.

        Raises:
            InputError: a size is missing, or there is no such dimension.
        """
        if sizes.keys() != set(self.dims):
            for name in sizes:
                if name not in self.dims:
                    raise InputError(f"no dimension {name!r}; {suggest(name, self.dims)}")
            raise InputError(f"no size for: {', '.join(name for name in self.dims if name not in sizes)}")
        return self._compiled(*(sizes[name] for name in self.dims))


def _inferred(stored: Stored) -> Inferred:
    inputs = {name: shape for name, shape in shapes.dynamic_inputs(stored.model).items() if shape is not None}
    return inference.infer(stored, inputs)
