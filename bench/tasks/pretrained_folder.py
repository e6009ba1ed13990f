"""A folder that transformers saved, checked before any package opens it: the configuration, the files of weights.

A configuration can name files, other models and code, and sizes of which each takes seconds or gigabytes. What may be
opened is told here and handed on: transformers itself looks up no file of weights by its name.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import files
from bench.api.errors import InputError
from bench.tasks.failures import refused

CONFIG = "config.json"
SAFE, PICKLED = ".safetensors", ".bin"
_INDEX = ".index.json"
_USUAL = ("model.safetensors", f"model.safetensors{_INDEX}", "pytorch_model.bin", f"pytorch_model.bin{_INDEX}")
"""The files that hold or list the weights where the configuration names none, the first that is there."""
_NAMED = "transformers_weights"
"""The key of a configuration that names such a file."""
_QUANTIZED = ("quantization_config", "compression_config")
_MODELS = ("backbone", "architecture")
"""Keys that name a model of another package."""
_KERNELS = re.compile(r"(attn|attention|experts)_implementation(_internal)?$")
"""Keys that may name a kernel in a repository of the hub."""
ELSEWHERE = re.compile(r"[/\\:]|^\.")
_COUNTS = re.compile(r"(^|_)(n_layers?|layers?|blocks?|depths?|stages?|experts)$")
"""Keys that say how often a part of the model is there."""
_SIZES = re.compile(r"(^|_)(num|n|d|vocab|hidden|size|sizes|dims?|labels?|channels?|heads?|width|rank|positions?)(_|$)")
"""Keys that say how large a weight or a table is."""
MOST_PARTS, LARGEST, MANY_LABELS = 10_000, 2**24, 2**17
"""Counts, sizes and classes of models whose files hold fewer weights than that."""
_MOST_LABELS = 2**20
"""Classes of any model: transformers gives each a name, which takes 6 µs."""
MOST_BYTES = 2**26
"""Bytes of a configuration; the largest hold the names of a hundred thousand classes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """The files of a folder that hold the weights.

    Attributes:
        files: the files, all of them in the folder.
        is_pickled: whether they are pickles.
        num_tensors: weights in them by name; of pickles unknown, so the largest number that could be.
        num_elements: numbers in them; of pickles at most.
    """

    files: tuple[Path, ...]
    is_pickled: bool
    num_tensors: int
    num_elements: int


NO_WEIGHTS = Weights(files=(), is_pickled=False, num_tensors=0, num_elements=0)
"""Of a folder whose configuration alone is read."""


def inside(path: Path, root: Path) -> Path:
    """The path itself; whatever it leads to is in the folder `root`, or is a file of the hub's cache for that folder.

    Raises:
        InputError: a link or a name in the path leads elsewhere, or the path is no regular file or folder.
    """
    with refused(f"{path.name} cannot be looked up"):
        top, place = root.resolve(), path.resolve()
    # In the hub's cache, snapshots/REVISION/config.json is a link to a file of blobs/.
    allowed = [top, *(folder.parent / "blobs" for folder in top.parents if folder.name == "snapshots")]
    if not any(place.is_relative_to(folder) for folder in allowed):
        raise InputError(f"its {path.name} leads out of its folder, where nothing is read; copy the file there")
    files.refuse_special(path)
    return path


def read_json(path: Path, root: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file of a folder.

    Args:
        path: the file.
        root: the folder.
        what: the file in messages.

    Raises:
        InputError: the file is elsewhere, cannot be read, or holds no object.
    """
    inside(path, root)
    with refused(f"its {what} cannot be read"):
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(f"its {what} has {size:,} bytes; up to {MOST_BYTES:,} are read")
        stored = json.loads(files.read_text(path))
    if not isinstance(stored, dict):
        raise InputError(f"its {what} holds {shown(stored)}; an object is allowed")
    return stored


def config_of(folder: Path) -> dict[str, Any]:
    """The content of a folder's `config.json`; its fields that are read here are of the types that they should be.

    Raises:
        InputError: it cannot be read, a field has another type, or it names files, models or kernels elsewhere.
    """
    stored = read_json(folder / CONFIG, folder, CONFIG)
    for key, allowed, what in (
        ("architectures", list, "a list of names of classes"),
        ("auto_map", dict, "an object of classes by name"),
        ("model_type", str, "a text"),
        (_NAMED, str, "the name of a file"),
    ):
        value = stored.get(key)
        if value is not None and not isinstance(value, allowed):
            raise InputError(f"its {CONFIG} has {shown(value)} for {key}; {what} is allowed")
    if not all(isinstance(name, str) for name in stored.get("architectures") or ()):
        raise InputError(f"its {CONFIG} has {shown(stored['architectures'])} for architectures; names are allowed")
    for key, value in _fields(stored):
        if key in _QUANTIZED and value is not None:
            raise InputError("its weights are quantized for another framework; give the folder of the float model")
        if (key in _MODELS or _KERNELS.search(key)) and isinstance(value, str) and ELSEWHERE.search(value):
            raise InputError(
                f"its {CONFIG} names {shown(value)} for {key}, which is elsewhere; nothing is fetched or read there"
            )
    return stored


def weights_of(folder: Path, stored: Mapping[str, Any], *, trust: bool) -> Weights:
    """The files of weights of a folder.

    Args:
        folder: the folder.
        stored: its configuration, as `config_of` gives it.
        trust: whether pickles may be loaded.

    Raises:
        InputError: there are none, a list of files cannot be read or names files elsewhere, they are pickled and not
            trusted, or a safetensors file is damaged.
    """
    read = (f"{SAFE}{_INDEX}", f"{PICKLED}{_INDEX}")  # not those of other frameworks, which nothing opens
    lists = {path.name: _listed(path, folder) for path in sorted(folder.glob(f"*{_INDEX}")) if path.name.endswith(read)}
    name = stored.get(_NAMED)
    if name is not None:
        _check_name(name, f"its {CONFIG}", (SAFE, f"{SAFE}{_INDEX}", PICKLED))
    else:
        name = next((usual for usual in _USUAL if (folder / usual).is_file()), None)
    if name is None:
        raise InputError(
            f"it holds no {_USUAL[0]}, no {_USUAL[1]} and no {_USUAL[2]}; save the model there by save_pretrained()"
        )
    if not (folder / name).is_file():
        raise InputError(f"its {CONFIG} names the weights {name!r}, which are not in the folder")
    names = lists[name] if name.endswith(_INDEX) else [name]
    if missing := [part for part in names if not (folder / part).is_file()]:
        raise InputError(f"its {name} names {missing[0]!r}, which is not in the folder")
    paths = tuple(inside(folder / part, folder) for part in names)
    if any(part.endswith(PICKLED) for part in names):
        check_pickles(trust)
        size = sum(path.stat().st_size for path in paths)
        return Weights(files=paths, is_pickled=True, num_tensors=size, num_elements=size)
    shapes = [shape for path in paths for shape in shapes_of(path).values()]
    return Weights(
        files=paths, is_pickled=False, num_tensors=len(shapes), num_elements=sum(math.prod(shape) for shape in shapes)
    )


def parts(names: Collection[str], *, trust: bool, has_weights: bool = True) -> list[str]:
    """The files of a folder of which `weights_of` and the readers of configurations read some, by their names.

    Args:
        names: the names of all files in the folder; those in folders of it are passed over.
        trust: whether pickles may be loaded.
        has_weights: whether a folder without weights has no such files.
    """
    own = {name for name in names if "/" not in name}
    usual = next((name for name in _USUAL if name in own and (trust or PICKLED not in name)), None)
    if usual is None and has_weights:
        return []
    weights = [] if usual is None else [usual]
    if usual is not None and usual.endswith(_INDEX):  # it names its parts, as model-00001-of-00002.safetensors
        stem, dot, kind = usual.removesuffix(_INDEX).rpartition(".")
        weights += sorted(name for name in own if name.startswith(f"{stem}-") and name.endswith(dot + kind))
    return [*sorted(name for name in own if name.endswith(CONFIG)), *weights]


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights in a safetensors file by name; nothing but its header is read.

    Raises:
        InputError: the file is damaged.
    """
    from safetensors import safe_open

    with refused(f"its {path.name} is no whole safetensors file"), safe_open(str(path), framework="numpy") as opened:
        return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118


def check_pickles(trust: bool) -> None:
    """Refuse pickled weights that are not trusted.

    Raises:
        InputError: they are not.
    """
    if not trust:
        raise InputError(
            "its weights are pickled (.bin); add --trust to load them, or save the model again by save_pretrained(), "
            "which writes safetensors"
        )


def check_counts(stored: Mapping[str, Any], weights: Weights) -> None:
    """Refuse a configuration of more parts, or of larger ones, than the files of weights can hold.

    Raises:
        InputError: the message names the field and both figures.
    """
    for key, value in _fields(stored):
        values = value if isinstance(value, list) else [value]
        numbers = [number for number in values if isinstance(number, int | float) and not isinstance(number, bool)]
        is_count, is_size = _COUNTS.search(key), _SIZES.search(key)
        if not (is_count or is_size):
            continue
        most = max(weights.num_tensors, MOST_PARTS) if is_count else max(weights.num_elements, LARGEST)
        if key == "num_labels":
            most = min(max(weights.num_elements, MANY_LABELS), _MOST_LABELS)
        for number in numbers:
            if not number <= most:
                description = (
                    f"{weights.num_tensors:,} tensors of {weights.num_elements:,} numbers"
                    if weights.files
                    else "not there"
                )
                raise InputError(
                    f"its {CONFIG} has {shown(number)} for {key}, and its weights are {description}; up to "
                    f"{most:,} are built"
                )
            if is_count and number < 0:
                raise InputError(f"its {CONFIG} has {shown(number)} for {key}; 0 and more are allowed")


def shown(value: Any) -> str:
    """A value of JSON in a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # it is nested too deeply, or has thousands of digits
        return "a value that is too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(index: Path, folder: Path) -> list[str]:
    """The files that a list of weights names, sorted.

    Raises:
        InputError: the list cannot be read, or names a file elsewhere or of another kind.
    """
    weight_map = read_json(index, folder, index.name).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(
            f"its {index.name} has {shown(weight_map)} for weight_map; files by name of weight are allowed"
        )
    kind = SAFE if f"{SAFE}." in index.name else PICKLED
    for name in weight_map.values():
        _check_name(name, f"its {index.name}", (kind,))
    return sorted(set(weight_map.values()))


def _check_name(name: Any, what: str, kinds: Sequence[str]) -> None:
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(tuple(kinds)) or "\0" in name:
        raise InputError(f"{what} names {shown(name)}; weights are {' or '.join(kinds)} files in the folder itself")


def _fields(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The keys and values of an object and of all objects within it; those of a list have the list's key."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting.extend((str(name), item) for name, item in value.items())
        elif isinstance(value, list):
            waiting.extend((key, item) for item in value if isinstance(item, dict | list))
