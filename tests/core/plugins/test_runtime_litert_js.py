"""LiteRT.js in a page: the outputs of LiteRT here, on one thread and two, and runs that fail without throwing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog
from bench.plugins.engines import litert_narrow, litert_static
from bench.plugins.engines.browser import runtime as in_page
from bench.plugins.engines.browser.page import Page
from support import browsers, browsing, small_models

pytestmark = [pytest.mark.framework("tensorflow"), pytest.mark.thorough]
RUNTIME = browsing.runtime("litert_js")


class GatherTask(small_models.SmallTask):
    """Rows of a table, by numbers that may be none of its rows."""

    inputs = (TensorSpec(name="x", dtype="int32", shape=(1, 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=(1, 3, 2)),)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tf = pytest.importorskip("tensorflow")
    table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    function = tf.function(
        lambda x: {"y": tf.gather(table, x)}, input_signature=[tf.TensorSpec((1, 3), tf.int32, name="x")]
    )
    folder = tmp_path_factory.mktemp("gather")
    tf.saved_model.save(tf.Module(), str(folder / "saved"), signatures={"serving_default": function})
    path = folder / "gather.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert())
    return path


class OpenTask(small_models.SmallTask):
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 2)),)


TABLE = np.float32([[1, -1], [2, 0.5], [3, -0.25]])


@pytest.fixture(scope="module")
def open_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that leaves its batch open."""
    tf = pytest.importorskip("tensorflow")
    function = tf.function(
        lambda x: {"y": tf.nn.relu(tf.matmul(x, tf.constant(TABLE)))},
        input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")],
    )
    folder = tmp_path_factory.mktemp("open")
    tf.saved_model.save(tf.Module(), str(folder / "saved"), signatures={"serving_default": function})
    path = folder / "open.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert())
    return path


def test_a_copy_has_the_sizes_of_a_request_and_the_same_outputs(open_file: Path, tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    target = tmp_path / "fixed.tflite"
    litert_static.write(open_file, {"x": (4, 3)}, target)
    interpreter = Interpreter(str(target))
    interpreter.allocate_tensors()
    (own,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert own["shape"].tolist() == own["shape_signature"].tolist() == [4, 3]
    assert made["shape"].tolist() == [4, 2]
    values = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    outputs = interpreter.get_signature_runner()(x=values)
    np.testing.assert_allclose(outputs["y"], np.maximum(values @ TABLE, 0), atol=1e-5)


def test_a_float_file_is_held_to_what_rounding_explains(open_file: Path) -> None:
    """As those of other runtimes: without a precision, any error that the metric allows would pass."""
    assert RUNTIME.inspect(open_file, provider="cpu", shapes={}) == {"precision": "float32"}


@pytest.mark.parametrize("size", [(4, 2), (4, 3, 1)])
def test_sizes_that_the_file_fixes_stay(open_file: Path, tmp_path: Path, size: tuple[int, ...]) -> None:
    with pytest.raises(ArtifactError, match="cannot have the sizes"):
        litert_static.write(open_file, {"x": size}, tmp_path / "fixed.tflite")
    assert not (tmp_path / "fixed.tflite").exists()


def test_a_file_that_leaves_sizes_open_answers_requests_of_several_sizes(open_file: Path) -> None:
    browsers.need(RUNTIME)
    before = browsing.browsers()
    task = small_models.make_task(OpenTask)
    try:
        with RUNTIME.open(open_file, task=task, source="tf", provider="cpu", threads=1) as session:
            for batch in (2, 5, 2):
                values = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
                np.testing.assert_allclose(session.run({"x": values})[0], np.maximum(values @ TABLE, 0), atol=1e-5)
                cold, steady = session.burst({"x": values}, browsing.PLAN)
                assert len(cold) == 1
                assert len(steady) >= 3
            with pytest.raises(ArtifactError, match="cannot have the sizes"):
                session.run({"x": values[:, :2]})
            np.testing.assert_allclose(session.run({"x": values})[0], np.maximum(values @ TABLE, 0), atol=1e-5)
            assert "fixed" in session.about["sizes"]
    finally:
        page = type(RUNTIME).running
        assert page is not None
        page.close()
        type(RUNTIME).running = None
    assert not browsing.left_since(before)


@pytest.fixture(params=[1, 2])
def session(file: Path, request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    browsers.need(RUNTIME)
    before = browsing.browsers()
    monkeypatch.setenv(in_page.THREADS, str(request.param))
    task = small_models.make_task(GatherTask)
    yield RUNTIME.open(file, task=task, source="tf", provider="cpu", threads=request.param)
    page = type(RUNTIME).running
    assert page is not None
    page.close()
    type(RUNTIME).running = None
    assert not browsing.left_since(before)


def test_a_run_that_fails_is_an_error_although_it_does_not_throw(session: Any) -> None:
    """LiteRT.js 2.5.3 answers with what was in memory."""
    right = {"x": np.array([[0, 1, 0]], np.int32)}
    np.testing.assert_array_equal(session.run(right)[0], [[[1, 2], [3, 4], [1, 2]]])
    with pytest.raises(ArtifactError, match="gather index out of bounds"):
        session.run({"x": np.array([[0, 1, 7]], np.int32)})
    with pytest.raises(ArtifactError, match="gather index out of bounds"):
        session.burst({"x": np.array([[9, 1, 1]], np.int32)}, browsing.PLAN)
    np.testing.assert_array_equal(session.run(right)[0], [[[1, 2], [3, 4], [1, 2]]])
    cold, steady = session.burst(right, browsing.PLAN)
    assert len(cold) == 1
    assert len(steady) >= 3


def test_more_threads_than_cores_are_refused(session: Any) -> None:
    cores = session._page._browser.evaluate("navigator.hardwareConcurrency")
    with pytest.raises(ArtifactError, match=f"this browser has {cores} cores, not {cores + 1}"):
        Page(RUNTIME.command(), engine="litert", threads=cores + 1, provider="wasm")


def test_feeds_of_other_sizes_are_an_error(session: Any) -> None:
    with pytest.raises(ArtifactError, match="does not match"):
        session.run({"x": np.array([[0, 1]], np.int32)})


def test_a_file_that_is_no_model_is_an_error(session: Any, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"no model" * 100)
    with pytest.raises(ArtifactError, match=r"[Mm]odel"):
        RUNTIME.open(
            tmp_path / "model.tflite",
            task=small_models.make_task(GatherTask),
            source="tf",
            provider="cpu",
            threads=session._page.threads,  # with others, it starts a second page
        )


def test_numbers_of_64_bits_are_refused_but_for_integers() -> None:
    class WideTask(small_models.SmallTask):
        inputs = (TensorSpec(name="x", dtype="float64", shape=(1, 3)),)
        outputs = (TensorSpec(name="y", dtype="float32", shape=(1, 3, 2)),)

    assert RUNTIME.refusal(small_models.make_task(GatherTask)) is None
    assert RUNTIME.refusal(small_models.make_task()) is None, "its tokens are int64"
    assert RUNTIME.refusal(small_models.make_task(WideTask)) == "it has no uint64 or float64, and 'x' is such"
    assert catalog.runtime("ort_web").refusal(small_models.make_task(WideTask)) is None


class LongTask(small_models.SmallTask):
    """Rows of a table by int64, and where these are in the table plus a constant."""

    inputs = (TensorSpec(name="x", dtype="int64", shape=("batch", 3)),)
    outputs = (
        TensorSpec(name="number", dtype="int64", shape=("batch", 3)),
        TensorSpec(name="y", dtype="float32", shape=("batch", 3, 2)),
    )


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of int64 inputs, constants and outputs that leaves its batch open."""
    tf = pytest.importorskip("tensorflow")
    table = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def call(x: Any) -> dict[str, Any]:
        number = tf.where(x < 0, x + tf.constant(3, tf.int64), x)
        return {"y": tf.gather(table, number) + tf.cast(x, tf.float32)[..., None], "number": number}

    function = tf.function(call, input_signature=[tf.TensorSpec((None, 3), tf.int64, name="x")])
    folder = tmp_path_factory.mktemp("long")
    tf.saved_model.save(tf.Module(), str(folder / "saved"), signatures={"serving_default": function})
    path = folder / "long.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert())
    return path


LONG = np.array([[0, -1, 2], [-3, 1, -2]], np.int64)
NUMBERS = np.array([[0, 2, 2], [0, 1, 1]], np.int64)
ROWS = np.float32([[[1, 2], [4, 5], [7, 8]], [[-2, -1], [4, 5], [1, 2]]])


def test_a_copy_of_narrow_integers_has_the_same_outputs(long_file: Path, tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    target = tmp_path / "narrow.tflite"
    litert_narrow.write(long_file, target)
    interpreter = Interpreter(str(target))
    assert not [each["name"] for each in interpreter.get_tensor_details() if each["dtype"] == np.int64]
    outputs = interpreter.get_signature_runner()(x=LONG.astype(np.int32))
    np.testing.assert_array_equal(outputs["number"], NUMBERS)
    np.testing.assert_array_equal(outputs["y"], ROWS)


def test_integers_of_64_bits_go_to_the_page_as_such_of_32(long_file: Path) -> None:
    browsers.need(RUNTIME)
    before = browsing.browsers()
    task = small_models.make_task(LongTask)
    try:
        with RUNTIME.open(long_file, task=task, source="tf", provider="cpu", threads=1) as session:
            for feeds in ({"x": LONG}, {"x": LONG[1:]}, {"x": LONG}):
                number, rows = session.run(feeds)
                assert number.dtype == np.int64
                np.testing.assert_array_equal(number, NUMBERS[-len(feeds["x"]) :])
                np.testing.assert_array_equal(rows, ROWS[-len(feeds["x"]) :])
            assert len(session.burst({"x": LONG}, browsing.PLAN)[1]) >= 3
            assert session.about["integers"] == "int32 in place of int64"
            with pytest.raises(ArtifactError, match="'x' has numbers that take more than 32 bits"):
                session.run({"x": LONG + 2**31})
            np.testing.assert_array_equal(session.run({"x": LONG})[0], NUMBERS)
            (folder,) = {session._artifact.parent}
            assert folder.is_dir()
        assert not folder.exists()
    finally:
        page = type(RUNTIME).running
        assert page is not None
        page.close()
        type(RUNTIME).running = None
    assert not browsing.left_since(before)
