"""A run and a pick that end with a page: the folder of the pick answers in Chromium what the native session does."""

from __future__ import annotations

import http.server
import json
import runpy
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from bench.cli.commands import app
from bench.plugins.engines.browser.browser import Browser
from support import browsers, browsing, quick_bench

CELL = "small/onnx/native/raw/ort_web/cpu/b1t1"
PREDICT = """
(async () => {{
  const state = document.getElementById('state');
  while (state.textContent === 'loading') await new Promise((done) => setTimeout(done, 10));
  if (state.textContent !== 'ready') return state.textContent;
  const outputs = await predict({{ x: {{ dtype: 'float32', shape: {shape}, values: new Float32Array({values}) }} }});
  return Object.entries(outputs).map(([name, {{ dtype, shape, values }}]) => [name, dtype, shape, Array.from(values)]);
}})()
"""


@pytest.fixture
def picked(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pick among the cells of one runtime in a page."""
    browsers.need(browsing.runtime())
    weights = np.random.default_rng(0).integers(-8, 8, (16, 5)).astype(np.float32)  # of which products are exact
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 16), ("y", 5))
    ]
    graph = helper.make_graph(nodes, "small", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "small.onnx")
    quick_bench.shorten(monkeypatch.setattr)
    run = ["run", "--model", "small.onnx", "raw/ort_web/*/b1t1", "--budget", "20s", "--launches", "3", "--strict"]
    ran = CliRunner().invoke(app, run)
    assert ran.exit_code == 0, ran.output
    command = ["pick", "small/ort_web", "--output", "picked", "--tolerance", "99%", "--format", "json"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["cell"] == CELL
    return Path("picked").resolve()


@pytest.fixture
def address(picked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the program `serve.py` of the folder serves it."""
    handler = runpy.run_path(str(picked / "serve.py"))["Handler"]
    monkeypatch.setattr(handler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/run.html"
        server.shutdown()


@pytest.mark.thorough
def test_the_page_of_a_pick_answers_what_the_native_session_does(picked: Path, address: str) -> None:
    recipe = json.loads((picked / "deployment.json").read_text())
    x = np.random.default_rng(1).integers(-8, 8, (3, 16)).astype(np.float32)
    session = onnxruntime.InferenceSession(picked / recipe["artifact"]["file"], providers=["CPUExecutionProvider"])
    (expected,) = session.run(["y"], {"x": x})
    assert 0 < np.count_nonzero(expected) < expected.size
    before = browsing.browsers()
    browser = Browser(browsing.runtime().command())
    try:
        browser.open(address)
        said = browser.evaluate(PREDICT.format(shape=list(x.shape), values=x.ravel().tolist()))
    finally:
        browser.close()
    assert said == [["y", "float32", [3, 5], expected.ravel().tolist()]]
    assert not browsing.left_since(before)
