"""The table of docs/quickstart.md that names all plugins, made from the plugins themselves.

    python docs/site/matrix.py

A row names the plugins of a kind that take one framework or one format; a plugin that takes several is in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bench.api import Exporter, Plugin, Runtime, Variant, loading
from bench.plugins import catalog

PAGE = Path(__file__).resolve().parents[1] / "quickstart.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
FRAMEWORKS = {
    "torch": "PyTorch",
    "tf": "Keras",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
}
APART = "\\*"
"""Marks a plugin that runs in an environment of its own."""


def exporters() -> Iterator[tuple[str, str, str]]:
    """For each exporter and framework: what it takes, its name, and the format that it writes."""
    for name in loading.find("exporters"):
        exporter = catalog.exporter(name)
        assert isinstance(exporter, Exporter)
        for source in exporter.sources or ("",):
            taken = FRAMEWORKS.get(source, source) if source else "any framework"
            written = f" ({exporter.writes})" if exporter.sources else " (its own format)"
            yield f"exporters from {taken}", name, f"{_named(exporter)}{written}"


def variants() -> Iterator[tuple[str, str, str]]:
    """For each kind of variant and format the same, with the number of its options."""
    for name in loading.find("variants"):
        variant = catalog.variant_file(name)
        assert isinstance(variant, Variant)
        number = f" ({len(variant.options)} options)" if len(variant.options) > 1 else ""
        for file_format in variant.formats:
            yield f"variants of `{file_format}` files", name, f"{_named(variant)}{number}"


def runtimes() -> Iterator[tuple[str, str, str]]:
    """For each runtime and format the same, with its title."""
    for name in loading.find("runtimes"):
        runtime = catalog.runtime(name)
        assert isinstance(runtime, Runtime)
        for file_format in runtime.formats:
            taken = "any format" if file_format == "*" else f"`{file_format}` files"
            title = f" ({runtime.title})" if runtime.title else ""
            yield f"runtimes of {taken}", name, f"{_named(runtime)}{title}"


def _named(plugin: Plugin) -> str:
    return f"`{plugin.name}`{APART * bool(plugin.isolated)}"


def table() -> str:
    """The table as Markdown."""
    kinds: tuple[Callable[[], Iterator[tuple[str, str, str]]], ...] = (exporters, variants, runtimes)
    rows: dict[str, list[str]] = {}
    for kind in kinds:
        for title, _, text in sorted(kind()):
            rows.setdefault(title, []).append(text)
    lines = [
        "| kind | plugins |",
        "| :-- | :-- |",
        *(f"| {title} | {', '.join(texts)} |" for title, texts in rows.items()),
    ]
    return "\n".join([*lines, "", f"{APART}: in an environment of its own, which `bench install --yes` makes."]) + "\n"


def main() -> None:
    """Put the table between the two marks of the page."""
    head, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} must hold the lines {BEGIN.strip()} and {END.strip()}, once each and in this order")
    PAGE.write_text(f"{head}{BEGIN}{table()}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
