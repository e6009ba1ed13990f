"""LiteRT's CompiledModel: outputs of sizes that only the inference finds, and files whose ports are others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog
from support import small_models

pytestmark = [pytest.mark.framework("tensorflow"), pytest.mark.slow(seconds=5)]


class LookupTask(small_models.SmallTask):
    """Rows of a table by 64-bit ids, of which there are any number, and the ids doubled."""

    sources = ("tf",)
    inputs = (TensorSpec(name="ids", dtype="int64", shape=("batch", "tokens")),)
    outputs = (
        TensorSpec(name="rows", dtype="float32", shape=("batch", "tokens", 4)),
        TensorSpec(name="twice", dtype="int64", shape=("batch", "tokens")),
    )


def twice(ids: Any) -> Any:
    import tensorflow as tf

    table = tf.constant(np.arange(40, dtype=np.float32).reshape(10, 4))
    # The number of rows is read from a tensor, so that the file does not know it before it runs.
    rows = tf.reshape(tf.gather(table, tf.reshape(ids, [-1])), tf.concat([tf.shape(ids), [4]], 0))
    return {"rows": rows, "twice": ids * 2}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tensorflow as tf

    signature = [tf.TensorSpec([None, None], tf.int64, name="ids")]
    function = tf.function(twice, input_signature=signature).get_concrete_function()
    path = tmp_path_factory.mktemp("tflite") / "lookup.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert())
    return path


@pytest.mark.parametrize("runtime", ["litert", "litert_compiled"])
def test_outputs_have_the_sizes_of_each_request(runtime: str, file: Path) -> None:
    task = small_models.make_task(LookupTask)
    with catalog.runtime(runtime).open(file, task=task, source="tf", provider="cpu", threads=1) as session:
        for shape in ((1, 1), (1, 7), (2, 3), (1, 1)):
            ids = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
            rows, doubled = session.run({"ids": ids})
            np.testing.assert_array_equal(rows, np.arange(40, dtype=np.float32).reshape(10, 4)[ids])
            np.testing.assert_array_equal(doubled, ids * 2)
            assert doubled.dtype == np.int64


class OtherTask(LookupTask):
    inputs = (TensorSpec(name="tokens", dtype="int64", shape=("batch", "tokens")),)


def test_a_file_with_other_ports_is_refused(file: Path) -> None:
    task = small_models.make_task(OtherTask)
    with pytest.raises(ArtifactError, match=r"^the file's inputs are ids; the task's are tokens$"):
        catalog.runtime("litert_compiled").open(file, task=task, source="tf", provider="cpu", threads=1)


PAIRS = np.arange(20, dtype=np.float32).reshape(10, 2)


def longer(tokens: Any) -> Any:
    """Sizes that LiteRT knows before it runs, those that it does not, and those that nobody knows."""
    import tensorflow as tf

    rows = tf.gather(tf.constant(PAIRS), tf.cast(tf.reshape(tokens, [-1]), tf.int32))
    return {
        "joined": tf.concat([tokens, tokens, tokens], 1),
        "pairs": tf.reshape(rows, tf.stack([tf.shape(tokens)[0], 2 * tf.shape(tokens)[1]])),
        "large": tf.boolean_mask(tf.reshape(tokens, [-1]), tf.reshape(tokens, [-1]) > 3.0),
    }


@pytest.fixture(scope="module")
def longer_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each output."""
    import tensorflow as tf

    def write(output: str) -> Path:
        signature = [tf.TensorSpec([None, None], tf.float32, name="tokens")]
        function = tf.function(lambda tokens: {output: longer(tokens)[output]}, input_signature=signature)
        path = tmp_path_factory.mktemp("tflite") / f"{output}.tflite"
        concrete = function.get_concrete_function()
        path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module()).convert())
        return path

    return {output: write(output) for output in ("joined", "pairs", "large")}


class LongerTask(LookupTask):
    inputs = (TensorSpec(name="tokens", dtype="float32", shape=("batch", "tokens")),)


def opened(files: dict[str, Path], output: str, *shape: int | str) -> Any:
    outputs = (TensorSpec(name=output, dtype="float32", shape=shape),)
    task = small_models.make_task(type("OneTask", (LongerTask,), {"outputs": outputs}))
    runtime = catalog.runtime("litert_compiled")
    return runtime.open(files[output], task=task, source="tf", provider="cpu", threads=1)


@pytest.mark.parametrize("size", ["joined_tokens", "?", "3*tokens"])
def test_sizes_that_litert_infers_from_those_of_inputs(size: str, longer_files: dict[str, Path]) -> None:
    with opened(longer_files, "joined", "batch", size) as session:
        for tokens in (np.float32([[1, 2], [3, 4]]), np.float32([[5, 6, 7]])):
            np.testing.assert_array_equal(session.run({"tokens": tokens})[0], np.tile(tokens, 3))


@pytest.mark.parametrize(("output", "shape"), [("large", ("?",)), ("pairs", ("batch", "2*tokens"))])
def test_sizes_that_nobody_tells_are_refused(
    output: str, shape: tuple[str, ...], longer_files: dict[str, Path]
) -> None:
    reason = f"^neither the task nor CompiledModel tells the size of {output} before it is computed$"
    with opened(longer_files, output, *shape) as session, pytest.raises(ArtifactError, match=reason):
        session.run({"tokens": np.float32([[1, 2], [5, 6]])})
