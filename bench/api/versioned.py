"""Names of plugins that run in another environment than this process: `onnxruntime@1.22.0`.

Such a name is the plugin's own name and a label, which says what is other there: a version, or an interpreter.
"""

from __future__ import annotations

import re

MARK = "@"
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def name_of(plugin: str, label: str) -> str:
    """The name of a plugin with a label."""
    return f"{plugin}{MARK}{label}"


def plugin_of(name: str) -> str:
    """The plugin's own name, without the label."""
    return name.partition(MARK)[0]


def label_of(name: str) -> str:
    """The label of a name; empty for a plugin of this process's environment."""
    return name.partition(MARK)[2]


def is_name(name: str, plugin: re.Pattern[str]) -> bool:
    """Whether a text is a plugin's name, as a pattern has it, with or without a label."""
    own, mark, label = name.partition(MARK)
    return plugin.fullmatch(own) is not None and (not mark or LABEL.fullmatch(label) is not None)


def spelled(label: str) -> str:
    """A text as a label: other characters than a label has, such as the `+` of a local version, become `-`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", label)
