"""A folder that transformers saved: `config.json` and safetensors. Code that such a folder may hold is never run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bench.api import Arrays, TensorSpec
from bench.api.errors import InputError
from bench.graphs.deferred import np
from bench.tasks import probe
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.sizes import given_sizes
from bench.tasks.user_task import TorchTask, sized


def _refusal(folder: Path) -> str | None:
    """Why the weights of a folder are not read, or None."""
    if any(folder.glob("*.safetensors")):
        return None
    return f"no .safetensors in {folder}: of transformers' files no other weights are read, for they hold code"


FORMAT = Format(described="a transformers folder", marker="config.json", refusal=_refusal)
SEQUENCE = "sequence"
NUM_TOKENS = 16
AUDIO_SAMPLES = 16_000
MADE_UP = "write a Python file with build() and example_inputs()"


class TransformersTask(TorchTask):
    """A model of the class that its configuration names."""

    requires = ("torch", "transformers", "safetensors")
    packages = ("numpy", "transformers", "safetensors")

    def import_packages(self, source: str) -> None:
        super().import_packages(source)
        _architecture(self.folder)  # transformers imports the module of a class when the class is first named

    def model(self, weights: Path) -> Any:
        from bench.tasks import torch_models

        names = tuple(spec.name for spec in self.inputs)
        return torch_models.restore(torch_models.Flat(_architecture(self.folder)(_config(self.folder)), names), weights)


def _config(folder: Path) -> Any:
    """The folder's `transformers.PretrainedConfig`, set so that the model returns tensors alone.

    Raises:
        InputError: transformers cannot read the `config.json`.
    """
    import transformers

    with refused("transformers cannot read its config.json"):
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    for name, value in (("use_cache", False), ("return_dict", True)):
        if hasattr(config, name):
            setattr(config, name, value)
    return config


def _architecture(folder: Path) -> Any:
    """The class of transformers that the configuration names.

    Raises:
        InputError: the configuration names no class, or a class that transformers does not have.
    """
    import transformers

    names = _config(folder).architectures or []
    kind = getattr(transformers, names[0], None) if names else None
    if kind is None:
        raise InputError(f"its config.json names {names[0] if names else 'no class'}, which transformers does not have")
    return kind


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Load the model, run it once to learn its outputs, and keep its weights in one file.

    Raises:
        InputError: transformers cannot load the model, or the model cannot be fed with made-up inputs.
    """
    from bench.tasks import torch_models

    kind, config = _architecture(path), _config(path)
    with refused("transformers cannot load it"):
        model = kind.from_pretrained(
            str(path), config=config, local_files_only=True, use_safetensors=True, dtype="float32"
        ).eval()
    specs = _inputs(config, model)
    given = given_sizes(specs, asked)
    sizes = {SEQUENCE: NUM_TOKENS, **given}
    example = _example(specs, sizes, config)
    flat = torch_models.Flat(model, tuple(spec.name for spec in specs))
    with refused(f"it does not run on {', '.join(example)}", advice=f"; {MADE_UP}"):
        interface = probe.from_example(torch_models.Run(model, by_name=True), example, specs)
    torch_models.save(flat, folder / "weights.safetensors")
    shutil.copyfile(path / "config.json", folder / "config.json")
    return interface.found(TransformersTask, sizes=sizes, given=given, example=example)


def _inputs(config: Any, model: Any) -> tuple[TensorSpec, ...]:
    """Specs of the inputs that a deployment feeds, derived from the name of the model's main input.

    Raises:
        InputError: the main input is of no kind that can be made up.
    """
    main = model.main_input_name
    if main == "input_ids":
        names = ["input_ids", "attention_mask", *(["decoder_input_ids"] if config.is_encoder_decoder else [])]
        return tuple(TensorSpec(name=name, dtype="int64", shape=(probe.BATCH, SEQUENCE)) for name in names)
    if main == "pixel_values":
        side, channels = getattr(config, "image_size", 224), getattr(config, "num_channels", 3)
        sides = tuple(side) if isinstance(side, (list, tuple)) else (side, side)
        return (TensorSpec(name=main, dtype="float32", shape=(probe.BATCH, channels, *sides)),)
    if main == "input_values":
        return (TensorSpec(name=main, dtype="float32", shape=(probe.BATCH, AUDIO_SAMPLES)),)
    raise InputError(f"what its input {main!r} looks like is not known here; {MADE_UP}")


def _example(specs: tuple[TensorSpec, ...], sizes: dict[str, int], config: Any) -> Arrays:
    """Arrays of two samples by input name: tokens of the vocabulary without padding, or normally distributed floats."""
    generator = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for spec in specs:
        shape = sized(spec.shape, {**sizes, probe.BATCH: 2})
        if spec.name == "attention_mask":
            arrays[spec.name] = np.ones(shape, np.int64)
        elif spec.dtype == "int64":
            arrays[spec.name] = generator.integers(0, config.get_text_config().vocab_size, shape)
        else:
            arrays[spec.name] = generator.standard_normal(shape, dtype=np.float32)
    return arrays
