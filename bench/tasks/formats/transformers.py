"""A folder that transformers saved: `config.json` and weights. Pickles and code in it need `--trust`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path

from bench.tasks import pretrained_folder, transformers_task
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.transformers_task import Network, PretrainedTask


def refusal(folder: Path) -> str | None:
    """Why the weights of a folder cannot be read, or None."""
    if any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        return None
    return f"no .safetensors and no pytorch_model.bin in {folder}; save the model there by save_pretrained()"


def parts(name: str, names: Collection[str], trust: bool) -> list[str]:
    """The configurations and the weights of a folder; empty where it holds no weights."""
    return pretrained_folder.parts(names, trust=trust)


FORMAT = Format(described="a transformers folder", marker="config.json", refusal=refusal, parts=parts)


class TransformersTask(PretrainedTask):
    """A model of the class that its configuration names."""


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the model, run it once to learn its outputs, and keep its weights in one file.

    Raises:
        InputError: transformers cannot load the model, the model cannot be fed with made-up inputs, or the folder holds
            code or pickles that are not trusted.
    """
    from bench.tasks import transformers_models

    folder_model = transformers_models.opened(path, trust=options.trust)
    model, notes = transformers_models.loaded(path, folder_model)
    attributes = {}
    if getattr(model, "can_generate", bool)():
        from bench.tasks import torch_decoders

        facts = torch_decoders.facts(model)
        if isinstance(facts, str):
            notes += (f"it generates, and {facts}: what is measured is one pass over all tokens, without a cache",)
        else:
            attributes = {"decoder_fields": facts}
    network = Network(
        model=model,
        config=folder_model.config,
        main=model.main_input_name,
        parameters=transformers_task.parameters_of(model),
        runs_code=folder_model.runs_code,
        notes=(*folder_model.notes, *notes),
    )
    model_facts = transformers_task.facts_of(TransformersTask, network, path, folder, options, attributes)
    # A request to generate tells its own sizes.
    return (
        dataclasses.replace(model_facts, chosen=dataclasses.replace(model_facts.chosen, sizes={}))
        if attributes
        else model_facts
    )
