"""Options of ONNX Runtime's sessions that are documented and leave a model right; none of them is on by default.

Source: `onnxruntime_session_options_config_keys.h` and the `SessionOptions` of ONNX Runtime 1.31.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from bench.onnxfile.deferred import onnxruntime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """A change of the defaults of a session.

    Attributes:
        effect: what it does.
        entries: session configuration entries, by key.
        attributes: attributes of the `SessionOptions`, by name; a text names a `GraphOptimizationLevel`.
    """

    effect: str
    entries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, str | bool] = dataclasses.field(default_factory=dict)


OPTIONS = {
    "flush_denormals": Option(
        effect="numbers below the smallest normal one count as zero", entries={"session.set_denormal_as_zero": "1"}
    ),
    "gelu_approximation": Option(
        effect="GELU by its approximation with tanh", entries={"optimization.enable_gelu_approximation": "1"}
    ),
    "no_arena": Option(effect="memory is given back, not kept for later", attributes={"enable_cpu_mem_arena": False}),
    "no_layouts": Option(
        effect="no blocks of channels: tensors keep the layout that the model gives them",
        attributes={"graph_optimization_level": "ORT_ENABLE_EXTENDED"},
    ),
    "no_prepacking": Option(
        effect="no second copy of the weights in the order of the kernels", entries={"session.disable_prepacking": "1"}
    ),
}


def apply(names: Iterable[str], options: Any) -> None:
    """Set some of `OPTIONS` in a `SessionOptions`."""
    for option in (OPTIONS[name] for name in names):
        for key, text in option.entries.items():
            options.add_session_config_entry(key, text)
        for attribute, value in option.attributes.items():
            levels = onnxruntime.GraphOptimizationLevel
            setattr(options, attribute, getattr(levels, value) if isinstance(value, str) else value)


def code(names: Iterable[str]) -> str:
    """The statements that do what `apply` does, in a function of a file that imports `onnxruntime`."""
    lines = []
    for option in (OPTIONS[name] for name in names):
        lines += [f'options.add_session_config_entry("{key}", "{text}")' for key, text in option.entries.items()]
        for attribute, value in option.attributes.items():
            level = f"onnxruntime.GraphOptimizationLevel.{value}"
            lines.append(f"options.{attribute} = {level if isinstance(value, str) else value}")
    return "".join(f"    {line}\n" for line in lines)
