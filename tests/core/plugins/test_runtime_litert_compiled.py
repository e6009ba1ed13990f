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
