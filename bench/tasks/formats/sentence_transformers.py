"""A folder that sentence-transformers saved: `modules.json`, a transformer, a pooling and small layers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bench.api import files
from bench.api.errors import InputError
from bench.tasks import pretrained_folder, transformers_task
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.pretrained_folder import shown
from bench.tasks.transformers_task import Network, PretrainedTask

_MARKER = "modules.json"


def parts(name: str, names: Collection[str], trust: bool) -> list[str]:
    """The list of modules, and of each module its configuration and its weights; empty where there are no weights."""
    modules: dict[str, list[str]] = {}
    for file in names:
        folder, slash, last = file.rpartition("/")
        if "/" not in folder:
            modules.setdefault(folder + slash, []).append(last)
    paths = [
        begin + part
        for begin, own in sorted(modules.items())
        for part in pretrained_folder.parts(own, trust=trust, has_weights=False)
    ]
    return [_MARKER, *paths] if any(not path.endswith(".json") for path in paths) else []


FORMAT = Format(described="a sentence-transformers folder", marker=_MARKER, parts=parts)
_MAIN = "input_ids"
_FIELDS = {"idx": int, "type": str, "path": str}
"""The fields of a module that are read, and their types."""
SAME = ("module_input_name", "module_output_name")
"""Settings by which a layer takes or gives something else than the embedding."""


class SentenceTask(PretrainedTask):
    """The embedding of a text as `SentenceTransformer.encode` gives it, from the tokens on."""

    layers: ClassVar[tuple[tuple[str, Mapping[str, Any]], ...]] = ()
    """Kinds and settings of the modules that follow the transformer."""
    encodes = True

    def network(self) -> Any:
        from bench.tasks import sentence_modules

        return sentence_modules.SentenceModel(super().network(), self.layers)


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the modules, run them once to learn the size of the embedding, and keep their weights in one file.

    Raises:
        InputError: a module is not known here, transformers cannot load the model, or the folder holds code or pickles
            that are not trusted.
    """
    from bench.tasks import sentence_modules, transformers_models

    modules = _modules(path)
    places = [pretrained_folder.inside(path / place, path) for _, place in modules]
    layers = tuple((kind, _settings(kind, place, path)) for (kind, _), place in zip(modules, places, strict=True))[1:]
    if [kind for kind, _ in modules][:2] != ["Transformer", "Pooling"]:
        raise InputError(
            f"its {_MARKER} does not begin with a Transformer and a Pooling; write a Python file with build()"
        )
    if unknown := [kind for kind, _ in layers if kind not in sentence_modules.KNOWN]:
        raise InputError(
            f"its {_MARKER} has a {unknown[0]}, which is not known here; known are {', '.join(sentence_modules.KNOWN)}"
        )
    if again := [kind for kind, _ in layers[1:] if kind not in sentence_modules.LAYERS]:
        raise InputError(
            f"its {_MARKER} has a second {again[0]}; behind both, {', '.join(sentence_modules.LAYERS)} are known"
        )
    sentence_modules.check(layers, places[1:], path, trust=options.trust)
    folder_model = transformers_models.opened(places[0], trust=options.trust, encodes=True)
    transformer, notes = transformers_models.loaded(places[0], folder_model)
    model = sentence_modules.SentenceModel(transformer, layers).eval()
    sentence_modules.load_layers(model, places[2:], trust=options.trust)
    network = Network(
        model=model,
        config=folder_model.config,
        main=_MAIN,
        parameters=transformers_task.parameters_of(transformer),
        runs_code=folder_model.runs_code,
        notes=(*folder_model.notes, *notes),
    )
    return transformers_task.facts_of(SentenceTask, network, places[0], folder, options, {"layers": layers})


def _modules(folder: Path) -> list[tuple[str, str]]:
    """The kind and the folder's name of each module, in order.

    Raises:
        InputError: the `modules.json` is not as the library writes it.
    """
    pretrained_folder.inside(folder / _MARKER, folder)
    with refused(f"its {_MARKER} cannot be read"):
        stored = json.loads(files.read_text(folder / _MARKER))
    allowed = "a list of objects with idx, a number, and type and path, texts, is allowed"
    if not isinstance(stored, list):
        raise InputError(f"its {_MARKER} holds {shown(stored)}; {allowed}")
    for module in stored:
        if not isinstance(module, dict) or any(type(module.get(key)) is not kind for key, kind in _FIELDS.items()):
            raise InputError(f"its {_MARKER} has the module {shown(module)}; {allowed}")
        if "\0" in module["path"]:
            raise InputError(f"its {_MARKER} has {shown(module['path'])} for path; the name of a folder is allowed")
    ordered = sorted(stored, key=lambda module: module["idx"])
    return [(module["type"].rpartition(".")[2], module["path"]) for module in ordered]


def _settings(kind: str, folder: Path, root: Path) -> dict[str, Any]:
    """The settings of a module after the transformer; empty where it has none.

    Raises:
        InputError: the settings cannot be read, or the module works on something else than the embedding.
    """
    path = folder / "config.json"
    if kind == "Transformer" or not path.is_file():
        return {}
    stored = pretrained_folder.read_json(path, root, f"{path.parent.name}/{path.name}")
    elsewhere = [
        stored[key] for key in SAME if stored.get(key, "sentence_embedding") not in ("sentence_embedding", None)
    ]
    if elsewhere or stored.get("use_residual"):
        what = shown(elsewhere[0]) if elsewhere else "a residual"
        raise InputError(f"its {kind} works with {what}, which is not known here")
    return stored
