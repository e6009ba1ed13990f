"""onnxruntime-web by WebGPU: right outputs, and no times where software imitates the adapter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bench.api.errors import ArtifactError
from bench.plugins.engines.browser.page import Page
from support import browsers, browsing

RUNTIME = browsing.runtime("ort_webgpu")


@pytest.fixture(autouse=True)
def _page(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    browsers.need(RUNTIME)
    monkeypatch.setattr(
        sys.modules[type(RUNTIME).__module__], "_DEVICES", ()
    )  # as on a machine without a graphics card
    before = browsing.browsers()
    yield
    page = type(RUNTIME).running
    if page is not None:
        page.close()
        type(RUNTIME).running = None
    assert not browsing.left_since(before)


def test_with_an_imitated_adapter_outputs_are_right_and_there_are_no_times(tmp_path: Path) -> None:
    session = browsing.opened(browsing.model(tmp_path / "small.onnx"), "ort_webgpu")
    feeds = {"x": np.float32([[1, -2, 3], [4, 5, -6]])}
    np.testing.assert_array_equal(session.run(feeds)[0], -feeds["x"])
    assert session.untimed == "a software adapter imitates the device: its outputs are verified, its times say nothing"
    assert "swiftshader" in session.about["adapter"]
    assert session.about["float16"] == "no"


def test_the_precision_of_a_file_is_known_where_its_products_leave_no_choice(tmp_path: Path) -> None:
    plain = browsing.model(tmp_path / "plain.onnx")
    scale = helper.make_node("Constant", [], ["scale"], value_float=0.1)
    coarse = helper.make_node("QuantizeLinear", ["x", "scale"], ["q"])
    back = helper.make_node("DequantizeLinear", ["q", "scale"], ["y"])
    quantized = browsing.model(tmp_path / "quantized.onnx", scale, coarse, back)
    for path, precision in ((plain, "float32"), (quantized, None)):
        assert RUNTIME.inspect(path, provider="webgpu", shapes={}) == {
            "precision": precision,
            "warning": "where its nodes run cannot be told: operators that WebGPU has not run in WebAssembly",
        }


def test_figures_depend_on_the_graphics_card() -> None:
    assert RUNTIME.program_versions()["graphics"] == "imitated"


def test_without_an_adapter_the_reason_says_so() -> None:
    command = [part for part in RUNTIME.command() if "webgpu" not in part]
    with pytest.raises(ArtifactError, match="no adapter for WebGPU"):
        Page([*command, "--disable-gpu"], engine="ort", threads=1, provider="webgpu")
