"""NNCF's quantization of OpenVINO models: 8 bits for real, with ranges of the training samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Samples, TensorSpec
from bench.api.errors import RefusedError
from bench.plugins import catalog
from bench.plugins.engines.openvino import ir
from support import deferred
from support import small_models as small

deferred.importorskip("nncf")
pytestmark = pytest.mark.framework("torch")


IMAGES = np.random.default_rng(4).random((6, 8, 10, 10), np.float32)


class ImageTask(small.SmallTask):
    inputs = (TensorSpec(name="image", dtype="float32", shape=("batch", 8, "height", "width")),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 16, "height", "width")),)

    def samples(self, split: str) -> Samples:
        assert split == "train"
        return Samples(inputs={"image": IMAGES}, targets=None)


def write(target: Path, *, products: bool) -> None:
    """Two convolutions with a ReLU between them, or the ReLU alone."""
    openvino = ir.import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter([-1, 8, -1, -1], np.float32)
    value = ops.relu(image)
    for shape in [(32, 8, 3, 3), (16, 32, 3, 3)] if products else []:
        weights = ops.constant(small.floats(*shape) / 10)
        value = ops.relu(ops.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1]))
    model = openvino.Model([value], [image], "model")
    ir.name_ports(model, small.make_task(ImageTask), inputs=model.inputs, outputs=model.outputs)
    ir.save(model, target)


def run(path: Path) -> tuple[list[np.ndarray], Any]:
    task = small.make_task(ImageTask)
    session = catalog.runtime("openvino").open(path, task=task, source="torch", provider="cpu", threads=1)
    return [np.array(output) for output in session.run({"image": IMAGES[:3]})], session.precision


def test_code_without_the_harness_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "artifact.openvino"
    write(path, products=True)
    code = catalog.runtime("openvino").code(provider="cpu", threads=1)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code, names)
    outputs = names["load"](path, ["y"])({"image": IMAGES[:3]})
    np.testing.assert_array_equal(outputs["y"], run(path)[0][0])


def test_convolutions_run_in_8_bits(tmp_path: Path) -> None:
    source, target = tmp_path / "source.openvino", tmp_path / "target.openvino"
    write(source, products=True)
    variant = catalog.variant("nncf_int8").variant
    info = variant.apply(source, target, option="", task=small.make_task(ImageTask))
    assert info["num_samples"] == 6
    assert {path.name for path in tmp_path.iterdir()} == {source.name, target.name}
    (expected, before), (outputs, after) = run(source), run(target)
    assert (before, after) == ("float32", "int8")
    assert 0 < small.drift(outputs, expected) < 0.2


def test_the_chosen_convolutions_alone_run_in_8_bits(tmp_path: Path) -> None:
    source, task = tmp_path / "source.openvino", small.make_task(ImageTask)
    write(source, products=True)
    variant = catalog.variant("nncf_mixed-1f1s").variant
    parts = variant.parts(source, task=task)
    assert [(part.operator, part.letters, part.num_weights) for part in parts] == [
        ("Convolution", "fs", 32 * 8 * 9),
        ("Convolution", "fs", 16 * 32 * 9),
    ]
    sizes = {}
    for option in ("1f1s", "1s1f", "2s"):
        target = tmp_path / f"{option}.openvino"
        variant.apply(source, target, option=option, task=task)
        (expected, _), (outputs, precision) = run(source), run(target)
        assert precision == "int8"
        assert 0 < small.drift(outputs, expected) < 0.2
        sizes[option] = target.stat().st_size
    assert sizes["2s"] < sizes["1f1s"] < sizes["1s1f"], "the second convolution has twice the weights of the first"
    with pytest.raises(RefusedError, match="every operator stays as it is"):
        variant.apply(source, tmp_path / "none", option="2f", task=task)


def test_operators_without_weights_are_quantized_behind_a_chosen_one_alone(tmp_path: Path) -> None:
    """A product of activations and a sum behind two convolutions, and another convolution."""
    openvino = ir.import_openvino()
    from openvino import opset13 as ops

    def convolved(value: Any, shape: tuple[int, ...]) -> Any:
        return ops.convolution(value, ops.constant(small.floats(*shape) / 10), [1, 1], [1, 1], [1, 1], [1, 1])

    image = ops.parameter([-1, 8, 10, 10], np.float32)
    one, other = (convolved(image, (8, 8, 3, 3)) for _ in range(2))
    value = ops.add(ops.matmul(one, other, transpose_a=False, transpose_b=True), one)
    model = openvino.Model([convolved(value, (16, 8, 3, 3))], [image], "model")
    source, target = tmp_path / "source.openvino", tmp_path / "target.openvino"
    task = small.make_task(ImageTask)
    ir.name_ports(model, task, inputs=model.inputs, outputs=model.outputs)
    ir.save(model, source)
    quantized = {}
    for option in ("2f1s", "2s1f", "3s"):
        catalog.variant(f"nncf_mixed-{option}").variant.apply(source, target, option=option, task=task)
        made, weights = ir.read(openvino.Core(), target)
        readers = [
            reader.get_node().get_type_name()
            for node in made.get_ordered_ops()
            if node.get_type_name() == "FakeQuantize"
            for reader in node.output(0).get_target_inputs()
        ]
        quantized[option] = {"MatMul", "Add"} & {*readers}
        del made, weights
    assert quantized["2f1s"] == set()
    assert "MatMul" in quantized["2s1f"]
    assert "MatMul" in quantized["3s"]


def test_a_model_without_products_is_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "source.openvino", tmp_path / "target.openvino"
    write(source, products=False)
    with pytest.raises(RefusedError):
        catalog.variant("nncf_int8").variant.apply(source, target, option="", task=small.make_task(ImageTask))
    assert not target.exists()
