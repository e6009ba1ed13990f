"""The page of a pick: its files run a model from a folder that any server with the right headers has."""

from __future__ import annotations

import functools
import http.client
import http.server
import json
import runpy
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.api import cache, npm
from bench.api.errors import InputError
from bench.decisions import page_files
from bench.plugins.engines.browser import deployed
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


def test_files_that_an_earlier_pick_wrote_go_and_others_stay(tmp_path: Path) -> None:
    """A page of the last pick would run the artifact of this one, or none."""
    folder, outside = tmp_path / "pick", tmp_path / "outside.txt"
    source = tmp_path / "source.mjs"
    source.write_text("module")
    outside.write_text("outside")
    earlier = page_files.write(
        folder, {"run.html": "page", "run.mjs": "script", "packages/a.mjs": source, "b.mjs": "b"}, {}
    )
    (folder / "run.mjs").write_text("mine")
    (folder / "b.mjs").unlink()
    (folder / "b.mjs").symlink_to(outside)
    earlier |= {"../outside.txt": cache.file_digest(outside), str(outside): cache.file_digest(outside)}
    earlier["b.mjs"] = cache.file_digest(outside)
    assert page_files.write(folder, {}, earlier) == {}
    assert sorted(path.name for path in folder.iterdir()) == ["b.mjs", "run.mjs"]
    assert (folder / "run.mjs").read_text() == "mine"
    assert outside.read_text() == "outside"


def test_names_of_outputs_are_those_of_javascript(tmp_path: Path) -> None:
    browsers.need(RUNTIME)
    names = ["it's", 'a"b', "\U000e0001", "\u2028", "</script>"]
    script = str(RUNTIME.page("model.onnx", names, threads=1)["run.mjs"])
    text = script.partition("session.run(tensors, ")[2].partition(");\n")[0]
    assert json.loads(text) == names
    assert text.isascii()


def test_its_server_serves_its_own_folder_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pick", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.mjs").write_text(name)
    (tmp_path / "pick" / "serve.py").write_text(deployed._SERVE)
    monkeypatch.chdir(tmp_path / "elsewhere")
    handler = runpy.run_path(str(tmp_path / "pick" / "serve.py"))["Handler"]
    monkeypatch.setattr(handler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = functools.partial(_asked, server.server_address[1])
        assert asked("/elsewhere.mjs")[0] == 404
        status, headers, body = asked("/pick.mjs")
        server.shutdown()
    assert (status, body, headers["content-type"]) == (200, b"pick", "text/javascript")
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"


def _asked(port: int, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, {name.lower(): value for name, value in response.headers.items()}, response.read()
    connection.close()
    return found


def test_without_the_packages_the_reason_says_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(npm.FOLDER, str(tmp_path))
    with pytest.raises(InputError, match=r"onnxruntime-web is not installed.*bench install npm"):
        RUNTIME.page("model.onnx", ["y"], threads=1)


def test_other_runtimes_write_no_page() -> None:
    assert RUNTIME.page("model.onnx", ["y"], threads=1).keys() >= {"run.html", "run.mjs", "serve.py"}
    from bench.plugins import catalog

    assert catalog.runtime("onnxruntime").page("model.onnx", ["y"], threads=1) == {}
