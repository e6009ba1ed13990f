"""LiteRT files: batches that are fixed, and 8 bits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.api import Samples, TensorSpec
from bench.api.errors import ArtifactError, RefusedError
from bench.plugins import catalog
from bench.plugins.engines import litert

pytestmark = pytest.mark.framework("tensorflow")

SIZE = 64


def task_of(*shape: int | str) -> Any:
    """One input `x` and one output `y` of one shape, and samples of the training split only."""

    def samples(split: str) -> Samples:
        assert split == "train"
        return Samples(inputs={"x": np.random.default_rng(1).random((40, SIZE), dtype=np.float32)}, targets=[0] * 40)

    spec = {"dtype": "float32", "shape": shape}
    return SimpleNamespace(
        batched=True,
        request=None,
        inputs=(TensorSpec(name="x", **spec),),
        outputs=(TensorSpec(name="y", **spec),),
        samples=samples,
    )


def converted(function: Any, task: Any, target: Path) -> dict[str, Any]:
    tf = pytest.importorskip("tensorflow")
    return catalog.exporter("tflite").translate(tf.function(function), task, target)


def opened(path: Path, task: Any) -> Any:
    runtime = catalog.runtime("litert")
    if (reason := runtime.skip()) is not None:
        pytest.skip(reason)
    return runtime.open(path, task=task, source="tf", provider="cpu", threads=1)


def test_what_converts_for_one_sample_only_is_converted_for_one_sample(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    task, path = task_of("batch", "tokens"), tmp_path / "artifact.tflite"

    # TFLite's strided slice adds no axes to two dynamic dimensions.
    info = converted(lambda x: {"y": tf.squeeze(2 * x[:, None, None, :], (1, 2))}, task, path)

    assert info == {"batch": 1}
    session = opened(path, task)
    for tokens in (3, 5):
        (y,) = session.run({"x": np.ones((1, tokens), np.float32)})
        assert y.tolist() == [[2.0] * tokens]
    with pytest.raises(ArtifactError, match=r"the file takes x as \(1, -1\) only \(-1 is any size\), not \(2, 3\)"):
        session.run({"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("signature", ["serving_default", "", None])
def test_code_without_the_harness_gives_the_same(signature: str | None, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    task, path = task_of("batch", SIZE), tmp_path / "artifact.tflite"
    spec = tf.TensorSpec([None, SIZE], tf.float32, name="x")
    if signature is not None:
        converted(lambda x: {"y": 2 * x}, task, path)
        if not signature:
            _without_name_of_signature(path)
    else:
        graph = tf.function(lambda x: tf.identity(2 * x, name="y")).get_concrete_function(spec)
        made = tf.lite.TFLiteConverter.from_concrete_functions([graph]).convert()
        path.write_bytes(made)
    code = catalog.runtime("litert").code(provider="cpu", threads=1)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code, names)
    output = "y" if signature else _only_output(path)
    x = np.ones((3, SIZE), np.float32)
    feed = "x" if signature else _only_input(path)
    assert names["load"](path, [output])({feed: x})[output].tolist() == (2 * x).tolist()
    inputs, outputs = litert.ports(_interpreter(path))
    assert ([*inputs], [*outputs]) == ([feed], [output])


def _interpreter(path: Path) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(str(path))


def _without_name_of_signature(path: Path) -> None:
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    model.signatureDefs[0].signatureKey = ""
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())


def _only_output(path: Path) -> str:
    return str(_interpreter(path).get_output_details()[0]["name"])


def _only_input(path: Path) -> str:
    return str(_interpreter(path).get_input_details()[0]["name"])


@pytest.mark.parametrize("option", ["dynamic", "static"])
def test_eight_bits_keep_the_interface_and_quarter_the_weights(option: str, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    variant = catalog.variant(f"tflite_int8-{option}").variant
    if (reason := variant.skip()) is not None:
        pytest.skip(reason)
    task, source, target = task_of("batch", SIZE), tmp_path / "artifact.tflite", tmp_path / "int8.tflite"
    weight = tf.constant(np.random.default_rng(0).standard_normal((SIZE, SIZE), dtype=np.float32))
    assert converted(lambda x: {"y": tf.matmul(x, weight)}, task, source) == {}

    info = variant.apply(source, target, option=option, task=task)

    assert info == ({"num_samples": 32} if option == "static" else {})
    saved = source.stat().st_size - target.stat().st_size
    assert saved == pytest.approx(3 * SIZE * SIZE, abs=3000)  # 4 bytes become 1; scales and names are added
    session = opened(target, task)
    assert session.precision == "int8"
    assert opened(source, task).precision == "float32"
    x = np.random.default_rng(2).random((3, SIZE), dtype=np.float32)
    (y,) = session.run({"x": x})
    assert y.dtype == np.float32
    error = np.abs(y - x @ weight.numpy()).max() / np.abs(x @ weight.numpy()).max()
    assert 1e-4 < error < 0.03  # 8 bits are not exact, and not far


def test_the_chosen_operators_alone_are_quantized(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    variant = catalog.variant("tflite_mixed-1d1f").variant
    if (reason := variant.skip()) is not None:
        pytest.skip(reason)
    task, source = task_of("batch", SIZE), tmp_path / "artifact.tflite"
    draw = np.random.default_rng(0)
    first, second = (tf.constant(draw.standard_normal((SIZE, SIZE), dtype=np.float32) / 8) for _ in range(2))
    converted(lambda x: {"y": tf.matmul(tf.nn.relu(tf.matmul(x, first)), second)}, task, source)
    parts = variant.parts(source, task=task)
    assert [(part.operator, part.letters, part.num_weights) for part in parts] == [
        ("FULLY_CONNECTED", "fdqw", SIZE * SIZE)
    ] * 2
    x = draw.random((3, SIZE), dtype=np.float32)
    expected = opened(source, task).run({"x": x})[0]
    saved = {}
    for option in ("1d1f", "2d", "1w1f", "1f1q"):
        target = tmp_path / f"{option}.tflite"
        variant.apply(source, target, option=option, task=task)
        (y,) = opened(target, task).run({"x": x})
        assert 1e-5 < np.abs(y - expected).max() / np.abs(expected).max() < 0.2
        saved[option] = (source.stat().st_size - target.stat().st_size) / SIZE**2
    assert saved == pytest.approx({"1d1f": 3, "2d": 6, "1w1f": 3, "1f1q": 3.5}, abs=0.7)
    with pytest.raises(RefusedError, match="every operator stays float32"):
        variant.apply(source, tmp_path / "none", option="2f", task=task)


def test_generating_gives_the_logits_of_scoring(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("tokenizers")
    task, path = catalog.task("codegen_lm~generate@new=4,prompt=16"), tmp_path / "artifact.tflite"
    catalog.exporter("tflite").export(catalog.task("codegen_lm~step"), "tf", path)
    ids = task.samples("test").inputs["input_ids"][0, 0, :24]
    session = opened(path, task)

    session.generate(ids[8:24], 4, lambda token: None)  # another text, of which nothing may be left
    logits = session.logits_after(ids[:16], ids[16:])

    scored = catalog.task("codegen_lm").build("tf", task.weights_path)(ids[None])
    np.testing.assert_allclose(logits, scored[0, 15:-1], rtol=0, atol=1e-4)
    assert session.generate(ids[:16], 4, lambda token: None).num_prompt == 16
    assert (session.depth, session.reserved_tokens, session.precision) == (19, None, "float32")


@pytest.mark.parametrize(
    ("tensors", "precision"),
    [
        ([(np.float32, 0.0)], "float32"),
        ([(np.float32, 0.0), (np.int8, 0.1)], "int8"),
        ([(np.uint8, 0.1), (np.int32, 0.01)], "int8"),  # as of files that were quantized in the old way
        ([(np.uint8, 0.0), (np.float32, 0.0)], "float32"),  # an image that is cast
    ],
)
def test_precision_is_that_of_the_tensors(tensors: list[tuple[type, float]], precision: str) -> None:
    from bench.plugins.engines.litert import LiteRtSession

    details = [{"dtype": kind, "quantization": (scale, 0)} for kind, scale in tensors]
    session = object.__new__(LiteRtSession)
    session._interpreter = SimpleNamespace(get_tensor_details=lambda: details)
    assert session.precision == precision
