"""A task that is nothing but an ONNX file: generated inputs, and its own outputs as the truth.

The reference is the file as it is on plain ONNX Runtime; what is told of every other cell is how far its outputs are
from that, in decibels, not how good the model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bench.api import Samples, TensorSpec
from bench.errors import InputError
from bench.fidelity import FidelityTask

if TYPE_CHECKING:
    import numpy as np

SEEDS = {"train": 1, "test": 2}
NUM_SAMPLES = 8


class OnnxTask(FidelityTask):
    """An ONNX file beside `task.py`; a subclass states its inputs and outputs, and may bring samples of its own."""

    sources = ("onnx",)
    weights = "model.onnx"
    sizes: ClassVar[Mapping[str, int]] = {}
    """What stands for each dynamic dimension in generated inputs, except the batch."""

    def build(self, source: str, weights: Path) -> Any:
        raise InputError(f"{self.name} is an ONNX file: no framework has it to build")

    def samples(self, split: str) -> Samples:
        """Eight samples: normal floats, integers that are safe as indices, and bools; the same ones every time."""
        import numpy as np

        if split not in SEEDS:
            raise InputError(f"no split {split!r}; there are: {', '.join(SEEDS)}")
        fixed = self.batched and self.inputs[0].shape[0] == 1
        # A variant may feed two training samples at once, which a model for a single one does not take.
        num_samples = 1 if fixed and split == "train" else NUM_SAMPLES
        generator = np.random.default_rng(SEEDS[split])
        inputs = {spec.name: generate(generator, spec.dtype, self._shape(spec, num_samples)) for spec in self.inputs}
        return Samples(inputs=inputs, targets=None)

    def _shape(self, spec: TensorSpec, num_samples: int) -> tuple[int, ...]:
        dims = spec.shape[1:] if self.batched else spec.shape
        return (num_samples, *(self.sizes[dim] if isinstance(dim, str) else dim for dim in dims))


def generate(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.standard_normal(shape, dtype=np.float32).astype(kind)
    # ONNX takes indices of 32 and 64 bits only, and every table has two rows; smaller integers are levels.
    high = 1 if kind.kind == "b" or kind.itemsize > 2 else 127
    return generator.integers(0, high, shape, endpoint=True).astype(kind)
