"""The text of `bench list`, drawn with plain strings: nobody should wait for a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.api import loading
from bench.api.printable import printable
from bench.decisions.listing import Listed


def render(kinds: Mapping[str, Sequence[Listed]]) -> str:
    """A block for each kind of plugin: a line with what each plugin is made for, or why it cannot be used."""
    return "\n".join(_block(kind, plugins) for kind, plugins in kinds.items())


def _block(kind: str, plugins: Sequence[Listed]) -> str:
    width = max((len(plugin.name) for plugin in plugins), default=0)
    states = [_state(plugin) for plugin in plugins]
    lines = [printable(f"  {plugin.name:{width}}  {state}") for plugin, state in zip(plugins, states, strict=True)]
    return "\n".join([kind, *(lines or ["  none"])]) + "\n"


def _state(plugin: Listed) -> str:
    if plugin.reason is None:
        return "; in ".join(filter(None, [f"usable    {plugin.text}", plugin.environment]))
    return plugin.reason if plugin.reason == loading.IN_REPOSITORY else f"unusable: {plugin.reason}"
