"""A task that is nothing but an ONNX file: generated inputs, and its own outputs as the truth.

The reference is the file as it is on plain ONNX Runtime; what is told of every other cell is how far its outputs are
from that, in decibels, not how good the model is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bench.api import Samples, Task, TensorSpec
from bench.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from bench.api import Arrays

    Target = Mapping[str, np.ndarray]

SEEDS = {"train": 1, "test": 2}
NUM_SAMPLES = 8
SAME_DB = 120.0  # as far as float32 goes; JSON has no infinity
BROKEN_DB = 10.0


class OnnxTask(Task):
    """An ONNX file beside `task.py`; a subclass states its inputs and outputs, and may bring samples of its own."""

    sources = ("onnx",)
    weights = "model.onnx"
    metric_name = "snr_db"
    max_metric_loss = SAME_DB - BROKEN_DB
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
        inputs = {spec.name: _generate(generator, spec.dtype, self._shape(spec, num_samples)) for spec in self.inputs}
        return Samples(inputs=inputs, targets=None)

    def _shape(self, spec: TensorSpec, num_samples: int) -> tuple[int, ...]:
        dims = spec.shape[1:] if self.batched else spec.shape
        return (num_samples, *(self.sizes[dim] if isinstance(dim, str) else dim for dim in dims))

    def loss(self, outputs: Arrays, targets: Sequence[Target]) -> float:
        """Mean squared error against the reference's outputs, the mean over the outputs."""
        import numpy as np

        with np.errstate(over="ignore"):
            errors = [
                float(np.mean((outputs[name].astype(np.float64) - expected) ** 2)) if expected.size else 0.0
                for name, expected in _stacked(targets).items()
            ]
        return sum(errors) / len(errors)

    def metrics(self, outputs: Arrays, targets: Sequence[Target]) -> dict[str, float]:
        """`snr_db`: the reference's power over the error's, of the worst output, at most 120 dB.

        Of integers and bools the noise is the share that differ: classes and indices have no distance.
        """
        shares = [_noise_share(outputs[name], expected) for name, expected in _stacked(targets).items()]
        return {"snr_db": min(_decibels(share) for share in shares)}


def _stacked(targets: Sequence[Target]) -> dict[str, np.ndarray]:
    import numpy as np

    return {name: np.stack([target[name] for target in targets]) for name in targets[0]}


def _generate(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.standard_normal(shape, dtype=np.float32).astype(kind)
    # ONNX takes indices of 32 and 64 bits only, and every table has two rows; smaller integers are levels.
    high = 1 if kind.kind == "b" or kind.itemsize > 2 else 127
    return generator.integers(0, high, shape, endpoint=True).astype(kind)


def _noise_share(output: np.ndarray, expected: np.ndarray) -> float:
    """Power of the error over power of the signal."""
    import numpy as np

    if not expected.size or np.array_equal(output, expected):
        return 0.0
    if expected.dtype.kind != "f":
        return float(np.mean(output != expected))
    signal = expected.astype(np.float64)
    scale = float(np.abs(signal).max()) or 1.0  # so that no square overflows
    noise = (output.astype(np.float64) - signal) / scale
    power = float(np.mean((signal / scale) ** 2))
    return float(np.mean(noise**2)) / power if power else math.inf


def _decibels(noise_share: float) -> float:
    if noise_share == 0:
        return SAME_DB
    return max(-SAME_DB, min(SAME_DB, -10 * math.log10(noise_share)))
