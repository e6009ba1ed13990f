"""A task that `bench run --model` makes: samples of its data set, or made-up ones; fidelity unless told more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bench.api import Samples, TensorSpec
from bench.api.arrays import generate, like, load_arrays
from bench.api.errors import InputError
from bench.tasks.fidelity import FidelityTask
from bench.tasks.probe import sized

if TYPE_CHECKING:
    import numpy as np

SEEDS = {"train": 1, "test": 2}
NUM_SAMPLES = 8
DATASET, TARGETS, EXAMPLE = "dataset.npz", "targets.npz", "example.npz"
"""Files beside `task.py`, each of them if there is any: inputs, what is right for them, inputs to be like."""
TRAIN_EVERY = 5


class OwnTask(FidelityTask):
    """Inputs and outputs are stated by the generated `task.py`."""

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    sizes: ClassVar[Mapping[str, int]] = {}
    """What stands for each dynamic dimension in made-up inputs, except the batch."""
    origin: ClassVar[str] = ""
    """The path that was given, where the model is not all in the weights file."""
    trust: ClassVar[bool] = False
    """Whether code in the file may run."""
    nested: ClassVar[bool] = False
    """Whether a PyTorch model returns its tensors in dicts or the like."""
    made_from: ClassVar[Mapping[str, str]] = {}
    """SHA-256 of files elsewhere that the model or its samples are made from: they are part of a result's key so."""

    def samples(self, split: str) -> Samples:
        """Every fifth sample of the data set to calibrate with, and the others to test; or eight that are made up."""
        if split not in SEEDS:
            raise InputError(f"no split {split!r}; there are: {', '.join(SEEDS)}")
        if (self.folder / DATASET).is_file():
            return self._given(split)
        return Samples(inputs=self._made_up(split), targets=None)

    def _given(self, split: str) -> Samples:
        inputs = load_arrays(self.folder / DATASET)
        rows = self.rows(len(next(iter(inputs.values()))), split)
        targets = None
        if (self.folder / TARGETS).is_file():
            array = load_arrays(self.folder / TARGETS)["targets"]
            targets = [array[row] for row in rows]
        return Samples(inputs={spec.name: inputs[spec.name][rows] for spec in self.inputs}, targets=targets)

    def rows(self, num_samples: int, split: str) -> list[int]:
        """Which samples belong to a split; one alone belongs to both."""
        train = list(range(0, num_samples, TRAIN_EVERY))
        test = [row for row in range(num_samples) if row % TRAIN_EVERY]
        return self.fitting(train, split) if split == "train" else test or train

    def fitting(self, rows: list[int], split: str) -> list[int]:
        """A variant may feed two training samples at once, which a model for a single one does not take."""
        fixed = self.batched and self.inputs[0].shape[0] == 1
        return rows[:1] if fixed and split == "train" else rows

    def _made_up(self, split: str) -> dict[str, np.ndarray]:
        """Always the same ones. Without an example: normal floats, integers that are safe as indices, and bools."""
        import numpy as np

        num_samples = len(self.fitting(list(range(NUM_SAMPLES)), split))
        generator = np.random.default_rng(SEEDS[split])
        if not (self.folder / EXAMPLE).is_file():
            return {spec.name: generate(generator, spec.dtype, self._shape(spec, num_samples)) for spec in self.inputs}
        example = load_arrays(self.folder / EXAMPLE)
        return {spec.name: like(generator, example[spec.name], self._shape(spec, num_samples)) for spec in self.inputs}

    def _shape(self, spec: TensorSpec, num_samples: int) -> tuple[int, ...]:
        dims = spec.shape[1:] if self.batched else spec.shape
        return (num_samples, *sized(dims, self.sizes))

    def build(self, source: str, weights: Path) -> Any:
        raise InputError(f"{self.name} is a file that runs as it is: no framework has it to build")
