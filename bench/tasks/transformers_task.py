"""The task of a model of transformers, and how it is made: by the first likely shape of its inputs that runs."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, Samples, TensorSpec
from bench.api.arrays import generate
from bench.api.decoder import IDS, Decoder
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import sizes
from bench.tasks import transformers_inputs as fed
from bench.tasks.failures import refused
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import NUM_SAMPLES, SEEDS, TorchTask

CONFIG, TOKENIZER = "config.json", "tokenizer.json"


class PretrainedTask(TorchTask):
    """A model that is built from a `config.json`, and from the folder's code where that is trusted."""

    requires = ("torch", "transformers", "safetensors")
    packages = ("numpy", "transformers", "safetensors")
    trust: ClassVar[bool] = False
    """Whether code that the model's folder holds may run."""
    last_tokens: ClassVar[Mapping[str, int]] = {}
    """The token that ends each made-up text, by name of the input."""
    decoder_fields: ClassVar[Mapping[str, int]] = {}
    """The fields of its `Decoder`, where engines may generate with it."""
    encodes: ClassVar[bool] = False
    """Whether the model is the one that gives the hidden states of texts, whichever the configuration names."""

    def import_packages(self, source: str) -> None:
        super().import_packages(source)
        self.opened()  # transformers imports the module of a class when the class is first named

    def opened(self) -> Any:
        """The `transformers_models.Opened` of the task's folder."""
        from bench.tasks import transformers_models

        return transformers_models.opened(self.folder, trust=self.trust, encodes=self.encodes, has_weights=False)

    @property
    def decoder(self) -> Decoder | None:
        return Decoder(**self.decoder_fields) if self.decoder_fields else None

    def build_step(self, source: str, weights: Path) -> Any:
        from bench.plugins.engines.pytorch.steps import Step

        model = self.model(weights).model
        model.config._attn_implementation = "eager"  # the fused one is exported with a guard against rows of padding
        return Step(model)

    def texts(self, split: str, num_tokens: int) -> Samples:
        """Made-up texts of ordinary tokens, the same each time: what an answer costs does not depend on its words."""
        assert self.decoder_fields, f"{self.name} is no decoder"
        ids = generate(np.random.default_rng(SEEDS[split]), "int64", (NUM_SAMPLES, num_tokens), self.domains.get(IDS))
        return Samples(inputs={IDS: ids}, targets=None)

    def network(self) -> Any:
        """The `torch.nn.Module` with untrained weights, which takes its inputs by name."""
        folder_model = self.opened()
        return folder_model.kind(folder_model.config)

    def model(self, weights: Path) -> Any:
        from bench.tasks import torch_models

        return torch_models.restore(
            torch_models.Flat(self.network(), tuple(spec.name for spec in self.inputs)), weights
        )

    def _made_up(self, num_samples: int, split: str) -> Arrays:
        return ended(super()._made_up(num_samples, split), self.last_tokens)


def ended(arrays: Arrays, last_tokens: Mapping[str, int]) -> Arrays:
    """The arrays with these tokens at the end of the last axis, by name."""
    for name, token in last_tokens.items():
        arrays[name][..., -1] = token
    return arrays


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A model with its weights.

    Attributes:
        model: the `torch.nn.Module`, which takes its inputs by name and is switched to inference.
        config: its `transformers.PreTrainedConfig`.
        main: name of its main input.
        parameters: names of all inputs that it takes.
        runs_code: whether code in its folder runs.
        notes: lines to tell the user.
    """

    model: Any
    config: Any
    main: str
    parameters: tuple[str, ...]
    runs_code: bool
    notes: tuple[str, ...]


def facts_of(
    task: type[PretrainedTask],
    network: Network,
    source: Path,
    folder: Path,
    options: Asked,
    attributes: Mapping[str, Any] = {},
) -> Found:
    """Run a model with the likely shapes of its inputs, and write its weights and its configuration into a folder.

    Args:
        task: the class of its task.
        network: the model.
        source: the folder with its `config.json` and the settings of its image processor.
        folder: the task's folder.
        options: sizes and samples that the user gave.
        attributes: class attributes of the task besides those that follow from running the model.

    Raises:
        InputError: the shape of an input is not known, or the model runs with no shape that was tried.
    """
    from bench.tasks import torch_models

    with refused(f"its {CONFIG} does not say what its inputs are"):
        layouts: list[fed.Layout | None] = [*fed.layouts(network.main, network.config, fed.processor_of(source))]
        decoded = fed.decoder_sizes(network.config)
    refusal: InputError | None = None
    for layout in layouts or [None]:
        inputs = fed.specs(network.main, layout, network.parameters, options)
        user_sizes = sizes.given_sizes(inputs, options)
        likely = {**(layout.sizes if layout else {}), **decoded, **user_sizes}
        if not (user_sizes or options.arrays):
            fed.check_sizes(inputs, likely)
        fixed = {dim: likely[dim] for dim in fed.FIXED if dim in likely}
        try:
            facts = _tried(task, network, fed.fixed(inputs, fixed), options, attributes, likely)
        except sizes.NothingRunsError as error:
            refusal = refusal or _explained(error, user_sizes, network.config)
            continue
        torch_models.save(torch_models.Flat(network.model), folder / task.weights)
        shutil.copyfile(source / CONFIG, folder / CONFIG)
        if "decoder_fields" in attributes and (source / TOKENIZER).is_file():
            shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
        if network.runs_code:
            for file in source.glob("*.py"):
                shutil.copyfile(file, folder / file.name)
        size_texts = [f"{dim}={size}" for dim, size in fixed.items() if dim not in user_sizes]
        why = layout.source if layout is not None else ""
        sized = f"images were taken with {', '.join(size_texts)}, {why}; say others with --dim"
        return dataclasses.replace(facts, notes=(*network.notes, *([sized] if size_texts else []), *facts.notes))
    assert refusal is not None
    raise refusal


def _tried(
    task: type[PretrainedTask],
    network: Network,
    inputs: tuple[TensorSpec, ...],
    options: Asked,
    attributes: Mapping[str, Any],
    likely: Mapping[str, int],
) -> Found:
    """Run a model with inputs of these specs.

    Raises:
        NothingRunsError: it does not run.
    """
    from bench.tasks import torch_models

    with refused(f"its {CONFIG} does not say what its tokens are"):
        domains = fed.domains(inputs, network.config)
        ends = fed.last_tokens(inputs, network.config) if options.arrays is None else {}
    run = torch_models.Run(network.model, by_name=True)
    more_attributes = {"trust": network.runs_code, "domains": domains, "last_tokens": ends}
    return sizes.choose(
        task,
        lambda feeds: run(ended(feeds, ends)),
        inputs,
        dataclasses.replace(options, dims={dim: size for dim, size in options.dims.items() if dim not in fed.FIXED}),
        {**attributes, **{key: value for key, value in more_attributes.items() if value}},
        likely=likely,
        domains=domains,
    )


def _explained(error: InputError, user_sizes: Mapping[str, int], config: Any) -> InputError:
    """The error of a model that does not run; it names the positions where more tokens were asked for."""
    most = fed.most_positions(config)
    long = [dim for dim in (fed.SEQUENCE, fed.DECODED) if most is not None and user_sizes.get(dim, 0) > most]
    if not long:
        return error
    return InputError(
        f"it does not run with {long[0]}={user_sizes[long[0]]}: its config.json has positions for {most} tokens"
    )


def parameters_of(model: Any) -> tuple[str, ...]:
    """Names of the inputs that a module's `forward` takes."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(model.forward).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind not in kinds)
