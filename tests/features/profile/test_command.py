"""`bench profile`: the printed views, and the one-line message of each error."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.cli import main
from bench.features.profile import render as profile_table
from bench.onnxfile.costs.profile import profile


def make_model(nodes: list[onnx.NodeProto] | None = None) -> onnx.ModelProto:
    nodes = nodes or [
        helper.make_node("Conv", ["image", "w"], ["h"], name="convolution", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["y"], name="rectify"),
    ]
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3), np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path)
    return path


def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main.main()
    out, err = capsys.readouterr()
    code = end.value.code
    return code if isinstance(code, int) else 0, out, err


Run = Any


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: bench(capsys, monkeypatch, "profile", *arguments)


def test_table(run: Run, path: Path) -> None:
    code, out, err = run(path, "--shape", "image=2x3x10x20")

    assert (code, err) == (0, "")
    assert "model.onnx  image 2x3x10x20" in out
    assert "86.4 k, and 3.2 k other operations" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["Conv", "1", "86.4", "k", "100.0", "%", "216", "864", "B", "100.0", "%", "12.8", "kB", "42.1", "%"] in lines
    assert ["convolution", "Conv", "2x8x10x20", "86.4", "k", "100.0", "%", "216", "864", "B", "12.8", "kB"] in lines


def test_json_has_everything_in_raw_units(run: Run, path: Path) -> None:
    code, out, _ = run(path, "--dim", "N=2", "--dim", "height=10", "--dim", "width=20", "--format", "json")
    found = json.loads(out)

    assert code == 0
    assert found["macs"] == 2 * 8 * 200 * 27
    assert found["num_params"] == found["num_unique_params"] == 216
    assert found["inputs"] == {"image": [2, 3, 10, 20]}
    assert [node["op_type"] for node in found["nodes"]] == ["Conv", "Relu"]
    assert found["nodes"][0]["output_shapes"] == [[2, 8, 10, 20]]
    assert found["tensors"]["w"] == {
        "name": "w", "dtype": "float32", "shape": [8, 3, 3, 3], "bytes": 864, "observed": False, "is_weight": True
    }  # fmt: skip


def test_csv_has_a_row_for_each_node(run: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "nodes.csv"
    code, out, _ = run(path, "--format", "csv", "--output", target)
    with target.open() as file:
        rows = list(csv.DictReader(file))

    assert (code, out) == (0, "")
    assert [row["name"] for row in rows] == ["convolution", "rectify"]
    assert [row["macs"] for row in rows] == [str(8 * 224 * 224 * 27), "0"]
    shares = ("macs_share", "params_share", "weight_bytes_share", "activation_bytes_share")
    whole = 3 + 8 + 8  # channels of the image and of what both nodes make
    assert [float(rows[0][name]) for name in shares] == [1, 1, 1, pytest.approx(8 / whole)]
    assert rows[0]["output_shapes"] == "1x8x224x224"


def test_tensors_have_a_row_each(run: Run, path: Path) -> None:
    code, out, _ = run(path, "--by", "tensor", "--shape", "image=1x3x4x5", "--format", "csv")

    assert code == 0
    assert list(csv.DictReader(out.splitlines()))[-1] == {
        "name": "y", "dtype": "float32", "shape": "1x8x4x5", "bytes": "640", "observed": "False", "is_weight": "False"
    }  # fmt: skip
    assert {row.split(",")[0] for row in out.splitlines()} == {"name", "image", "w", "h", "y"}


def test_weights_show_their_zeros(run: Run, tmp_path: Path) -> None:
    model = make_model()
    array = numpy_helper.to_array(model.graph.initializer[0]).copy()
    array[::2] = 0  # whole filters
    array[1] = 3
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    onnx.save(model, tmp_path / "model.onnx")
    _, table, _ = run(tmp_path / "model.onnx", "--by", "weight")
    _, text, _ = run(tmp_path / "model.onnx", "--by", "weight", "--format", "json")
    (found,) = json.loads(text)

    assert ["w", "float32", "8x3x3x3", "50.0", "%", "1x3x3x3", "50.0", "%"] in [
        line.split()[:8] for line in table.splitlines()
    ]
    assert (found["element_ratio"], found["block"], found["block_ratio"]) == (0.5, [1, 3, 3, 3], 0.5)
    assert found["mean"] == pytest.approx(array.mean(), rel=1e-6)
    assert (found["max"], found["num_zeros"], found["num_elements"]) == (array.max(), 108, 216)


def test_memory_is_planned_and_compared(run: Run, path: Path) -> None:
    arguments = (path, "--by", "buffer", "--shape", "image=1x3x40x50")
    code, table, _ = run(*arguments)
    _, text, _ = run(*arguments, "--format", "json", "--no-observe")
    _, rows, _ = run(*arguments, "--format", "csv", "--no-observe")
    found = json.loads(text)

    assert code == 0
    assert "128 kB, 0.00 % over the lower bound" in table
    assert table.count("ONNX Runtime, graph") == 2
    assert (found["arena_bytes"], found["lower_bound_bytes"], found["native_bytes"]) == (128000, 128000, 128000)
    assert found["onnxruntime"] == []
    assert [(one["name"], one["first_step"], one["last_step"]) for one in found["buffers"]] == [
        ("h", 0, 1),
        ("y", 1, 1),
    ]
    assert [row["offset_bytes"] for row in csv.DictReader(rows.splitlines())] == ["0", "64000"]


def test_guesses_are_said(run: Run, path: Path) -> None:
    _, out, _ = run(path)

    assert "sizes: N=1, height=224, width=224 (guessed); say others with --dim N=SIZE" in out


def test_top_shows_the_nodes_with_most_macs(path: Path) -> None:
    found = profile(path)

    assert "1 of 2 nodes, most MACs first" in profile_table.nodes(found, 1).as_text()
    assert "rectify" not in profile_table.nodes(found, 1).as_text()
    assert "all 2 nodes" in profile_table.nodes(found).as_text()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_fits_the_terminal(path: Path, width: int) -> None:
    from rich.console import Console

    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(profile_table.nodes(profile(path)).as_table())
    text = console.export_text()

    assert max(len(line) for line in text.splitlines()) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "108 k" not in text


def broken(tmp_path: Path, kind: str) -> Path:
    """A file that cannot be profiled."""
    path = tmp_path / "broken.onnx"
    if kind == "text":
        path.write_text("this is no model\n")
    elif kind == "truncated":
        path.write_bytes(make_model().SerializeToString()[:-100])
    elif kind == "cycle":
        loop = [
            helper.make_node("Add", ["image", "b"], ["a"], name="one"),
            helper.make_node("Relu", ["a"], ["b"], name="two"),
        ]
        onnx.save(make_model([*loop, helper.make_node("Relu", ["a"], ["y"])]), path)
    else:
        onnx.save(make_model(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
        (tmp_path / "w.bin").unlink()
        if kind == "outside":
            path.write_bytes(path.read_bytes().replace(b"w.bin", b"../w."))
            (tmp_path.parent / "w.").write_bytes(bytes(1000))
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "it is not an ONNX file, or only a part of one"),
        ("truncated", "it is not an ONNX file, or only a part of one"),
        ("cycle", "its graph has a cycle: node 'one' (Add) reads 'b', which depends on an output of that node"),
        ("missing", "its external data 'w.bin' are not in its folder"),
        ("outside", "its external data '../w.' lie outside its folder, where nothing is read"),
    ],
)
def test_a_file_that_it_cannot_handle_gets_one_line(run: Run, tmp_path: Path, kind: str, message: str) -> None:
    path = broken(tmp_path, kind)
    code, out, err = run(path)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"bench: cannot profile {path}: ")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "imge=1x3x8x8"], "no input 'imge'; did you mean 'image'?"),
        (["--dim", "wdth=8"], "no dimension 'wdth'; did you mean 'width'?"),
        (["--shape", "image=1x3x8"], "input 'image' has 4 axes"),
        (["--shape", "image"], "not a shape of an input: 'image'; write --shape image=1x3x224x224"),
        (["--dim", "N=-1"], "not a size of a dimension: 'N=-1'; write --dim height=224"),
        (["--inputs", "none.npz"], "no such file: none.npz"),
    ],
)
def test_wrong_usage_gets_one_line(run: Run, path: Path, arguments: list[str], message: str) -> None:
    code, out, err = run(path, *arguments)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_no_file_and_a_folder_are_told_apart(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path / "none.onnx")[2].startswith(
        f"bench: no such file or folder: {tmp_path / 'none.onnx'}; --model"
    )
    refused = f"bench: no task.py, saved_model.pb, modules.json or config.json in {tmp_path}; --model takes"
    assert run(tmp_path)[2].startswith(refused)


def test_given_inputs_are_run_on(run: Run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["image"], ["n"], name="find"),
        helper.make_node("Cast", ["n"], ["y"], to=1, name="cast"),
    ]
    onnx.save(make_model(nodes), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", image=np.eye(3, dtype=np.float32)[None, :, :, None])
    code, out, _ = run(tmp_path / "model.onnx", "--inputs", tmp_path / "inputs.npz")

    assert code == 0
    assert "4x3 observed" in out
    assert "observed in one run on the given inputs" in out


def test_the_command_imports_no_framework(path: Path) -> None:
    code = (
        "import sys\nfrom bench.cli import main\n"
        f"sys.argv = ['bench', 'profile', {str(path)!r}, '--format', 'csv']\n"
        "try:\n    main.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'onnx', 'onnxruntime', 'torch', 'sympy'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
