"""A model as a picture and as text."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import pytest
from onnx import helper

from bench.onnxfile.costs.profile import profile
from bench.onnxfile.file.lazy import read
from bench.onnxfile.file.text import model_text
from bench.onnxfile.picture.svg import draw
from support.resnet_graph import resnet18
from support.shape_inference import graph_model

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "resnet18.onnx"
    onnx.save(resnet18(), path)
    return path


def test_text_can_be_read_back(path: Path) -> None:
    text = model_text(read(path))
    model = onnx.parser.parse_model(text)

    assert [node.op_type for node in model.graph.node] == [node.op_type for node in onnx.load(path).graph.node]
    assert {tensor.name for tensor in model.graph.initializer} == {
        one.name for one in onnx.load(path).graph.initializer
    }
    assert len(text) < 200_000  # large weights are not written out


def test_text_steers_no_terminal(tmp_path: Path) -> None:
    model = resnet18()
    model.producer_name = "evil\x1b[2J\x07name"
    onnx.save(model, tmp_path / "model.onnx")
    text = model_text(read(tmp_path / "model.onnx"))

    assert "\x1b" not in text
    assert "evil\\x1b[2J\\x07name" in text


SVG = "{http://www.w3.org/2000/svg}"


def boxes_of(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the boxes of nodes, inputs and outputs."""
    found = []
    for group in root.find(f"{SVG}g") or []:
        rect = group.find(f"{SVG}rect")
        if rect is not None:
            x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def test_a_picture_of_resnet18_is_readable(path: Path) -> None:
    """Boxes do not overlap, what is written in them fits, lines run downwards and leave no box out."""
    model = onnx.load(path)
    root = ET.fromstring(draw(read(path), profile(path, dims={"N": 1})))
    boxes = boxes_of(root)
    width = float(root.attrib["width"])

    assert len(boxes) == len(model.graph.node) + 2
    assert width < 1200
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= width
        for other in boxes[index + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    for group in root.find(f"{SVG}g") or []:
        rect = group.find(f"{SVG}rect")
        for text in group.findall(f"{SVG}text"):
            assert rect is not None
            assert len(text.text or "") * float(text.attrib["font-size"]) * 0.6 <= float(rect.attrib["width"])
            assert float(text.attrib["font-size"]) >= 11
    arrows = [one.attrib["d"] for one in root.iter(f"{SVG}path") if one.attrib["fill"] != "none"]
    assert len(arrows) == sum(len(set(node.input) - {"image"} - weights(model)) for node in model.graph.node) + 2


def weights(model: onnx.ModelProto) -> set[str]:
    return {tensor.name for tensor in model.graph.initializer}


def test_a_picture_says_what_the_nodes_are(path: Path) -> None:
    found = draw(read(path), profile(path, dims={"N": 1}))
    words = [text.text for text in ET.fromstring(found).iter(f"{SVG}text")]

    assert {"resnet18.onnx", "Conv", "Gemm", "input", "output", "layer2.0.shortcut"} <= set(words)
    assert "weight float32[4, 3, 7, 7]" in words
    assert "strides [2, 2]" in words
    assert "\u2192 [1, 10]" in words
    assert f"{4 * 3 * 49 * 16 * 16 / 1e3:.3g} k MACs" in words


def test_names_are_no_markup(tmp_path: Path) -> None:
    model = resnet18()
    model.graph.node[0].name = "<script>alert(1)</script>&\x07"
    onnx.save(model, tmp_path / "model.onnx")
    root = ET.fromstring(draw(read(tmp_path / "model.onnx")))

    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (text.text or "") for text in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("name", ["squeezenet", "inception_v2"])
def test_published_models_can_be_drawn(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    boxes = boxes_of(ET.fromstring(draw(read(path))))

    assert len(boxes) == len(onnx.load(path).graph.node) + 2
    ordered = sorted(boxes, key=lambda box: box[1])
    for index, (left, _, right, bottom) in enumerate(ordered):
        for other in ordered[index + 1 :]:
            assert other[1] >= bottom or right <= other[0] or other[2] <= left


def test_a_chain_whose_values_are_all_read_at_its_end_is_drawn_whole_in_linear_time(tmp_path: Path) -> None:
    number = 4000
    nodes = [helper.make_node("Relu", [f"t{at}" if at else "x"], [f"t{at + 1}"]) for at in range(number)]
    nodes.append(helper.make_node("Sum", [f"t{at + 1}" for at in range(number)], ["y"]))
    onnx.save(graph_model(nodes, {"x": [4]}, "y"), tmp_path / "m.onnx")
    begin = time.process_time()

    root = ET.fromstring(draw(read(tmp_path / "m.onnx")))

    assert time.process_time() - begin < 15, "a place for each line on each layer would be 8 million places"
    assert len(boxes_of(root)) == number + 3
    ends = [path for path in root.iter(f"{SVG}path") if path.get("fill") == "#555555"]
    assert len(ends) == 2 * number + 1, "every line is drawn"
    straight = [path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray")]
    assert 0.9 * number < len(straight) < number, "long lines are straight, and short ones go around the boxes"
