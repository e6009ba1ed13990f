"""The tasks that `--model` makes: samples are those of the data set or made up, and fidelity is the default quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, Samples, cache, lengths
from bench.api.arrays import Domain, generate, like, load_arrays
from bench.api.errors import InputError
from bench.api.fidelity import FidelityTask
from bench.onnxfile.deferred import np

_JUDGING = "judging"
"""The training samples beside the one for a model whose batch is fixed at 1."""
SEEDS = {"train": 1, "test": 2, _JUDGING: 3}
NUM_SAMPLES = 8
DATASET, TARGETS, EXAMPLE = "dataset.npz", "targets.npz", "example.npz"
"""Files beside `task.py` where needed: the inputs of the data set, its targets, an example for made-up inputs."""
_TRAIN_EVERY = 5
AS_IS = "as_is"


def sized(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape with sizes in place of the names of its dimensions."""
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)


class OwnTask(FidelityTask):
    """A task whose inputs and outputs are stated by a generated `task.py`."""

    weights: ClassVar[str] = "weights.safetensors"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    sizes: ClassVar[Mapping[str, int]] = {}
    """The size of each dynamic dimension but the batch in made-up inputs, by name."""
    domains: ClassVar[Mapping[str, Domain]] = {}
    """The least and the largest value of made-up inputs, by the names of inputs of which the model tells them."""
    origin: ClassVar[str] = ""
    """The model's path, where the weights file does not hold all of the model."""
    nested: ClassVar[bool] = False
    """Whether a PyTorch model returns its tensors in dicts or nested lists, so that it needs a `Flat` around it."""
    labels: ClassVar[tuple[int, ...] | tuple[str, ...]] = ()
    """The classes of its only output in the order of their scores, as the model itself names them."""
    unsettled: ClassVar[tuple[str, ...]] = ()
    """Sentences about nodes in training mode, and about others for which outputs follow from more than the inputs."""
    made_from: ClassVar[Mapping[str, str]] = {}
    """SHA-256 by path of the files elsewhere that the model or its samples are made from: a part of a result's key."""

    def samples(self, split: str) -> Samples:
        """Samples of a split: every fifth of the data set is for `train`, the others for `test`; or eight made-up ones.

        Raises:
            InputError: there is no such split.
        """
        if split not in SEEDS or split == _JUDGING:
            raise InputError(f"no split {split!r}; there are: train, test")
        return self._samples(split)

    def judging(self) -> Samples | None:
        """Those that `fitting` takes from the training samples; None where it takes none."""
        samples = self._samples(_JUDGING) if self._is_fixed else None
        return samples if samples is not None and samples.num_samples else None

    def _samples(self, split: str) -> Samples:
        inputs, targets, rows = self.drawn(split)
        return Samples(
            inputs={spec.name: inputs[spec.name][rows] for spec in self.inputs},
            targets=None if targets is None else [targets[row] for row in rows],
        )

    def drawn(self, split: str) -> tuple[Arrays, Sequence[Any] | None, list[int]]:
        """Inputs by name, their targets or None, and the places of those samples that belong to a split."""
        if not (self.folder / DATASET).is_file():
            rows = self.fitting(list(range(NUM_SAMPLES)), split)
            return self._made_up(len(rows), split), None, list(range(len(rows)))
        inputs = load_arrays(self.folder / DATASET)
        targets = list(load_arrays(self.folder / TARGETS)["targets"]) if (self.folder / TARGETS).is_file() else None
        return inputs, targets, self.rows(len(next(iter(inputs.values()))), split)

    def rows(self, num_samples: int, split: str) -> list[int]:
        """Places of the samples that belong to a split; a lone sample belongs to both."""
        train = list(range(0, num_samples, _TRAIN_EVERY))
        test = [row for row in range(num_samples) if row % _TRAIN_EVERY]
        return test or train if split == "test" else self.fitting(train, split)

    def fitting(self, rows: list[int], split: str) -> list[int]:
        """The places that a split keeps: one for training a model whose batch is fixed at 1.

        A variant may feed two training samples at once, which such a model does not take.
        """
        if split == _JUDGING:
            return rows[1:]
        return rows[:1] if self._is_fixed and split == "train" else rows

    @property
    def _is_fixed(self) -> bool:
        """Whether the model takes one sample at a time and no more."""
        return self.batched and self.inputs[0].shape[0] == 1

    def _made_up(self, num_samples: int, split: str) -> Arrays:
        """Made-up inputs of a split by name, the same each time.

        They resemble the example where there is one, or lie in the domain that the model tells; otherwise floats are
        normally distributed, and integers are safe as indices, or as lengths of another input.
        """
        generator = np.random.default_rng(SEEDS[split])
        example = load_arrays(self.folder / EXAMPLE) if (self.folder / EXAMPLE).is_file() else None
        domains = {**lengths.domains(self.inputs, self.sizes), **self.domains}
        arrays = {}
        for spec in self.inputs:
            shape = (num_samples, *sized(spec.shape[1:] if self.batched else spec.shape, self.sizes))
            if example:
                arrays[spec.name] = like(generator, example[spec.name], shape)
            else:
                arrays[spec.name] = generate(generator, spec.dtype, shape, domains.get(spec.name))
        return arrays

    def refuse_changed(self) -> None:
        """Refuse to run code that is not the code that the task was made of, whose figures and key are stored.

        Raises:
            InputError: a file has changed since, or is gone.
        """
        for file, digest in self.made_from.items():
            path = Path(file)
            if not path.is_file() or cache.file_digest(path) != digest:
                raise InputError(
                    f"{path} has changed since {self.name} was made of it; `bench run --model` with the model's path "
                    "reads it anew"
                )

    def build(self, source: str, weights: Path) -> Any:
        raise InputError(f"{self.name} is a file that runs as it is: no framework has it to build")


class TorchTask(OwnTask):
    """A task of a PyTorch model."""

    sources = ("torch",)
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    extra = "torch"

    def import_packages(self, source: str) -> None:
        from bench.tasks import torch_models  # noqa: F401 (imports PyTorch)

    def build(self, source: str, weights: Path) -> Any:
        from bench.tasks import torch_models

        model = self.model(weights)
        return torch_models.Flat(model) if self.nested else model

    def model(self, weights: Path) -> Any:
        """The `torch.nn.Module` of a weights file, switched to inference."""
        raise NotImplementedError


class TensorFlowTask(OwnTask):
    """A task of a TensorFlow model."""

    sources = ("tf",)
    requires: ClassVar[tuple[str, ...]] = ("tensorflow", "keras")
    extra = "tf"


class OnnxTask(OwnTask):
    """A task that is an ONNX file beside `task.py`: generated inputs, and its own outputs as the truth.

    The reference is the file as it is on plain ONNX Runtime. The quality of every other cell is the distance of its
    outputs from the reference's in decibels, not how good the model is. A subclass states its inputs and outputs, and
    may bring samples of its own.
    """

    sources = ("onnx",)
    weights = "model.onnx"
    original = "original.onnx"
    """The file as it is, where the weights file is a mended copy of it: the source `as_is`."""

    def native_path(self, source: str) -> Path:
        return self.folder / self.original if source == AS_IS else self.weights_path
