"""`bench load` itself: stopped while it measures, and asked for what it cannot do."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from support.features import needs

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = needs("load")
CELL = "toy/null/native/raw/null/cpu/b1t1"


def test_a_service_alone(harness: Harness) -> None:
    text = harness.run("load", CELL, "--rate", "100", "--format", "md")
    assert "| cell | served by | scenario | asked | MLPerf loadgen says |" in text
    assert f"| {CELL.replace('_', chr(92) + '_')} | 1 worker | server | 100/s |" in text
    (folder,) = (harness.folder / "results").glob("*/plots")
    assert {path.suffix for path in folder.glob("*-queue.*")} == {".png", ".svg"}
    (run,) = harness.lines("load_run")
    assert run["scenario"] == "server"
    assert harness.rows()[CELL]["status"] == "ok"


def test_stopped_by_ctrl_c_under_load(harness: Harness) -> None:
    harness.quick = False
    process = harness.start("load", CELL, "--rate", "50")
    begun = time.monotonic()
    while not list((harness.folder / "results").glob("*/loadgen/*/*")):  # the load generator is at work
        assert process.poll() is None, harness.stderr()
        assert time.monotonic() - begun < 60
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert process.wait(timeout=10) == 130
    assert harness.stderr().splitlines()[-1].endswith("0 launches kept; the same command goes on")
    assert "Traceback" not in harness.stderr()
    while harness.workers():
        assert time.monotonic() - sent < 20
        time.sleep(0.05)


def test_what_cannot_be_asked(harness: Harness) -> None:
    for asked, told in (
        (("--plan",), "--plan needs a bound on the latency"),
        (
            ("--scenario", "streams"),
            "no scenario 'streams'; there are single_stream, multi_stream, server, offline, spo",
        ),
        (("--max-delay", "soon"), "not a duration: 'soon'"),
        (("--latency", "20"), "a time without a unit is in seconds; write 20ms"),
        (("--baseline", CELL.replace("b1t1", "b2t1")), "answers another request than the cells"),
        (("--baseline", CELL, "--plan"), "--plan compares with the way that answers most requests a second"),
        (
            ("--plan", "--rate", "5", "--max-batch", "4"),
            "--plan chooses --rate, --max-batch for itself, and takes none (leave out --rate, --max-batch)",
        ),
    ):
        harness.here("load", CELL, *asked, code=2)
        assert told in harness.stderr()
