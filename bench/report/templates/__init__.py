"""Templates of texts, and how one is filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from bench.api.printable import printable

_REPORT = Path(__file__).parents[1]
_FOLDERS = (_REPORT, _REPORT.parent)
"""Where templates are looked for: those of features are behind `features/`."""


class Block(str):
    """Lines that a report has made for people already: a template takes them as they are."""

    __slots__ = ()


def fill(path: str, /, *, filters: Mapping[str, Callable[..., str]] | None = None, **values: object) -> str:
    """The text of a template with its values filled in.

    Args:
        path: path of the template under one of `_FOLDERS`; in a `.html.j2` the texts among the values are escaped.
            Everywhere, control characters and line ends of values are escaped, unless the value is a `Block`.
        filters: more filters of the template, by name.
        **values: values by the names that the template has for them; every name must have a value.
    """
    import jinja2

    is_html = path.endswith(".html.j2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDERS),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters.update(filters or {})
    return environment.get_template(path).render(values)


def _shown(value: object) -> object:
    """A value as a template writes it; texts of HTML that the template itself marks as safe stay as they are."""
    return value if isinstance(value, Block) or hasattr(value, "__html__") else printable(str(value))
