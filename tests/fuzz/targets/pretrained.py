"""Folders of transformers and sentence-transformers: their JSON changes, and the weights are those of small models.

Whatever the JSON names, no file beside the folder is read, and nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from bench.tasks import formats
from bench.tasks.options import Asked
from fuzz import file_trees, mutations, workplace
from fuzz.watch import CODE, BrokenRule

INSTRUMENTED = (
    "bench.tasks.pretrained_folder",
    "bench.tasks.transformers_models",
    "bench.tasks.transformers_inputs",
    "bench.tasks.transformers_task",
    "bench.tasks.sentence_modules",
    "bench.tasks.formats.sentence_transformers",
    "bench.tasks.counted_modules",
)
SIZES = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "max_position_embeddings": 32,
}  # fmt: skip
TEXTS = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "num_labels": 3, **SIZES}
DECODER = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_key_value_heads": 1, **SIZES}
IMAGES = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
    **{key: SIZES[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")},
}
DENSE = {"in_features": 16, "out_features": 4, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
MODULES = [
    {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for at, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")))
]
SAFE, PICKLED, BESIDE = "model.safetensors", ("pytorch_model.bin", "adapter_model.bin", "w.bin"), "beside.safetensors"
INDEX = "w.safetensors.index.json"
NAMES = (
    *(SAFE, *PICKLED, f"../{BESIDE}", "w.safetensors.index.json", "sub/w.safetensors.index.json", "sub", "1_Pooling"),
    *("/dev/zero", "auto_map", "transformers_weights", "AutoModel", "PreTrainedModel", "x--mine.Mine", "mine.Mine"),
    *("kernels-community/x", "local-dir:/etc", "sdpa", "google/x", "backbone", "attn_implementation", "bert", "vit"),
)
"""Texts that mean something to transformers, as a key or as a value."""
MARK = "the pickle of the folder was loaded"


def seeds() -> Iterator[bytes]:
    index = {"metadata": {}, "weight_map": {"classifier.bias": SAFE}}
    image = {"size": {"height": 32, "width": 32}}
    for files in (
        {"config.json": TEXTS},
        {"config.json": {**TEXTS, "architectures": None, "_attn_implementation": "eager", "dtype": "float16"}},
        {
            "config.json": {**TEXTS, "transformers_weights": "w.safetensors.index.json"},
            "w.safetensors.index.json": index,
        },
        {"config.json": {**TEXTS, "transformers_weights": SAFE}, "sub/w.safetensors.index.json": index},
        {
            "config.json": {**TEXTS, "auto_map": {"AutoModel": "mine.Mine"}},
            "adapter_config.json": {"peft_type": "LORA"},
        },
        {"config.json": DECODER, "generation_config.json": {"eos_token_id": 2}},
        {"config.json": IMAGES, "preprocessor_config.json": image},
        {
            "config.json": TEXTS,
            "modules.json": MODULES,
            "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
            "2_Dense/config.json": DENSE,
        },
    ):
        yield file_trees.joined({name: json.dumps(stored).encode() for name, stored in files.items()})


def check(content: bytes) -> None:
    import safetensors

    with workplace.folder() as path:
        place, task = path / "model", path / "task"
        (place / "2_Dense").mkdir(parents=True)
        task.mkdir()
        weights, dense = _weights()
        (path / BESIDE).write_bytes(weights)
        (place / SAFE).write_bytes(weights)
        (place / "2_Dense" / SAFE).write_bytes(dense)
        for name in PICKLED:
            (place / name).write_bytes(pickle.dumps(_Pickled()))
        file_trees.write(content, place)
        name = "sentence_transformers" if (place / "modules.json").is_file() else "transformers"
        broken: list[str] = []
        opens = safetensors.safe_open

        def safe_open(file: str, *given: Any, **named: Any) -> Any:
            if not Path(file).resolve().is_relative_to(place):
                broken.append(f"{Path(file).name} beside the folder was read")
            return opens(file, *given, **named)

        with _watched(path / BESIDE, broken), mock.patch.object(safetensors, "safe_open", safe_open):
            try:
                formats.module_of(name).examine(place, task, Asked())
            finally:
                if broken:
                    raise BrokenRule(CODE, broken[0])


class _Pickled:
    """Whoever loads its pickle calls `intern` with a mark; the audit of the interpreter tells of it."""

    def __reduce__(self) -> Any:
        return (sys.intern, (MARK,))


@functools.cache
def _hooked() -> list[tuple[Path, list[str]]]:
    """The file that may not be opened now, and where to tell of it; the hook of an interpreter stays for ever."""
    watched: list[tuple[Path, list[str]]] = []

    def hook(event: str, given: tuple[Any, ...]) -> None:
        for path, broken in watched:
            if event == "open" and isinstance(given[0], str) and given[0].endswith(path.name):
                broken.append(f"{path.name} beside the folder was read")
            elif event == "pickle.find_class":
                broken.append("a pickle was loaded")

    sys.addaudithook(hook)
    return watched


@contextlib.contextmanager
def _watched(path: Path, broken: list[str]) -> Iterator[None]:
    import torch

    def load(*given: Any, **named: Any) -> Any:  # it reads a pickle with a reader of its own
        broken.append("torch.load was called")
        return {}

    _hooked().append((path, broken))
    try:
        with mock.patch.object(torch, "load", load):
            yield
    finally:
        _hooked().clear()


@functools.cache
def _weights() -> tuple[bytes, bytes]:
    """The safetensors files of all models in one, and of the linear map."""
    import torch
    import transformers
    from safetensors.torch import save

    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    for stored in (TEXTS, DECODER, IMAGES):
        kind = getattr(transformers, stored["architectures"][0])  # type: ignore[index]
        config = transformers.AutoConfig.for_model(**{key: stored[key] for key in stored if key != "architectures"})
        found |= {name: tensor.contiguous().clone() for name, tensor in kind(config).state_dict().items()}
    linear = {"linear.weight": torch.ones(4, 16), "linear.bias": torch.ones(4)}
    return save(found, {"format": "pt"}), save(linear)


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    files = dict(file_trees.parts(content))
    if not files:
        return b""
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(list(files))
        try:
            stored = json.loads(files[name])
        except (ValueError, RecursionError):
            return b""
        stored = mutations.of_json(stored, chance)
        if isinstance(stored, dict) and chance.random() < 0.4:
            value = chance.choice((*NAMES, {"AutoModel": chance.choice(NAMES)}, [chance.choice(NAMES)]))
            stored[chance.choice((*stored, *NAMES))] = value
        try:
            files[name] = json.dumps(stored).encode()
        except RecursionError:
            return b""
    made = file_trees.joined(files)
    return made if len(made) <= most_bytes else b""


def smaller(content: bytes) -> Iterator[bytes]:
    yield from mutations.smaller_lines(content)
