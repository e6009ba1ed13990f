"""Templates of texts, and how one is filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

REPORT = Path(__file__).parents[1]


def fill(path: str, /, *, filters: Mapping[str, Callable[..., str]] | None = None, **values: object) -> str:
    """The text of a template with its values filled in.

    Args:
        path: path of the template under `bench/report`; in a `.html.j2` the texts among the values are escaped.
        filters: more filters of the template, by name.
        **values: values by the names that the template has for them; every name must have a value.
    """
    import jinja2

    is_html = path.endswith(".html.j2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(filters or {})
    return environment.get_template(path).render(values)
