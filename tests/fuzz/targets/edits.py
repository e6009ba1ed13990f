"""The edits of models: fold, extract, split, the picture, and the differences of a model from another one."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path

from bench.features.graph.diff import diff_view
from bench.onnxfile import requests
from fuzz import models, mutations
from fuzz.watch import PAGE, BrokenRule, check_printed, each
from fuzz.workplace import model_file

INSTRUMENTED = ("bench.onnxfile.edits", "bench.onnxfile.diff", "bench.onnxfile.picture", "bench.onnxfile.shapes")
GIVEN = {"shapes": {}, "dims": {}, "observe": False, "inputs": None}
DRAWN = {"svg", "style", "title", "desc", "defs", "marker", "g", "rect", "path", "text", "tspan", "line", "polygon"}
"""Elements of a picture: none of them is a script, or opens anything."""
seeds, changed, smaller = models.seeds, mutations.of_model, mutations.smaller_models


def check(content: bytes) -> None:
    with model_file(content) as path:
        first, target = next(seeds()), str(path.with_name("target.onnx"))
        (path.with_name("other.onnx")).write_bytes(first)
        sizes = {"shapes": {}, "dims": {}, "free": []}
        each(
            lambda: requests.fold(path=str(path), target=target, **sizes),
            lambda: requests.extract(path=str(path), target=target, inputs=[], outputs=[]),
            lambda: requests.split(path=str(path), folder=str(path.parent), num_parts=2, **GIVEN),
            lambda: _picture(path),
            lambda: _diff(path, path),
            lambda: _diff(path, path.with_name("other.onnx")),
            lambda: requests.common_tensors(path=str(path), other=str(path)),
        )


def _picture(path: Path) -> None:
    svg = requests.picture(path=str(path), **GIVEN)["svg"]
    check_printed(svg)
    try:
        drawn = xml.etree.ElementTree.fromstring(svg)
    except xml.etree.ElementTree.ParseError as error:
        raise BrokenRule(PAGE, f"the picture is no XML: {error}") from error
    for element in drawn.iter():
        kind = element.tag.rpartition("}")[2]
        if kind not in DRAWN or any(name.lower().startswith("on") or "href" in name for name in element.attrib):
            raise BrokenRule(PAGE, f"the picture holds <{kind} {element.attrib}>")


def _diff(before: Path, after: Path) -> None:
    view = diff_view(before.name, after.name, requests.diff(path=str(before), other=str(after)))
    for text in (view.as_text(), view.as_csv(), view.as_json()):
        check_printed(text)
