"""The page of a pick: its files run a model from a folder that any server with the right headers has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.decisions import page_files
from bench.plugins.engines.browser.browser import Browser
from bench.plugins.engines.browser.server import Server
from support import browsers, browsing

RUNTIME = browsing.runtime()
PREDICT = """
(async () => {
  const state = document.getElementById('state');
  while (state.textContent === 'loading') await new Promise((done) => setTimeout(done, 10));
  if (state.textContent !== 'ready') return state.textContent;
  const values = new Float32Array([1, -2, 3, 4, 5, -6]);
  const { y } = await predict({ x: { dtype: 'float32', shape: [2, 3], values } });
  return [y.dtype, y.shape, Array.from(y.values)];
})()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server({"": tmp_path})
    yield server
    server.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_page_runs_the_model_of_its_folder(tmp_path: Path, server: Server, threads: int) -> None:
    browsers.need(RUNTIME)
    before = browsing.browsers()
    browsing.model(tmp_path / "model.onnx")
    page_files.write(tmp_path, RUNTIME.page("model.onnx", ["y"], threads=threads), {})
    server._folders["packages"] = tmp_path / "packages"
    browser = Browser(RUNTIME.command())
    try:
        browser.open(server.address + "run.html")
        assert browser.evaluate(PREDICT) == ["float32", [2, 3], [-1, 2, -3, -4, -5, 6]]
    finally:
        browser.close()
    assert not browsing.left_since(before)


def test_a_file_that_no_pick_wrote_is_left_as_it_is(tmp_path: Path) -> None:
    wanted = {"run.html": "new", "packages/a.mjs": shutil.copy(__file__, tmp_path / "source")}
    first = page_files.write(tmp_path / "pick", {**wanted, "run.html": "old"}, {})
    again = page_files.write(tmp_path / "pick", wanted, first)
    assert (tmp_path / "pick" / "run.html").read_text() == "new"
    assert again["packages/a.mjs"] == first["packages/a.mjs"]
    assert page_files.write(tmp_path / "pick", wanted, {}) == again, "what is the same may be written again"
    (tmp_path / "pick" / "run.html").write_text("mine")
    with pytest.raises(InputError, match=r"run\.html is there, and not as a pick wrote it"):
        page_files.write(tmp_path / "pick", wanted, again)
    assert (tmp_path / "pick" / "run.html").read_text() == "mine"


def test_other_runtimes_write_no_page() -> None:
    assert RUNTIME.page("model.onnx", ["y"], threads=1).keys() >= {"run.html", "run.mjs", "serve.py"}
    from bench.plugins import catalog

    assert catalog.runtime("onnxruntime").page("model.onnx", ["y"], threads=1) == {}
