"""TFLite files that converters cannot take are refused in a line that names the operator; LiteRT runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task, TensorSpec
from bench.api.errors import RefusedError
from bench.plugins import catalog
from bench.plugins.engines import litert_operators
from support import small_models as small

pytestmark = pytest.mark.framework("tensorflow")
FLOATS = TensorSpec(name="x", dtype="float32", shape=(1, 64))


def written(path: Path, module: Any, spec: TensorSpec) -> Path:
    """A TFLite file of a module's `__call__`."""
    import tensorflow as tf

    given = tf.TensorSpec(spec.shape, spec.dtype, name=spec.name)
    function = tf.function(module.__call__, input_signature=[given])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module)
    converter.experimental_enable_resource_variables = True
    path.write_bytes(converter.convert())
    return path


def stateful(folder: Path) -> tuple[Path, TensorSpec]:
    """A model that adds up its requests, as one that hears a word does with the frames of a sound."""
    import tensorflow as tf

    class Sum(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.total = tf.Variable(tf.zeros([1, 64]))

        def __call__(self, x: Any) -> Any:
            self.total.assign_add(x)
            return self.total * 2.0

    return written(folder / "model.tflite", Sum(), FLOATS), FLOATS


def table(folder: Path) -> tuple[Path, TensorSpec]:
    import tensorflow as tf

    class Words(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant(["a", "b"]))
            self.words = tf.lookup.StaticHashTable(pairs, "none")

        def __call__(self, x: Any) -> Any:
            return self.words.lookup(x)

    spec = TensorSpec(name="x", dtype="int64", shape=(2,))
    return written(folder / "model.tflite", Words(), spec), spec


def dense(folder: Path, activation: str = "relu") -> tuple[Path, TensorSpec]:
    import tensorflow as tf

    class Dense(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.weight = tf.Variable(small.floats(64, 32))

        def __call__(self, x: Any) -> Any:
            return getattr(tf.nn, activation)(x @ self.weight)

    return written(folder / f"{activation}.tflite", Dense(), FLOATS), FLOATS


def gelu(folder: Path) -> tuple[Path, TensorSpec]:
    return dense(folder, "gelu")


def in_4_bits(folder: Path) -> tuple[Path, TensorSpec]:
    from ai_edge_quantizer import quantizer, recipe

    path, spec = dense(folder)
    tool = quantizer.Quantizer(str(path))
    tool.load_quantization_recipe(recipe.dynamic_wi4_afp32())
    path.write_bytes(tool.quantize(None, enable_progress_report=False).quantized_model)
    return path, spec


def unknown(folder: Path) -> tuple[Path, TensorSpec]:
    """A file with an operator that is newer than tf2onnx's list of them."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    path, spec = dense(folder)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    (code,) = model.operatorCodes
    code.builtinCode, code.deprecatedBuiltinCode = schema.BuiltinOperator.DILATE, 127
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())
    return path, spec


def task_of(path: Path, spec: TensorSpec) -> Task:
    class OfFile(small.SmallTask):
        sources = ("tflite",)
        inputs = (spec,)
        outputs = (TensorSpec(name="output_0", dtype="float32", shape=(1, 32)),)

        def native_path(self, source: str) -> Path:
            return path

    return small.make_task(OfFile)


CASES = [
    (
        "tflite_onnx",
        stateful,
        "its operators VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE keep variables or tables between requests, which "
        "ONNX does not have; LiteRT runs the file as it is",
    ),
    (
        "tflite_openvino",
        stateful,
        "its operators VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE keep variables or tables between requests, which "
        "OpenVINO's converter does not have; LiteRT runs the file as it is",
    ),
    (
        "tflite_onnx",
        table,
        "its operators HASHTABLE, HASHTABLE_FIND and HASHTABLE_IMPORT keep variables or tables between requests, which "
        "ONNX does not have; LiteRT runs the file as it is",
    ),
    ("tflite_onnx", gelu, "tf2onnx has no ONNX for its operator GELU; LiteRT runs the file as it is"),
    (
        "tflite_onnx",
        in_4_bits,
        "tf2onnx reads no tensors of the type INT4, as its operator FULLY_CONNECTED has; LiteRT runs the file as it is",
    ),
    ("tflite_onnx", unknown, "tf2onnx has no ONNX for its operator DILATE; LiteRT runs the file as it is"),
]


@pytest.mark.parametrize(("exporter", "make", "says"), CASES)
def test_what_a_converter_cannot_take_is_named(
    exporter: str, make: Callable[[Path], tuple[Path, TensorSpec]], says: str, tmp_path: Path
) -> None:
    with pytest.raises(RefusedError) as raised:
        catalog.exporter(exporter).export(task_of(*make(tmp_path)), "tflite", tmp_path / "artifact.onnx")
    assert str(raised.value) == says


def test_a_file_with_a_state_stays_litert_s(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(stateful(tmp_path)[0]))
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    for number in (1, 2):
        interpreter.set_tensor(given["index"], np.ones((1, 64), np.float32))
        interpreter.invoke()
        assert (interpreter.get_tensor(made["index"]) == 2.0 * number).all()


def test_operators_are_told_with_the_types_of_their_tensors(tmp_path: Path) -> None:
    path, spec = dense(tmp_path)
    assert litert_operators.operators(path) == {"FULLY_CONNECTED": {"FLOAT32"}}
    catalog.exporter("tflite_onnx").export(task_of(path, spec), "tflite", tmp_path / "artifact.onnx")
    fed = small.floats(1, 64)
    (output,) = small.run(tmp_path / "artifact.onnx", x=fed)
    np.testing.assert_allclose(output, np.maximum(fed @ small.floats(64, 32), 0), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("batched", "tried"), [(True, [[None, 2], [1, 2]]), (False, [[5, 2]])])
def test_a_failed_conversion_is_tried_again_for_one_sample_alone(
    batched: bool, tried: list[list[int | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorflow.lite.python.convert_phase import ConverterError

    specs = (TensorSpec(name="x", dtype="float32", shape=("batch" if batched else 5, 2)),)
    kind = type("OneTask", (small.SmallTask,), {"inputs": specs, "outputs": specs, "batched": batched})
    exporter, shapes = catalog.exporter("tflite"), []

    def fails(_function: Any, _task: Any, inputs: Any) -> bytes:
        shapes.append(inputs[0].shape.as_list())
        raise ConverterError("a loop")

    monkeypatch.setattr(inspect.getmodule(type(exporter)), "_convert", fails)
    with pytest.raises(ConverterError, match="a loop"):
        exporter.translate(None, small.make_task(kind), tmp_path / "model.tflite")  # type: ignore[attr-defined]
    assert shapes == tried
