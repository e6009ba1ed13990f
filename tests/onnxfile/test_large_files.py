"""Models of more than 2 GiB, with their weights in several files: what needs no weights loads none of them.

The files are sparse: a few bytes of each weight are stored, so that two weights differ.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ChildError, InputError
from bench.measure.process import ask_once
from bench.onnxfile import requests
from bench.onnxfile.edits import parts
from bench.onnxfile.file import digest, foreign, lazy

WIDTH, LAYERS, FILES = 8192, 9, 3  # 256 MiB a layer
LAYER_BYTES = 4 * WIDTH * WIDTH
MEMORY_BYTES = 200 << 20
"""Less than one of the weights has."""
GIVEN: dict[str, Any] = {"shapes": {}, "dims": {"n": 1}, "observe": False, "inputs": None}


def placed(name: str, location: str, offset: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    """A float32 tensor whose data lie in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    length = 4 * int(np.prod(shape))
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def model_of(weights: list[onnx.TensorProto], width: int) -> onnx.ModelProto:
    """Products with one weight after the other, with a Relu behind each."""
    nodes = []
    for at, weight in enumerate(weights):
        nodes.append(helper.make_node("MatMul", [f"r{at - 1}" if at else "x", weight.name], [f"h{at}"], name=f"p{at}"))
        nodes.append(helper.make_node("Relu", [f"h{at}"], [f"r{at}"], name=f"a{at}"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in ("x", f"r{at}")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 2.25 GiB whose weights lie in three files."""
    folder = tmp_path_factory.mktemp("large")
    generator = np.random.default_rng(0)
    weights = []
    for at in range(LAYERS):
        location, offset = f"weights_{at % FILES}.bin", at // FILES * LAYER_BYTES
        with (folder / location).open("ab") as file:
            file.truncate(offset + LAYER_BYTES)
        with (folder / location).open("r+b") as file:
            file.seek(offset + LAYER_BYTES // 2)
            file.write(generator.bytes(256))
        weights.append(placed(f"w{at}", location, offset, (WIDTH, WIDTH)))
    onnx.save(model_of(weights, WIDTH), folder / "large.onnx")
    assert sum(file.stat().st_size for file in folder.iterdir()) > 2**31
    assert 0 < sum(map(data_bytes, folder.iterdir())) < 2**20, "they hold holes"
    return folder / "large.onnx"


def data_bytes(path: Path) -> int:
    """Bytes of a sparse file that lie outside its holes: unlike `st_blocks`, without the file system's own blocks."""
    total = end = 0
    with path.open("rb") as file:
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # no data behind the last hole
                return total
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            total += end - start


def ask(request: Callable[..., dict[str, Any]], path: Path, **arguments: Any) -> dict[str, Any]:
    return ask_once(request, timeout_s=120, memory_bytes=MEMORY_BYTES, path=str(path), **arguments)


def test_profile_loads_no_weight(large: Path) -> None:
    found = ask(requests.profile, large, **GIVEN)
    assert found["weight_bytes"] == LAYERS * LAYER_BYTES > 2**31
    assert (found["num_params"], found["num_unique_params"]) == (LAYERS * WIDTH**2, LAYERS * WIDTH**2)
    assert sum(node["macs"] for node in found["nodes"]) == LAYERS * WIDTH**2
    plan = ask(requests.memory, large, **GIVEN)
    assert plan["lower_bound_bytes"] == 2 * 4 * WIDTH


def test_graph_is_printed_and_drawn(large: Path) -> None:
    assert "weights_2.bin" in ask(requests.text, large)["text"]
    assert ask(requests.picture, large, **GIVEN)["svg"].startswith("<svg")


def test_part_without_weights_is_cut_out(large: Path, tmp_path: Path) -> None:
    found = ask(requests.extract, large, target=str(tmp_path / "part.onnx"), inputs=["h0"], outputs=["r0"])
    assert found["num_nodes"] == 1
    assert (tmp_path / "part.onnx").stat().st_size < 1000


def test_folded_model_keeps_its_weights_in_a_file_of_their_own(large: Path, tmp_path: Path) -> None:
    target = tmp_path / "folded.onnx"
    ask(requests.fold, large, target=str(target), shapes={}, dims={"n": 2}, free=[])
    data = tmp_path / "folded.onnx.data"
    assert data.stat().st_size == LAYERS * LAYER_BYTES
    assert 0 < data_bytes(data) <= LAYERS * parts.PIECE_BYTES, "holes stay holes"
    before, after = lazy.read(large), lazy.read(target)
    for old, new in zip(before.model.graph.initializer, after.model.graph.initializer, strict=True):
        middle = slice(LAYER_BYTES // 2 - 9, LAYER_BYTES // 2 + 300)
        assert bytes(before.data(old)[middle]) == bytes(after.data(new)[middle])
        assert len(after.data(new)) == LAYER_BYTES


def test_model_that_no_single_file_holds_is_not_measured(large: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has 2\.3 GiB; a model is measured as one ONNX file, which holds 2 GiB"):
        foreign.write(large, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_weights_elsewhere_are_refused(large: Path) -> None:
    path = large.with_name("outside.onnx")
    path.write_bytes(large.read_bytes().replace(b"weights_1.bin", b"../eights.bin"))
    for request in (requests.profile, requests.split):
        more = {} if request is requests.profile else {"folder": str(large.parent / "parts"), "num_parts": 2}
        with pytest.raises(ChildError, match="lie outside its folder, where nothing is read"):
            ask(request, path, **GIVEN, **more)
    assert not (large.parent / "parts").exists()


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A small model whose weights lie in two files, of which two weights share their data."""
    weights = []
    for at, (name, place) in enumerate((("one.bin", 0), ("two.bin", 0), ("one.bin", 4096), ("one.bin", 0))):
        weights.append(placed(f"w{at}", name, place, (32, 32)))
    for seed, name in enumerate(("one.bin", "two.bin")):
        (tmp_path / name).write_bytes(np.random.default_rng(seed).standard_normal(2048, np.float32).tobytes())
    onnx.save(model_of(weights, 32), tmp_path / "apart.onnx")
    return tmp_path / "apart.onnx"


def test_weights_are_copied_once_and_stay_the_same(apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LARGEST_BYTES", 1000)
    target = apart.with_name("copy.onnx")
    stored = lazy.read(apart)
    parts.save(stored.model, stored, target)
    assert target.with_name("copy.onnx.data").stat().st_size == 3 * 4096
    for old, new in zip(onnx.load(apart).graph.initializer, onnx.load(target).graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(old), numpy_helper.to_array(new))
    again = lazy.read(target)
    with pytest.raises(InputError, match="holds weights of the model that it is made of"):
        parts._save_with_data(again.model, again, target)


def test_model_that_is_not_valid_leaves_no_files(apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LARGEST_BYTES", 1000)
    stored = lazy.read(apart)
    stored.model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(InputError, match=r"it would be no valid model: .*NoSuchOperator"):
        parts.save(stored.model, stored, apart.with_name("copy.onnx"))
    assert sorted(path.name for path in apart.parent.iterdir()) == ["apart.onnx", "one.bin", "two.bin"]


def test_model_that_is_not_valid_leaves_files_of_the_same_names(apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LARGEST_BYTES", 1000)
    stored = lazy.read(apart)
    stored.model.graph.node[0].op_type = "NoSuchOperator"
    for name in ("copy.onnx", "copy.onnx.data"):
        apart.with_name(name).write_text("the user's")
    with pytest.raises(InputError, match="it would be no valid model"):
        parts.save(stored.model, stored, apart.with_name("copy.onnx"))
    assert [apart.with_name(name).read_text() for name in ("copy.onnx", "copy.onnx.data")] == ["the user's"] * 2


def test_digest_has_one_weight_in_memory_at_a_time(tmp_path: Path) -> None:
    size, count = 1 << 20, 16
    generator = np.random.default_rng(0)
    weights = [placed(f"w{at}", "w.bin", 4 * size * at, (1024, 1024)) for at in range(count)]
    (tmp_path / "w.bin").write_bytes(generator.standard_normal(count * size, np.float32).tobytes())
    onnx.save(model_of(weights, 1024), tmp_path / "apart.onnx")
    onnx.save(onnx.load(tmp_path / "apart.onnx"), tmp_path / "whole.onnx")
    tracemalloc.start()
    found = digest.canonical_digest(tmp_path / "apart.onnx")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5 * 4 * size, "of 16 weights of 4 MiB"
    assert digest.canonical_digest(tmp_path / "whole.onnx") == found
