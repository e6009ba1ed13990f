"""`bench blame` from the command line to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from bench.cli.commands import app

SIZE = 256


def write(path: Path, change: str = "") -> Path:
    """Twelve products, each with a Tanh; at the fifth, `change` plants a costlier equal or an error."""
    generator, nodes, tensors = np.random.default_rng(0), [], []
    for at in range(12):
        weight = generator.standard_normal((SIZE, SIZE)).astype(np.float32) / 16
        tensors.append(numpy_helper.from_array(weight, f"w{at}"))
        source, product = ("x" if at == 0 else f"t{at - 1}"), f"p{at}"
        nodes.append(helper.make_node("MatMul", [source, f"w{at}"], [product], name=f"product_{at}"))
        if at == 5 and change == "slow":
            tensors[-1].CopyFrom(numpy_helper.from_array(np.concatenate([weight, *[weight * 0] * 11], 1), f"w{at}"))
            ends = {"start": 0, "end": SIZE, "axis": 1}
            tensors += [numpy_helper.from_array(np.array([value]), name) for name, value in ends.items()]
            nodes[-1].output[0] = "wide"
            nodes.append(helper.make_node("Slice", ["wide", *ends], [product], name="narrow"))
        if at == 5 and change == "wrong":
            tensors[-1].CopyFrom(numpy_helper.from_array(weight * np.float32(1.05), f"w{at}"))
        nodes.append(helper.make_node("Tanh", [product], ["y" if at == 11 else f"t{at}"], name=f"tanh_{at}"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [128, SIZE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["blame", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.thorough
def test_the_slower_node_is_named_with_a_reproducer(tmp_path: Path) -> None:
    plain, slow = write(tmp_path / "plain.onnx"), write(tmp_path / "slow.onnx", "slow")

    code, text = run(plain, slow, "--format", "json", "--budget", "2m", "--output", tmp_path / "out", "--public")

    assert code == 0
    answer: dict[str, Any] = json.loads(text)
    first = answer["culprits"][0]
    assert first["nodes"][0] == ["product_5"]
    assert first["nodes"][1] == ["product_5", "narrow"]
    assert first["line"]["share"]["value"] > 0.5
    folder = Path(answer["reproducer"])
    assert folder.parent == tmp_path / "out"
    assert len(onnx.load(folder / "part_a.onnx").graph.node) == 1
    assert "weights and inputs of the reproducer are random, of the same shapes and densities" in answer["notes"]
    own = numpy_helper.to_array(onnx.load(plain).graph.initializer[5])
    assert not np.allclose(numpy_helper.to_array(onnx.load(folder / "part_a.onnx").graph.initializer[0]), own)


@pytest.mark.thorough
def test_the_wrong_node_is_named_with_a_reproducer(tmp_path: Path) -> None:
    plain, wrong = write(tmp_path / "plain.onnx"), write(tmp_path / "wrong.onnx", "wrong")

    code, text = run(plain, wrong, "--drift", "--output", tmp_path / "out")

    assert code == 0
    assert "product_5 (MatMul) is the first node beyond it" in text
    assert (tmp_path / "out" / "product_5-MatMul" / "reproduce.py").is_file()


@pytest.mark.thorough
def test_nothing_drifts_between_equal_files(tmp_path: Path) -> None:
    plain, same = write(tmp_path / "plain.onnx"), write(tmp_path / "same.onnx", "slow")

    code, text = run(plain, same, "--drift", "--output", tmp_path / "out")

    assert code == 1
    assert "no output drifts" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["crnn/a/b/raw/c/cpu/b1t1"], "name two sides"),
        (["a", "b", "c"], "name two sides"),
        (["a", "b", "--with", "onnxruntime==1.22.0"], "name two sides"),
        ([f"crnn/torch/torch_onnx/raw/onnxruntime/cpu/b{batch}t1" for batch in (1, 2)], "different requests"),
        (["crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", "pyproject.toml"], "is a file, and there is no file"),
    ],
)
def test_what_is_no_pair_is_refused(arguments: list[str], message: str) -> None:
    from bench.api.errors import InputError

    with pytest.raises(InputError, match=message):
        run(*arguments)
