"""`--dim` and `--shape` mean the same in every command that takes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.errors import InputError
from bench.cli import main
from bench.decisions import check
from bench.onnxfile.shapes.size_options import GivenShape, axes_from, dims_from, shapes_from
from bench.tasks import adopt
from support.features import needs

COMMANDS: dict[str, list[str]] = {
    "run": ["run", "--model", "model.onnx", "--dry-run"],
    "check": ["check", "model.onnx", "model.onnx"],
    "compare": ["compare", "HEAD~1", "HEAD", "--model", "model.onnx"],
    "profile": ["profile", "model.onnx"],
    "profile buffers": ["profile", "model.onnx", "--by", "buffer", "--no-observe"],
    "graph picture": ["graph", "picture", "model.onnx", "model.svg"],
    "graph split": ["graph", "split", "model.onnx", "parts"],
    "graph fold": ["graph", "fold", "model.onnx", "folded.onnx"],
}
OPTIONS = ["--shape", "tokens=1x16:int64", "--dim", "batch=1"]
EACH = [
    pytest.param(name, marks=[needs(words[0])] if words[0] in ("compare", "graph", "profile") else [])
    for name, words in COMMANDS.items()
]


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`model.onnx` in the working folder, with a dynamic input of each dtype."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["tokens"], ["t"], to=1), helper.make_node("Add", ["t", "image"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length"])],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_PATH", "")


def bench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("command", EACH)
def test_a_shape_may_name_its_dtype(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reached: list[adopt.Options] = []

    def stop(*arguments: Any, options: adopt.Options | None = None, **_: Any) -> None:
        found = options or next(one for one in arguments if isinstance(one, adopt.Options))
        reached.append(found)
        raise InputError("measured enough")

    monkeypatch.setattr(check, "pair_of_files", stop)
    if command == "compare":
        monkeypatch.setattr("bench.features.compare.revisions.compare", stop)
    code = bench(monkeypatch, *COMMANDS[command], *OPTIONS)

    if command in ("check", "compare"):  # they would measure for minutes
        assert [(one.shapes, one.dims) for one in reached] == [(("tokens=1x16:int64",), ("batch=1",))]
    else:
        assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("command", EACH)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "tokens"], "not a shape of an input: 'tokens'; write --shape image=1x3x224x224 or tokens=1x16:"),
        (["--shape", "tokens=1x16:text"], "not a shape of an input: 'tokens=1x16:text'"),
        (["--dim", "batch=-1"], "not a size of a dimension: 'batch=-1'; write --dim height=224"),
    ],
)
def test_what_is_no_size_is_refused_alike(
    command: str,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench(monkeypatch, *COMMANDS[command], *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"bench: {message}")


@needs("profile")
def test_shapes_are_applied(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(monkeypatch, "profile", "model.onnx", *OPTIONS) == 0
    assert "tokens 1x16, image 1x1" in capsys.readouterr().out


def test_names_may_hold_what_separates() -> None:
    assert dims_from(["a=b=3"]) == {"a=b": 3}
    assert shapes_from(["x:0=1x2:int8"]) == {"x:0": GivenShape(sizes=(1, 2), dtype="int8")}


def test_a_size_may_be_0() -> None:
    """A cache of keys is empty at the first step of a decoder."""
    assert dims_from(["past=0"]) == {"past": 0}
    assert axes_from(["past=0,16"]) == {"past": (0, 16)}
    assert shapes_from(["past=1x0x8"])["past"].sizes == (1, 0, 8)


def test_several_sizes_of_each_dimension() -> None:
    assert axes_from(["seq=16,64", "batch=1", "a=b=3,4"]) == {"seq": (16, 64), "batch": (1,), "a=b": (3, 4)}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["seq=16,"], "not a size of a dimension: 'seq=16,'"),
        (["seq=16,16"], "--dim names 'seq' twice, or a size of it"),
        (["seq=16", "seq=64"], "--dim names 'seq' twice, or a size of it; write each once, as in --dim seq=16,64"),
        (
            ["a=1,b=2"],
            "not one dimension: 'a=1,b=2'; each has an option of its own, with its sizes: "
            "write --dim height=224,448 --dim width=320",
        ),
        (["seq=-1,4"], "not a size of a dimension: 'seq=-1,4'"),
    ],
)
def test_what_is_no_list_of_sizes(texts: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        axes_from(texts)
    assert str(raised.value).startswith(message)
