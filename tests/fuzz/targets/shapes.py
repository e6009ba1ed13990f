"""The shape engine: shapes, costs, the plan of memory and the weights of a model, and how they are printed."""

from __future__ import annotations

from pathlib import Path

from bench.features.profile import render as report
from bench.onnxfile import requests
from bench.onnxfile.costs.profile import Profile
from bench.onnxfile.shapes.engine import ShapeEngine
from bench.report.views import View
from fuzz import models, mutations
from fuzz.watch import check_cells, check_printed, each
from fuzz.workplace import model_file

INSTRUMENTED = (
    "bench.onnxfile.shapes",
    "bench.onnxfile.costs",
    "bench.onnxfile.memory",
    "bench.onnxfile.weights",
    "bench.onnxfile.file",
    "bench.features.profile.render",
    "bench.report.views",
)
GIVEN = {"shapes": {}, "dims": {}, "observe": False, "inputs": None}
seeds, changed, smaller = models.seeds, mutations.of_model, mutations.smaller_models


def check(content: bytes) -> None:
    with model_file(content) as path:
        each(lambda: _profile(path), lambda: _memory(path), lambda: _weights(path), lambda: _engine(path))


def _profile(path: Path) -> None:
    found = Profile.from_dict(requests.profile(path=str(path), **GIVEN))
    _print(report.nodes(found, 20))
    _print(report.tensors(found))


def _memory(path: Path) -> None:
    _print(report.memory({**requests.memory(path=str(path), **GIVEN), "name": path.name}, 20))


def _weights(path: Path) -> None:
    _print(report.weights(path.name, requests.weights(path=str(path))["weights"]))


def _engine(path: Path) -> None:
    engine = ShapeEngine.of_file(path)
    engine.shapes(dict.fromkeys(engine.dims, 3))


def _print(view: View) -> None:
    for text in (view.as_text(), view.as_csv(), view.as_json()):
        check_printed(text)
    check_cells(view.as_csv())
