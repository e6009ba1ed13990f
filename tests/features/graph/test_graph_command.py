"""`bench graph`: each of its commands on a small model, and the one-line message of each error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The exit code, standard output and standard error of a command."""

    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bench", "graph", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main.main()
        code = end.value.code
        return code if isinstance(code, int) else 0, *capsys.readouterr()

    monkeypatch.setenv("COLUMNS", "120")
    return called


def make_model(activation: str = "Relu") -> onnx.ModelProto:
    """Two products, and a Reshape that asks for the batch."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node(activation, ["h"], ["r"], name="between"),
        helper.make_node("MatMul", ["r", "w"], ["z"], name="second"),
        helper.make_node("Shape", ["x"], ["batch"], name="batch", end=1),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], name="wanted", axis=0),
        helper.make_node("Reshape", ["z", "wanted"], ["y"], name="fold"),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((16, 16), np.float32), "rest": np.array([4, 4])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(make_model(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def outputs(path: Path, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))


X = np.random.default_rng(1).standard_normal((3, 16), np.float32)


def test_diff_of_a_model_and_itself(run: Run, path: Path) -> None:
    code, out, _ = run("diff", path, path, "--strict")

    assert code == 0
    assert "model.onnx and model.onnx: the same computation with the same weights" in out
    assert ["MatMul", "2", "2"] in [line.split() for line in out.splitlines()]


def test_diff_names_the_file_that_cannot_be_read(run: Run, path: Path, tmp_path: Path) -> None:
    (tmp_path / "corrupt.onnx").write_bytes(b"no model")

    code, _, err = run("diff", path, tmp_path / "corrupt.onnx")

    assert code == 2
    assert f"the other file, {tmp_path / 'corrupt.onnx'}: it is not an ONNX file" in err


def test_diff_says_what_differs(run: Run, path: Path, tmp_path: Path) -> None:
    onnx.save(make_model("Tanh"), tmp_path / "other.onnx")
    code, out, _ = run("diff", path, tmp_path / "other.onnx")
    _, text, _ = run("diff", path, tmp_path / "other.onnx", "--format", "json")
    lines = [line.split() for line in out.splitlines()]

    assert code == 0
    assert run("diff", path, tmp_path / "other.onnx", "--strict")[0] == 1
    assert "not the same" in out
    assert ["Relu", "1", "0", "-1"] in lines
    assert ["Tanh", "0", "1", "+1"] in lines
    assert ["all", "6", "6"] in lines
    assert {"removed: Relu between", "added: Tanh between"} <= {line.strip() for line in out.splitlines()}
    found = json.loads(text)
    assert (found["equal"], found["num_same_weights"]) == (False, 2)
    assert found["added"] == [{"name": "between", "op_type": "Tanh"}]


def test_text_is_printed_or_written(run: Run, path: Path, tmp_path: Path) -> None:
    _, out, _ = run("text", path)
    run("text", path, "--output", tmp_path / "model.txt")

    assert [node.name for node in onnx.parser.parse_model(out).graph.node] == [
        one.name for one in make_model().graph.node
    ]
    assert (tmp_path / "model.txt").read_text() == out


def test_picture(run: Run, path: Path, tmp_path: Path) -> None:
    code, out, _ = run("picture", path, tmp_path / "model.svg", "--dim", "N=3")

    assert (code, out) == (0, f"{tmp_path / 'model.svg'}\n")
    assert "[3, 16]" in (tmp_path / "model.svg").read_text()
    assert run("picture", path, tmp_path / "model.png")[0] == 2


def test_extract(run: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.onnx"
    code, out, _ = run("extract", path, target, "--input", "r", "--output", "z")

    assert (code, out) == (0, f"{target}  1 of 6 nodes  input r float32[N, 16]  output z float32[N, 16]\n")
    np.testing.assert_allclose(
        outputs(target, r=X)["z"], X @ numpy_helper.to_array(make_model().graph.initializer[0]), rtol=1e-5
    )


def test_split(run: Run, path: Path, tmp_path: Path) -> None:
    code, out, _ = run("split", path, tmp_path / "parts", "--parts", 2, "--dim", "N=3")
    first, second = out.splitlines()

    assert code == 0
    assert "50.0 % of MACs" in first
    assert "50.0 % of MACs" in second
    tensors = {"x": X}
    for number in (1, 2):
        file = tmp_path / "parts" / f"part_{number}.onnx"
        needed = [one.name for one in onnx.load(file).graph.input]
        tensors |= outputs(file, **{name: tensors[name] for name in needed})
    np.testing.assert_array_equal(tensors["y"], outputs(path, x=X)["y"])


@pytest.mark.parametrize("arguments", [("--dim", "N=3"), ("--free", "N")])
def test_fold(run: Run, path: Path, tmp_path: Path, arguments: tuple[str, str]) -> None:
    target = tmp_path / "folded.onnx"
    code, out, _ = run("fold", path, target, *arguments)

    assert (code, out) == (0, f"{target}  4 nodes of 6\n")
    assert [node.op_type for node in onnx.load(target).graph.node] == ["MatMul", "Relu", "MatMul", "Reshape"]
    np.testing.assert_array_equal(outputs(target, x=X)["y"], outputs(path, x=X)["y"])


def test_sizes_that_fit_are_found_and_told(run: Run, tmp_path: Path) -> None:
    """Rows of 48 are needed, where the name of the dimension lets 16 be guessed."""
    weight = numpy_helper.from_array(np.ones((48, 4), np.float32), "w")
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("MatMul", ["x", "w"], ["h"], name="mix")]
    nodes += [helper.make_node("Cast", ["s"], ["f"], to=1), helper.make_node("ReduceMax", ["f"], ["m"], keepdims=0)]
    nodes += [helper.make_node("Mul", ["h", "m"], ["y"])]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", "k"), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "wide.onnx"
    )
    told = "sizes: N=1, k=48 (guessed); say others with --dim N=SIZE"

    for arguments in (
        ("picture", tmp_path / "wide.svg"),
        ("split", tmp_path / "parts"),
        ("fold", tmp_path / "fold.onnx"),
    ):
        code, out, _ = run(arguments[0], tmp_path / "wide.onnx", arguments[1])
        why, sizes = (line for line in out.splitlines() if line.startswith("note: "))
        assert code == 0
        assert why.startswith("note: k is 48 and not 16: node 'mix' (MatMul) ")
        assert sizes == f"note: {told}"
    folded = onnx.load(tmp_path / "fold.onnx")
    assert [dim.dim_value for dim in folded.graph.input[0].type.tensor_type.shape.dim] == [1, 48]
    _, out, _ = run("fold", tmp_path / "wide.onnx", tmp_path / "free.onnx", "--free", "N")
    assert "note: sizes: k=48 (guessed); say others with --dim k=SIZE" in out.splitlines()


def test_external_data_are_taken_along(run: Run, path: Path, tmp_path: Path) -> None:
    onnx.save(make_model(), tmp_path / "outside.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "new").mkdir()
    run("fold", tmp_path / "outside.onnx", tmp_path / "new" / "folded.onnx", "--dim", "N=3")

    assert run("diff", path, tmp_path / "outside.onnx", "--strict")[0] == 0
    np.testing.assert_array_equal(outputs(tmp_path / "new" / "folded.onnx", x=X)["y"], outputs(path, x=X)["y"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["extract", "model.onnx", "part.onnx", "--output", "q"], "cannot cut model.onnx: no tensor 'q'"),
        (["extract", "model.onnx", "model.onnx", "--output", "z"], "would be written over the model"),
        (["split", "model.onnx", "parts", "--parts", "9"], "9 parts of 6 nodes; from 1 to 6 are possible"),
        (["fold", "model.onnx", "folded.onnx", "--free", "M"], "no dimension 'M'"),
        (["fold", "model.onnx", "folded.onnx", "--dim", "N"], "not a size of a dimension: 'N'; write --dim height=224"),
        (["diff", "model.onnx", "none.onnx"], "no such file or folder: none.onnx; --model takes a"),
        (["text", "notes.md"], "notes.md is of no kind that can be measured; --model takes a"),
        (["text", "notes.onnx"], "cannot print notes.onnx: it is not an ONNX file"),
        (["picture", "notes.onnx", "model.svg"], "cannot draw notes.onnx: it is not an ONNX file"),
        (["extract", "model.onnx", "part.onnx", "--dim", "N=3"], "are for models that are exported to ONNX first"),
    ],
)
def test_what_cannot_be_done_gets_one_line(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(path.parent)
    for name in ("notes.md", "notes.onnx"):
        (path.parent / name).write_text("this is no model\n")
    code, out, err = run(*arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(path.parent.glob("[fp][oa]*"))
