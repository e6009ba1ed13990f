"""onnxruntime-web in a page: its outputs and times, what it cannot do, and pages that end or never answer."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnx import helper

from bench.api import npm
from bench.api.errors import ArtifactError, ChildError
from bench.measure.process import Child
from bench.plugins.engines.browser import browser
from bench.plugins.engines.browser.page import Page
from support import browsers, browsing, small_models, typed_model

pytestmark = pytest.mark.timing  # clocks are compared, and processor time is told by process
RUNTIME = browsing.runtime()
PLAN = browsing.PLAN


@pytest.fixture(autouse=True, scope="module")
def page() -> Iterator[Page]:
    """The page that the tests of this process share; its browser leaves no process and no profile."""
    browsers.need(RUNTIME)
    if (other := type(RUNTIME).running) is not None:  # of other tests in this process, perhaps with more threads
        other.close()
        type(RUNTIME).running = None
    before = browsing.browsers()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in RUNTIME.environment(1).items():
            patch.setenv(name, value)
        RUNTIME.import_packages()
    page = type(RUNTIME).running
    assert isinstance(page, Page)
    yield page
    page.close()
    type(RUNTIME).running = None
    assert not browsing.left_since(before)
    assert not Path(page._browser._profile).exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return browsing.model(tmp_path / "small.onnx")


def test_outputs_of_all_types_come_in_the_order_of_the_task(tmp_path: Path) -> None:
    task, file = small_models.make_task(typed_model.TypesTask), typed_model.save(tmp_path / "types.onnx")
    with RUNTIME.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        for batch in (1, 2):
            feeds = typed_model.feeds(batch)
            typed_model.assert_right(session.run(feeds), feeds)


def test_a_burst_is_timed_by_the_page_in_the_process_of_the_page(page: Page, model: Path) -> None:
    session, feeds = browsing.opened(model), {"x": np.float32([[1, -2, 3]])}
    np.testing.assert_array_equal(session.run(feeds)[0], -feeds["x"])
    assert session.last_ns > 0
    begin = time.perf_counter_ns()
    cold, steady = session.burst(feeds, PLAN)
    took_ns = time.perf_counter_ns() - begin
    assert len(cold) == 1
    assert 3 <= len(steady) <= 50
    assert all(sample > 0 for sample in (*cold, *steady))
    assert sum(cold) + sum(steady) <= took_ns
    command = psutil.Process(session.pid).cmdline()
    assert "--type=renderer" in command, "whose memory and processor time are the session's"
    before = sum(psutil.Process(session.pid).cpu_times()[:2])
    page.ask("work", {"ms": 300})
    assert sum(psutil.Process(session.pid).cpu_times()[:2]) - before > 0.15, "it is the process that computes"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_bursts_of_a_page_have_the_priority_of_its_worker(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gives its threads the usual priority, whatever that of the process is that starts it."""
    monkeypatch.setattr(os, "getpriority", lambda *_: -3)
    session = browsing.opened(model)
    session.burst({"x": np.ones((1, 3), np.float32)}, PLAN)
    monkeypatch.undo()
    assert os.getpriority(os.PRIO_PROCESS, session.pid) == -3


def test_a_page_says_where_it_runs_and_what_a_visitor_downloads(page: Page, model: Path) -> None:
    session = browsing.opened(model)
    assert session.about["browser"].rpartition("/")[2] == browser.version()
    assert session.about["sandbox"] == ("off, as root" if os.geteuid() == 0 else "on")
    assert session.about["clock tick"] == f"{session.tick_ns / 1e3:g} us"
    assert float(session.about["clock tick"].removesuffix(" us")) <= 10, "100 us where a page is not isolated"
    assert session.untimed is None
    assert session.load_ns > 0
    own = RUNTIME.program_import_ns()
    assert own is not None
    assert 10_000_000 < own < 60_000_000_000
    dist = (npm.folder() / "node_modules" / "onnxruntime-web" / "dist").resolve()
    names = {path.relative_to(dist).name for path in page._server.served if path.is_relative_to(dist)}
    assert names == {"ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"}
    whole = sum((dist / name).stat().st_size for name in names) + model.stat().st_size
    assert 0.15 * whole < session.download_bytes < 0.5 * whole


def test_its_profiler_tells_the_time_of_each_node(tmp_path: Path) -> None:
    nodes = [helper.make_node("Sin", ["x"], ["a"], name="first"), helper.make_node("Cos", ["a"], ["y"], name="last")]
    path = browsing.model(tmp_path / "two.onnx", *nodes)
    how: dict[str, Any] = {"task": small_models.make_task(browsing.OneTask), "source": "onnx", "provider": "cpu"}
    feeds = {"x": np.ones((1000, 3), np.float32)}
    times = RUNTIME.profile_nodes(path, **how, threads=1, feeds=feeds, num_runs=5)
    assert times is not None
    assert [(each.name, each.operator, each.provider) for each in times] == [
        ("first", "Sin", "CPUExecutionProvider"),
        ("last", "Cos", "CPUExecutionProvider"),
    ]
    assert all(1000 <= each.time_ns < 1e9 and each.calls == 1 for each in times)


def test_an_operator_that_is_missing_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Unheard", ["x"], ["y"], domain="org.example")
    with pytest.raises(ArtifactError, match=r"org\.example.*Unheard"):
        browsing.opened(browsing.model(tmp_path / "missing.onnx", node, domain="org.example"))


@pytest.mark.parametrize("content", [b"no model", b""])
def test_a_file_that_is_no_model_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"protobuf parsing failed|ModelProto|No graph|load model"):
        browsing.opened(tmp_path / "model.onnx")


def test_feeds_that_do_not_fit_are_an_error_and_the_next_answer_is_right(model: Path) -> None:
    session = browsing.opened(model)
    with pytest.raises(ArtifactError, match="invalid dimensions for input: x"):
        session.run({"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(session.run({"x": np.ones((1, 3), np.float32)})[0], [[-1, -1, -1]])


def test_more_memory_than_webassembly_has_is_a_reason(tmp_path: Path) -> None:
    with (
        pytest.raises(ArtifactError, match=r"^out of memory: WebAssembly has 4 GiB at most"),
        browsing.opened(browsing.huge(tmp_path / "huge.onnx")) as session,
    ):
        session.run({"x": np.ones((1, 3), np.float32)})


@pytest.mark.parametrize(
    ("answer", "wall_ns"),
    [
        ({"span_ns": 20_000_000, "cold": [], "steady": [19_000_000]}, 10_000_000),
        ({"span_ns": 10_000_000, "cold": [6_000_000], "steady": [6_000_000]}, 20_000_000),
        ({"span_ns": 10_000_000, "cold": [1_000_000], "steady": [8_000_000]}, 100_000_000),
    ],
    ids=["longer than here", "samples longer than their burst", "slow"],
)
def test_a_clock_that_is_not_this_processs_is_not_trusted(page: Page, answer: dict[str, Any], wall_ns: int) -> None:
    own = object.__new__(Page)
    own._late_ns = []
    right = {"span_ns": 10_000_000, "cold": [1_000_000], "steady": [8_000_000]}
    own._check_pace(right, 12_000_000)
    own._late_ns = [answer["span_ns"] * 9] * 7
    with pytest.raises(ArtifactError, match="clock cannot be trusted"):
        own._check_pace(answer, wall_ns)


def test_an_inference_that_is_shorter_than_a_tick_is_a_reason(page: Page) -> None:
    with pytest.raises(ArtifactError, match=r"^an inference is shorter than a tick of the page's clock, [\d.]+ us$"):
        page._check_pace({"span_ns": 10_000_000, "cold": [5_000], "steady": [5_000, 0, 5_000]}, 12_000_000)


def test_a_page_whose_clock_runs_fast_is_found(page: Page, model: Path) -> None:
    session, feeds = browsing.opened(model), {"x": np.ones((1, 3), np.float32)}
    page._browser.evaluate("performance.now = (own => () => 3 * own())(performance.now.bind(performance)); 0")
    try:
        with pytest.raises(ArtifactError, match="clock cannot be trusted"):
            session.burst(feeds, {**PLAN, "target_ns": 200_000_000, "max_runs": 1_000_000})
    finally:
        page._browser.evaluate("delete performance.now; 0")
    page._late_ns.clear()
    session.burst(feeds, PLAN)


@pytest.mark.parametrize("speed", [0.9, 0.98, 1.02, 1.1])
def test_a_clock_that_runs_a_little_otherwise_is_found_after_seconds(page: Page, speed: float) -> None:
    """Questions of a millisecond, whose clock the page reads at some time meanwhile."""
    own = object.__new__(Page)
    own._first = None
    begins_ns = [int(at * 1e8) for at in range(31)]

    def look(at: float) -> None:
        for begin_ns in begins_ns:
            own._check_clock(begin_ns, begin_ns + 1_000_000, 7_000_000_000 + int(at * (begin_ns + 400_000)))

    with pytest.raises(ArtifactError, match="clock cannot be trusted"):
        look(speed)
    own._first = None
    look(1.005)


def test_a_page_whose_timers_are_slowed_down_is_refused(monkeypatch: pytest.MonkeyPatch, page: Page) -> None:
    monkeypatch.setattr(sys.modules[Page.__module__], "_SLOWED_MS", 0.001)
    with pytest.raises(ArtifactError, match="the page is slowed down: timers of no delay took"):
        Page(RUNTIME.command(), engine="ort", threads=1, provider="wasm")


def test_memory_that_the_worker_may_not_take_is_no_limit_of_webassembly(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = object.__new__(Page)
    own._server = page._server
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 << 30, 2 << 30))
    assert isinstance(own._error({"error": "Array buffer allocation failed"}), MemoryError)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert "WebAssembly has 4 GiB at most" in str(own._error({"error": "Array buffer allocation failed"}))


def test_a_page_that_is_hidden_is_refused(page: Page) -> None:
    page._browser.evaluate(
        "Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true}); 0"
    )
    with pytest.raises(ArtifactError, match="the page is hidden"):
        page.ask("nothing")
    page._browser.evaluate("delete document.visibilityState; 0")
    page.ask("nothing")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """A worker that is confined as those of cells; it leaves no process of a browser and no profile."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    before = browsing.browsers()
    with Child(environment=RUNTIME.environment(1), memory_bytes=4 << 30) as child:
        yield child
    assert not browsing.left_since(before)


def test_it_runs_in_a_confined_worker(worker: Child, model: Path) -> None:
    assert worker.request(browsing.run, timeout_s=60, path=str(model)) == {"outputs": [-1, -1, -1]}


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [
        ("crash", "error", "the page crashed: its process ended"),
        ("kill", "error", "the page crashed: its process ended"),
        ("end", "error", "the browser ended, with status -9"),
        ("hang", "timeout", "no answer within 8 s"),
    ],
)
def test_a_page_that_ends_or_never_answers_is_a_reason(
    worker: Child, model: Path, how: str, kind: str, reason: str
) -> None:
    worker.request(browsing.run, timeout_s=60, path=str(model))
    with pytest.raises(ChildError) as raised:
        worker.request(browsing.misbehave, timeout_s=8, how=how, path=str(model))
    assert raised.value.kind == kind
    assert raised.value.reason.startswith(reason)


def test_a_page_reaches_no_address_but_its_own(worker: Child, model: Path) -> None:
    """Neither by the policy of the page nor by the network of the worker, which has none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for asked in (address, "http://example.org/"):
            answer = worker.request(browsing.reach, timeout_s=60, address=asked, path=str(model))["answer"]
            assert "Failed to fetch" in answer
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_same_holds_in_a_process_with_a_network(page: Page) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        code = f"fetch({address!r}, {{mode: 'no-cors'}}).then(() => 'reached', (error) => String(error))"
        assert "Failed to fetch" in page._browser.evaluate(code)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_session_has_a_page_of_its_number_of_threads(page: Page, model: Path) -> None:
    """Also where nothing told them when the page was started, as in a program that a pick wrote."""
    first, feeds = browsing.opened(model), {"x": np.ones((1, 3), np.float32)}
    task = small_models.make_task(browsing.OneTask)
    second = RUNTIME.open(model, task=task, source="onnx", provider="cpu", threads=2)
    other = type(RUNTIME).running
    assert isinstance(other, Page)
    try:
        assert (page.threads, other.threads) == (1, 2)
        assert second.pid == other.pid != first.pid == page.pid
        for session in (first, second):
            np.testing.assert_array_equal(session.run(feeds)[0], -feeds["x"])
    finally:
        other.close()
        type(RUNTIME).running = page


def test_an_error_in_a_session_is_not_that_of_its_closing(page: Page, model: Path) -> None:
    def fail() -> None:
        raise ArtifactError("closing failed")

    def use(error: str) -> None:
        session = browsing.opened(model)
        session.close = fail
        with session:
            if error:
                raise ArtifactError(error)

    for error, reason in (("running failed", "running failed"), ("", "closing failed")):
        with pytest.raises(ArtifactError, match=f"^{reason}$"):
            use(error)


def test_a_browser_that_answers_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = browsing.browsers()
    folder = Path(tempfile.mkdtemp(prefix="t"))  # a short one: the browser has a socket there
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    own = browser.Browser(RUNTIME.command())
    assert len([*folder.iterdir()]) == 2
    monkeypatch.setattr(browser, "_ENDING_S", 1.0)
    os.kill(own.pid, signal.SIGSTOP)
    began_s = time.monotonic()
    own.close()
    assert time.monotonic() - began_s < 30
    own.close()  # once more does nothing: its descriptors may be those of other files by now
    assert not browsing.left_since(before)
    assert [*folder.iterdir()] == [], "neither its profile nor the folder of its socket"
    folder.rmdir()


def test_a_process_that_ends_ends_its_browser(tmp_path: Path) -> None:
    before, code = (
        browsing.browsers(),
        f"""
from bench.plugins.engines.browser.browser import Browser
print(Browser({RUNTIME.command()!r}).product)
""",
    )
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert browser.version() in done.stdout
    assert not browsing.left_since(before)
    assert list(tmp_path.glob("browser-*")) == []


def test_a_corrupt_package_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = browsing.browsers()
    shutil.copytree(npm.folder() / "node_modules" / "onnxruntime-web", tmp_path / "node_modules" / "onnxruntime-web")
    wasm = tmp_path / "node_modules" / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
    wasm.write_bytes(wasm.read_bytes()[:100_000])
    monkeypatch.setenv(npm.FOLDER, str(tmp_path))
    with pytest.raises(ArtifactError, match=r"WebAssembly|wasm"):
        Page(RUNTIME.command(), engine="ort", threads=1, provider="wasm")
    shutil.rmtree(wasm.parent)
    reason = r"Failed to fetch dynamically imported module: packages/onnxruntime-web/dist/ort\.wasm\.min\.mjs"
    with pytest.raises(ArtifactError, match=f"^{reason}$"):  # without the page's address, which has a secret part
        Page(RUNTIME.command(), engine="ort", threads=1, provider="wasm")
    assert not browsing.left_since(before)


def test_a_page_that_another_was_to_follow_is_no_page_any_more(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second page does not start; the next session has a page of its own, not the one that was closed."""
    how: dict[str, Any] = {"task": small_models.make_task(browsing.OneTask), "source": "onnx", "provider": "cpu"}
    shared, before = type(RUNTIME).running, browsing.browsers()
    type(RUNTIME).running = None
    try:
        RUNTIME.import_packages()
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[Page.__module__], "_SLOWED_MS", 0.001)
            with pytest.raises(ArtifactError, match="the page is slowed down"):
                RUNTIME.open(model, **how, threads=2)
        session: Any = RUNTIME.open(model, **how, threads=1)
        np.testing.assert_array_equal(session.run({"x": np.ones((1, 3), np.float32)})[0], [[-1, -1, -1]])
        session._page.close()
    finally:
        type(RUNTIME).running = shared
    assert not browsing.left_since(before)
