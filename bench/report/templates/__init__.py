"""Templates of texts, and how one is filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parent


def fill(
    name: str,
    /,
    *,
    folder: Path = FOLDER,
    is_html: bool = False,
    filters: Mapping[str, Callable[..., str]] | None = None,
    **values: object,
) -> str:
    """The text of a template with its values filled in.

    Args:
        name: of the file.
        folder: where the file is.
        is_html: whether texts among the values are escaped for HTML.
        filters: more filters of the template, by name.
        **values: by the names that the template has for them; every name must have one.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(filters or {})
    return environment.get_template(name).render(values)
