"""Opens folders that transformers saved: the class that a configuration names, and its weights, never from the hub.

The module imports PyTorch and transformers, so the files in `formats/` import it inside functions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from bench.api.errors import InputError
from bench.tasks import pretrained_folder
from bench.tasks.counted_modules import counted
from bench.tasks.failures import refused
from bench.tasks.pretrained_folder import CONFIG, SAFE, Weights

_ADAPTER = "adapter_config.json"
_MADE_UP = "write a Python file with build() and example_inputs()"
_MOST_NAMES = 3
"""Names of weights in a message, at most."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Opened:
    """A folder's model before its weights are read.

    Attributes:
        kind: the model's class, a `transformers.PreTrainedModel`.
        config: its `transformers.PreTrainedConfig`, set so that the model returns tensors by name and keeps no cache.
        weights: the files that hold its weights; None where they are read from elsewhere.
        runs_code: whether code in the folder runs.
        notes: lines to tell the user.
    """

    kind: Any
    config: Any
    weights: Weights | None
    runs_code: bool
    notes: tuple[str, ...]


def opened(folder: Path, *, trust: bool, encodes: bool = False, has_weights: bool = True) -> Opened:
    """Read the configuration of a folder, and find the class that it names.

    Args:
        folder: a folder with a `config.json`.
        trust: whether Python files in the folder may run; they run only if the configuration refers to them.
        encodes: whether the class is wanted that gives the hidden states of texts, whichever the configuration names.
        has_weights: whether the weights are in the folder, as transformers saved them; those of a task are not.

    Raises:
        InputError: transformers cannot read the configuration, there is no such class, its code is not trusted, or the
            configuration is of a larger model than the weights, or they are pickled and not trusted.
    """
    stored = pretrained_folder.config_of(folder)
    weights = None
    if has_weights:
        weights = pretrained_folder.weights_of(folder, stored, trust=trust)
        pretrained_folder.check_counts(stored, weights)
    name = next(iter(stored.get("architectures") or ()), None)
    code = {
        auto: class_path for auto, class_path in (stored.get("auto_map") or {}).items() if isinstance(class_path, str)
    }
    is_known = stored.get("model_type") in transformers.CONFIG_MAPPING and hasattr(transformers, name or "AutoModel")
    if code and not trust and not is_known:
        files = ", ".join(sorted({f"{class_path.split('.')[0]}.py" for class_path in code.values()}))
        raise InputError(
            f"its class {name or 'is not named and'} is code in the folder ({files}); add --trust to run it"
        )
    runs = bool(code) and trust
    if runs:
        _check_code_is_here(code)
    huggingface_hub.constants.HF_HUB_OFFLINE = True  # some configurations ask the hub for what they name
    with refused("transformers cannot read its config.json"):
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=runs)
    for key, value in (("use_cache", False), ("return_dict", True)):
        if hasattr(config, key):
            setattr(config, key, value)
    notes = []
    if not runs:
        _forget_code(config)
    if (folder / _ADAPTER).is_file():
        notes.append(f"the adapter of its {_ADAPTER} is not a part of what is measured; merge it into the weights")
    if code and not runs:
        notes.append("the code in the folder did not run: it is measured by transformers' own class; --trust runs it")
    wanted = None if encodes else name
    reference = _reference(code, wanted) if runs else None
    if reference is not None:
        with refused("the code in the folder does not load"):
            kind = get_class_from_dynamic_module(reference, str(folder), local_files_only=True)
    elif wanted is not None:
        kind = _named(wanted, config, stored)
    else:
        kind = _base(config)
        if not encodes:
            notes.append(f"its config.json names no class; it is measured as {kind.__name__}")
    return Opened(kind=kind, config=config, weights=weights, runs_code=runs, notes=tuple(notes))


def loaded(folder: Path, folder_model: Opened) -> tuple[Any, tuple[str, ...]]:
    """The model of a folder with its weights in float32, switched to inference, and lines to tell the user.

    A class of transformers is given the weights, so that it looks for no file: neither for other weights, adapters and
    settings of a generation, nor for what a class of its own kind reads besides. A class of the folder is trusted.

    Args:
        folder: the folder.
        folder_model: as `opened` found it with its weights.

    Raises:
        InputError: transformers cannot load the weights, or they do not fit the configuration.
    """
    weights = folder_model.weights
    assert weights is not None, "it was opened without its weights"
    options = {"config": folder_model.config, "local_files_only": True, "dtype": "float32", "output_loading_info": True}
    torch.manual_seed(0)  # weights that the folder lacks are drawn
    with contextlib.ExitStack() as stack:
        stack.enter_context(refused("transformers cannot load it"))
        if folder_model.runs_code:
            load = folder_model.kind.from_pretrained
            model, report = load(str(folder), use_safetensors=not weights.is_pickled, **options)
        else:
            stack.enter_context(counted(weights))
            tensors = _tensors(weights, stack)
            load = transformers.PreTrainedModel.from_pretrained.__func__  # not the one that a class may have of its own
            model, report = load(folder_model.kind, None, state_dict=tensors, ignore_mismatched_sizes=True, **options)
    for name, stored, built in sorted(report["mismatched_keys"]):
        raise InputError(f"its weight {name} is {_told(stored)}, and its {CONFIG} makes it {_told(built)}")
    missing = sorted(report["missing_keys"])
    names = ", ".join(missing[:_MOST_NAMES]) + (", ..." if len(missing) > _MOST_NAMES else "")
    drawn = f"{len(missing)} of its weights are not in the folder, and were drawn at random: {names}"
    return model.eval(), (drawn,) if missing else ()


def _tensors(weights: Weights, stack: contextlib.ExitStack) -> dict[str, Any]:
    """The weights of all files by name; those of safetensors are read when they are needed."""
    from safetensors import safe_open
    from transformers.modeling_utils import load_state_dict

    tensors: dict[str, Any] = {}
    for path in weights.files:
        if path.suffix == SAFE:
            opened = stack.enter_context(safe_open(str(path), framework="pt"))
            tensors |= {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        else:
            tensors |= load_state_dict(str(path))
    return tensors


def _told(shape: Any) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _forget_code(config: Any) -> None:
    """Remove the names of classes in the folder from a configuration and its parts: transformers would ask for them."""
    if "auto_map" in vars(config):
        del config.auto_map
    for name in config.sub_configs:
        if isinstance(part := getattr(config, name, None), transformers.PreTrainedConfig):
            _forget_code(part)


def _check_code_is_here(code: Mapping[str, str]) -> None:
    """Refuse code that lies elsewhere.

    Raises:
        InputError: a class is in another repository of the hub.
    """
    for class_path in code.values():
        place, elsewhere, local = class_path.partition("--")
        if elsewhere:
            raise InputError(
                f"its code is in the hub's repository {place}, and nothing is downloaded; copy its .py files into the "
                f"folder, and write {local!r} for {class_path!r} in config.json"
            )


def _reference(code: Mapping[str, str], name: str | None) -> str | None:
    """The module and class of the folder's code, such as `modeling_x.X`, that a name or else `AutoModel` means."""
    if name is None:
        return code.get("AutoModel")
    return next((class_path for class_path in code.values() if class_path.rpartition(".")[2] == name), None)


def _named(name: str, config: Any, stored: Mapping[str, Any]) -> Any:
    """The class of transformers with a name; some encoders are classes of the model's module alone.

    Raises:
        InputError: transformers has no such class.
    """
    kind = getattr(transformers, name, None)
    if kind is None:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
            kind = getattr(module, name, None)
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise InputError(f"its {CONFIG} names {name}, which is no class of a model here; {_MADE_UP}")
    if kind is None:
        by = stored.get("transformers_version")
        raise InputError(
            f"its config.json{f', of transformers {by},' if by else ''} names {name}, which transformers "
            f"{transformers.__version__} does not have; {_MADE_UP}"
        )
    return kind


def _base(config: Any) -> Any:
    """The class that gives the hidden states of a configuration's model: of the encoder alone where it also decodes.

    Raises:
        InputError: transformers has no such class.
    """
    texts = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING
    is_decoding = getattr(config, "is_encoder_decoder", False)
    kind = texts.get(type(config), None) if is_decoding else None
    kind = kind or transformers.MODEL_MAPPING.get(type(config), None)
    if kind is None:
        raise InputError(f"its config.json names no class, and transformers has no plain model of it; {_MADE_UP}")
    return kind[0] if isinstance(kind, (list, tuple)) else kind
