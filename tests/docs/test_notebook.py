"""The notebook: its code runs from the first cell to the last, and what it says is what the published results say."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bench.api.loading import load_module
from bench.api.loss_units import AllowedLoss
from bench.decisions.best import best
from bench.records import folder, ranking
from bench.records.rows import Row
from support import deferred

deferred.importorskip("pandas")
pytestmark = pytest.mark.slow(seconds=10)

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
NOTEBOOK = NOTEBOOKS / "results.ipynb"
KEPT: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def ran() -> tuple[dict[str, Any], dict[str, Any]]:
    """The notebook after a run of its code, and the names that its code defined."""
    found: tuple[dict[str, Any], dict[str, Any]] = load_module(NOTEBOOKS / "execute.py").executed(NOTEBOOK)
    return found


def without_pictures(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each cell, with the sizes of pictures in their place: another renderer draws other pixels."""
    cells = json.loads(json.dumps(notebook))["cells"]
    outputs = [cell.get("outputs", []) for cell in cells]
    for data in (one["data"] for one in itertools.chain.from_iterable(outputs) if "data" in one):
        if "image/png" in data:
            data["image/png"] = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).size
    return outputs


def test_outputs_that_are_kept_are_those_of_its_code(ran: tuple[dict[str, Any], dict[str, Any]]) -> None:
    notebook, _ = ran
    assert without_pictures(notebook) == without_pictures(KEPT)
    assert [cell["source"] for cell in notebook["cells"]] == [cell["source"] for cell in KEPT["cells"]]


def test_winners_are_those_of_bench(ran: tuple[dict[str, Any], dict[str, Any]]) -> None:
    _, names = ran
    stored = folder.read(ROOT / "results" / "reference")
    assert len(names["rows"]) == len(stored.rows)
    ranked = [row for row in stored.rows if row.threads == 1 and ranking.is_ranked(row) and "~" not in row.task]
    assert sorted(names["timed"]["cell"]) == sorted(row.cell for row in ranked)
    expected = best(stored.measurements, stored.chosen(None), max_metric_loss=AllowedLoss())
    assert dict(names["best"]["cell"]) == {one.row.task: one.row.cell for one in expected}
    assert dict(names["shipped"]["runtime"]) == {one.row.task: one.row.runtime for one in expected}
    assert len(expected) == 6
    fastest: dict[str, Row] = {}
    for row in sorted(ranked, key=lambda row: row.ratio or math.inf, reverse=True):
        if row.fidelity in ("exact", "close"):
            fastest[row.task] = row
    assert dict(names["answer"]["cell"]) == {task: row.cell for task, row in fastest.items()}


def test_figures_have_every_runtime_and_every_deployment(ran: tuple[dict[str, Any], dict[str, Any]]) -> None:
    _, names = ran
    same, timed = names["same"], names["timed"]
    pairs = {(row.task, row.runtime) for row in same.itertuples()}
    drawn = {
        (axis.get_title().partition(",")[0], label.get_text())
        for axis in names["panels"]
        for label in axis.get_yticklabels()
    }
    assert drawn == pairs
    points = [len(points.get_offsets()) for axis in names["axes"].flat for points in axis.collections]
    assert sum(points) == len(timed)


def test_kept_outputs_are_small_and_name_no_place_and_no_time() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    pictures = re.findall(r'"image/png": "([^"]*)"', text)
    assert len(pictures) == 2
    outputs = [cell["outputs"] for cell in KEPT["cells"] if cell["cell_type"] == "code"]
    assert len(json.dumps(outputs)) < MOST_BYTES
    for picture in pictures:
        text = text.replace(picture, "")
    assert re.findall(r"/(?:tmp|home|root|work|Users|var)\b|0x[0-9a-f]{6,}", text) == []
    assert {key for cell in KEPT["cells"] for key in cell["metadata"]} == set()
    assert set(KEPT["metadata"]) == {"kernelspec", "language_info"}


def test_it_is_a_notebook_of_the_format() -> None:
    """Source: https://github.com/jupyter/nbformat/blob/main/nbformat/v4/nbformat.v4.5.schema.json."""
    assert (KEPT["nbformat"], KEPT["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in KEPT["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    assert [name for name in identifiers if not re.fullmatch(r"[\w-]{1,64}", name)] == []
    numbers = [cell["execution_count"] for cell in KEPT["cells"] if cell["cell_type"] == "code"]
    assert numbers == list(range(1, len(numbers) + 1))
    keys = {cell["cell_type"]: set(cell) for cell in KEPT["cells"]}
    assert keys["markdown"] == {"cell_type", "id", "metadata", "source"}
    assert keys["code"] == {"cell_type", "id", "metadata", "source", "execution_count", "outputs"}


LINK = re.compile(r"\]\(([^)\s#]+)")


def test_links_of_its_prose_lead_somewhere() -> None:
    prose = ["".join(cell["source"]) for cell in KEPT["cells"] if cell["cell_type"] == "markdown"]
    targets = [target for text in prose for target in LINK.findall(text)]
    assert len(targets) >= 2
    assert [target for target in targets if not (NOTEBOOKS / target).exists()] == []


def test_code_that_warns_or_fails_is_no_notebook(tmp_path: Path) -> None:
    executed = load_module(NOTEBOOKS / "execute.py").executed
    for code, error in {
        "import warnings\nwarnings.warn('lines are damaged')": UserWarning,
        "1 / 0": ZeroDivisionError,
    }.items():
        cells = [{"cell_type": "code", "source": [code]}]
        (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
        with pytest.raises(error):
            executed(tmp_path / "n.ipynb")


def test_outputs_of_a_cell(tmp_path: Path) -> None:
    executed = load_module(NOTEBOOKS / "execute.py").executed
    sources = ["import os\nx = 2\nprint('at', os.path.basename(os.getcwd()))\nx + 1", "x = x * 2", "x"]
    cells = [{"cell_type": "code", "source": [source]} for source in sources]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    notebook, names = executed(tmp_path / "n.ipynb")
    assert names["x"] == 4
    first, second, third = (cell["outputs"] for cell in notebook["cells"])
    assert first == [
        {"output_type": "stream", "name": "stdout", "text": [f"at {tmp_path.name}\n"]},
        {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": ["3"]}, "metadata": {}},
    ]
    assert second == []
    assert third[0]["data"] == {"text/plain": ["4"]}
