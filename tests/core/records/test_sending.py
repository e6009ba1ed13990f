"""What the store keeps of failures, and the page to send, name no home folder, user, host or person's path."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.api.errors import ArtifactError, ChildError
from bench.records import assemble
from bench.records.lines import Failure, Header
from bench.records.redaction import fit_to_send, record_to_send, row_to_send
from bench.records.store import Store
from support import records as made
from support.page_records import records

HOME = "/home/zoe77"
FRAMES = (f'File "{HOME}/proj/models/m.py", line 3, in f', f'File "{HOME}/v/lib/python3.11/site-packages/a/b.py"')
TRACE = "\n  ".join(("Traceback:", *FRAMES))
SECRETS = ("zoe77", "lab-12", "/home", "/mnt")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("LOGNAME", "zoe77")
    monkeypatch.setattr("socket.gethostname", lambda: "lab-12")


def test_a_failure_is_stored_without_places(tmp_path: Path) -> None:
    store = Store(tmp_path, "machine")
    store.folder.mkdir()
    header = made.record(made.BASELINE).header
    assert header.artifact is not None
    told = {"calibration": f"{HOME}/data/x.npz", "nodes": 3, "versions": {"onnx": "1.20"}}
    store.append("k", telling(header, told))
    try:
        raise ArtifactError(f"prepare: cannot open {HOME}/m.onnx on lab-12") from ChildError(
            "error", "no", detail=TRACE
        )
    except ArtifactError as error:
        store.append("k", Failure.of("prepare", error))
    store.append(
        "k",
        made.quality(
            reason=f"{HOME}/x.py is wrong",
            doubts=f"unless {HOME}/y.py is right",
            warning=f"see {HOME}/log.txt",
            lost="no targets",
            convention=f"as {HOME}/task.py says",
            repeated=f"8 are stored again: {HOME}/a as b",
        ),
    )

    text = (store.folder / "k.jsonl").read_text()

    assert [secret for secret in SECRETS if secret in text] == []
    first, failure, quality = map(json.loads, text.splitlines())
    assert first["artifact"]["info"] == {"calibration": ".../x.npz", "nodes": 3, "versions": {"onnx": "1.20"}}
    assert failure["reason"] == "prepare: cannot open .../m.onnx on <name>"
    assert failure["detail"] == 'Traceback:\n  File ".../m.py", line 3, in f\n  File "site-packages/a/b.py"'
    assert (quality["reason"], quality["warning"]) == (".../x.py is wrong", "see .../log.txt")
    assert quality["doubts"] == "unless .../y.py is right"
    assert quality["convention"] == "as .../task.py says"
    assert quality["repeated"] == "8 are stored again: .../a as b"


def telling(header: Header, info: dict[str, object]) -> Header:
    assert header.artifact is not None
    return replace(header, artifact=dataclasses.replace(header.artifact, info=info))


def test_a_line_without_places_is_stored_as_it_is() -> None:
    for record in records().values():
        for line in (record.header, record.quality, record.failure, *record.launches):
            assert line is None or fit_to_send(line) == line


def test_records_of_earlier_versions_are_sent_without_places() -> None:
    found = made.record(made.BASELINE, quality=None, failure=Failure(stage="prepare", reason="/mnt/x/lib.so of zoe77"))
    (row,) = assemble.rows({made.BASELINE: found})

    assert record_to_send(found).failure == Failure(stage="prepare", reason=".../lib.so of <name>")
    assert row.reason == "/mnt/x/lib.so of zoe77"
    assert row_to_send(row) == dataclasses.replace(row, reason=".../lib.so of <name>")
