"""`bench blame` from the command line to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from bench.cli.commands import app
from support.planted import write


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
    assert (tmp_path / "out" / "wrong-product_5-MatMul" / "reproduce.py").is_file()


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
