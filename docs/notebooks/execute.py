"""Runs the code of a notebook, its first cell first, and keeps the outputs in the notebook's file.

    python docs/notebooks/execute.py docs/notebooks/results.ipynb

What a cell prints, the value of its last expression and the figures that it draws are its outputs, as in Jupyter, which
is not needed. The same results and packages give the same file: it has no times and no paths.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from PIL import Image

Notebook = dict[str, Any]
DPI, COLOURS = 64, 48


def executed(path: Path) -> tuple[Notebook, dict[str, Any]]:
    """Run a notebook in its own folder.

    Args:
        path: the notebook, of version 4.5 of the format.

    Returns:
        The notebook with the outputs of this run, and the names that its code defined.

    Raises:
        Exception: whatever the code raised. A warning for users, as of results that cannot be read, is an error.

    Source: https://nbformat.readthedocs.io/en/latest/format_description.html
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    matplotlib.use("Agg")
    with _in(path.parent), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for number, cell in enumerate(code, start=1):
            cell["outputs"] = _outputs("".join(cell["source"]), number, names)
            cell["execution_count"] = number
    return notebook, names


@contextlib.contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Work in a folder, with the commands of this environment before others."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{before}"
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ["PATH"] = before


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[Notebook]:
    """Run one cell; returns what it printed, the value of its last expression, and its figures, which are closed."""
    tree, value = ast.parse(source), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, name = io.StringIO(), f"<cell {number}>"
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    outputs: list[Notebook] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(text)})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append({"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}})
    for figure in map(plt.figure, plt.get_fignums()):
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
        plt.close(figure)
        small = io.BytesIO()
        with Image.open(file) as drawn:  # few colours are drawn, and a palette of them is a third of the bytes
            drawn.convert("RGB").quantize(COLOURS).save(small, "PNG", optimize=True)
        picture: Notebook = {"image/png": base64.b64encode(small.getvalue()).decode(), "text/plain": [repr(figure)]}
        outputs.append({"output_type": "display_data", "data": picture, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Run the notebooks that the command line names, and write them with their outputs."""
    for path in map(Path, sys.argv[1:]):
        notebook, _ = executed(path)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
