"""TensorFlow's runtimes: the function that is called, and its precision."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.api import TensorSpec
from bench.plugins import catalog
from bench.plugins.engines.tensorflow.runtime import precision_of

pytestmark = pytest.mark.framework("tensorflow")

TASK = SimpleNamespace(inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", "tokens", 8)),))


@pytest.fixture(scope="module")
def tf() -> Any:
    return pytest.importorskip("tensorflow")


def test_precision_is_that_of_the_optimized_graph(tf: Any) -> None:
    weight = tf.ones((8, 8))

    def reduced(x: Any) -> Any:
        return tf.cast(tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(weight, tf.bfloat16)), tf.float32)

    precision = sys.modules[type(catalog.runtime("tensorflow")).__module__]._precision
    spec = [tf.TensorSpec([None, None, 8])]
    assert precision(tf.function(reduced, spec), TASK) == "bfloat16"
    assert precision(tf.function(lambda x: tf.matmul(x, weight), spec), TASK) == "float32"


def test_what_each_runtime_calls(tf: Any) -> None:
    def model(x: Any) -> Any:
        return 2 * x

    plain, precision = catalog.runtime("tensorflow").callable(model, TASK, "cpu")
    compiled, _ = catalog.runtime("tensorflow_xla").callable(model, TASK, "cpu")
    eager, _ = catalog.runtime("tensorflow_eager").callable(model, TASK, "cpu")

    x = tf.ones((2, 3, 8))
    assert precision == "float32"
    assert eager is model
    for call in (plain, compiled):
        for shape in (2, 3, 8), (1, 5, 8):
            np.testing.assert_array_equal(call(tf.ones(shape)), np.full(shape, 2))
        assert call.experimental_get_tracing_count() == 1, "a request of another size is traced again"
    assert "HloModule" in compiled.experimental_get_compiler_ir(x)(stage="hlo")
    with pytest.raises(ValueError, match="jit_compile=True"):
        plain.experimental_get_compiler_ir(x)


@pytest.mark.parametrize(
    ("name", "reserved"), [("tensorflow", None), ("tensorflow_xla", 24), ("tensorflow_eager", None)]
)
def test_what_each_runtime_generates(tf: Any, name: str, reserved: int | None) -> None:
    task = catalog.task("codegen_lm~generate@new=4,prompt=16")
    request = dataclasses.replace(task.request, num_scored=8, num_greedy=4)
    step = task.build_step("tf", task.weights_path)
    ids = task.samples("test").inputs["input_ids"][0, 0, :24]
    session = catalog.runtime(name).stepper(step, request, "cpu", 7)

    session.generate(ids[8:24], 4, lambda token: None)  # another text, of which nothing may be left
    logits = session.logits_after(ids[:16], ids[16:])

    np.testing.assert_allclose(logits, step.decoder(ids[None])[0, 15:-1], rtol=0, atol=1e-4)
    assert session.generate(ids[:16], 4, lambda token: None).num_prompt == 16
    assert (session.depth, session.num_params, session.reserved_tokens) == (19, 7, reserved)
    session.close()


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (("float32", "float32"), "float32"),
        (("mixed_float16", "mixed_float16"), "float16"),
        (("bfloat16", "bfloat16"), "bfloat16"),
        (("mixed_float16", "float32"), None),
    ],
)
def test_precision_is_that_in_which_layers_with_weights_compute(
    tf: Any, policies: tuple[str, ...], expected: str | None
) -> None:
    layers = [tf.keras.layers.Dense(2, dtype=policy) for policy in policies]
    softmax = tf.keras.layers.Softmax(dtype="float32")  # it has no weights
    assert precision_of(tf.keras.Sequential([tf.keras.Input((2,)), *layers, softmax])) == expected


def test_a_model_of_weights_in_8_bits_has_no_precision(tf: Any) -> None:
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])
    model.quantize("int8")
    assert precision_of(model) is None
