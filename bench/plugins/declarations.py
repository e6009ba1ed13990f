"""What a plugin declares, checked when its file is loaded: names that are nearly those of the interface, and types."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.api import Exporter, Plugin, Task
from bench.api.containment import reported
from bench.api.errors import PluginError
from bench.api.loss_units import DB, SHARE
from bench.api.tensors import TensorSpec

_NEAR = 0.85
"""How alike a name of a plugin's own and one of the interface are that were meant to be the same, see `difflib`."""
_NEAR_MISSING = 0.6
"""The same where the interface's name is missing, and must not be."""


def _are(kind: type, values: Iterable[object]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_str_map(value: object) -> bool:
    return isinstance(value, Mapping) and _are(str, [*value, *value.values()])


FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "bool | None": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "dict[str, str]": (
        lambda value: isinstance(value, dict) and _is_str_map(value),
        'a dict of strings by string, such as {"OMP_NUM_THREADS": "1"}',
    ),
    "float": (lambda value: isinstance(value, float | int) and not isinstance(value, bool), "a number"),
    "Mapping[str, str]": (_is_str_map, 'a dict of strings by string, such as {"fast": "what the option does"}'),
    "str": (lambda value: isinstance(value, str), "a string"),
    "str | None": (lambda value: value is None or isinstance(value, str), "a string or None"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, tuple) and _are(str, value),
        'a tuple of strings, such as ("onnx",)',
    ),
    "tuple[TensorSpec, ...]": (
        lambda value: isinstance(value, tuple) and _are(TensorSpec, value),
        "a tuple of bench.api.TensorSpec, such as (TensorSpec(...),)",
    ),
    "Unit": (lambda value: value in (SHARE, DB), f"{SHARE!r} or {DB!r}"),
}
"""By the annotation of an attribute or an answer: whether a value is of that type, and the form to give it."""


def check(path: Path, plugin: type[Plugin], base: type[Plugin]) -> None:
    """Ensure that a plugin's class defines what its interface asks for, in the right form.

    Args:
        path: the file.
        plugin: the class.
        base: its interface: `Exporter`, `Runtime`, `Task` or `Variant`.

    Raises:
        PluginError: a method or an attribute is missing, has a name that is nearly right, or has another type.
    """
    attributes = _attributes(base)
    own = [name for name in vars(plugin) if not name.startswith("_") and _is_new(plugin, name)]
    if missing := [*sorted(getattr(plugin, "__abstractmethods__", ())), *_undefined(plugin, base, attributes)]:
        said = [f"{plugin.__name__} does not define {', '.join(missing)}"]
        for name in missing:
            if matches := difflib.get_close_matches(name, own, n=1, cutoff=_NEAR_MISSING):
                said.append(f"did you mean {'it' if len(missing) == 1 else name} by {matches[0]}?")
        raise PluginError(f"{path}: {'; '.join(said)}")
    free = {name for name in (*dir(base), *attributes) if not name.startswith("_")} - set(vars(plugin))
    for name in own:
        alike = [candidate for candidate in free if _is_method(base, candidate) == _is_method(plugin, name)]
        if matches := difflib.get_close_matches(name, alike, n=1, cutoff=_NEAR):
            raise PluginError(
                f"{path}: {plugin.__name__} defines {name}, which nothing calls; did you mean {matches[0]}? "
                f"(a helper of its own may be named _{name})"
            )
    for name, annotation in attributes.items():
        value = inspect.getattr_static(plugin, name, None)
        if annotation in FORMS and hasattr(plugin, name) and not isinstance(value, property):
            is_right, form = FORMS[annotation]
            if not is_right(value):
                raise PluginError(f"{path}: {name} of {plugin.__name__} is {value!r}; give {form}")


def _attributes(base: type[Plugin]) -> dict[str, str]:
    """The class attributes of an interface, and the type of each as it is annotated."""
    attributes: dict[str, str] = {}
    for item in base.__mro__:
        for name, annotation in vars(item).get("__annotations__", {}).items():
            if annotation.startswith("ClassVar["):
                attributes.setdefault(name, annotation.removeprefix("ClassVar[").removesuffix("]"))
    return attributes


def _is_method(plugin: type[Plugin], name: str) -> bool:
    return inspect.isfunction(getattr(plugin, name, None))


def _is_new(plugin: type[Plugin], name: str) -> bool:
    """Whether a name is the class's own rather than one that it overrides."""
    return not any(name in vars(item) or name in vars(item).get("__annotations__", {}) for item in plugin.__mro__[1:])


def _undefined(plugin: type[Plugin], base: type[Plugin], attributes: Iterable[str]) -> list[str]:
    """The attributes that have no default and are not defined; a task's are checked where tasks are adopted."""
    if base is Task:
        return []
    derived_names = {"writes"} if issubclass(plugin, Exporter) and plugin.format is not Exporter.format else set()
    return [name for name in attributes if not hasattr(plugin, name) and name not in derived_names]


def ask(plugin: Plugin, method: str, *arguments: object) -> Any:
    """What a method of a plugin answers, called in this process.

    Raises:
        PluginError: the method raised something, or its answer has another type than its interface says.
    """
    with reported(plugin.path, f"{method}()"):
        answer = getattr(plugin, method)(*arguments)
    interface = Task if isinstance(plugin, Task) else type(plugin)  # a view counts as a task and is not derived from it
    owner = next(item for item in interface.__mro__[::-1] if method in vars(item))
    is_right, form = FORMS[vars(owner)[method].__annotations__["return"]]
    if not is_right(answer):
        raise PluginError(f"{plugin.path}: {method}() returned {answer!r}; give {form}")
    return answer
