"""A session whose times say nothing: its outputs are verified, and no time is stored, shown or used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli.commands import app
from bench.plugins import catalog
from support import quick_bench

REASON = "a software adapter imitates the device"
RUNTIME = f"""
from bench.plugins.runtimes.null import NullRuntime

class Imitated(NullRuntime):
    default_for = ()

    def open(self, artifact, **how):
        session = super().open(artifact, **how)
        session.untimed = {REASON!r}
        session.about = {{"adapter": "imitated", "float16": "no"}}
        session.download_bytes = 12_345
        session.tick_ns = 5_000
        return session
"""
NULL, IMITATED = (f"toy/null/native/raw/{name}/cpu/b1t1" for name in ("null", "imitated"))


@pytest.fixture
def results(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a run of both runtimes."""
    path = plugin_folder / "runtimes" / "imitated.py"
    path.parent.mkdir()
    path.write_text(RUNTIME)
    catalog.forget()
    quick_bench.shorten(monkeypatch.setattr)
    ran = CliRunner().invoke(app, ["run", NULL, IMITATED, "--budget", "3s", "--results", "results", "--strict"])
    assert ran.exit_code == 0, ran.output
    assert "not timed yet" not in ran.output
    return Path("results")


def shown(results: Path) -> dict[str, dict[str, object]]:
    text = CliRunner().invoke(app, ["show", "--results", str(results), "--format", "json"]).stdout
    return {row["cell"]: row for row in json.loads(text)}


def test_its_outputs_are_verified_and_it_has_no_time(results: Path) -> None:
    rows = shown(results)
    right, row = rows[NULL], rows[IMITATED]
    assert right["untimed"] is None
    assert right["latency_p50_ns"] is not None
    assert (row["status"], row["fidelity"], row["untimed"]) == ("ok", "exact", REASON)
    assert (row["about"], row["download_bytes"]) == ("adapter imitated, float16 no", 12_345)
    stored = [json.loads(line) for path in results.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert [line["tick_ns"] for line in stored if line["kind"] == "quality" and "tick_ns" in line] == [5_000]
    times = [name for name in row if name.endswith(("_ns", "ratio", "verdict", "throughput_per_s", "rss_bytes"))]
    assert len(times) > 10
    assert {name: row[name] for name in times if row[name] is not None} == {}
    assert (row["num_launches"], row["num_samples"]) == (0, 0)
    lines = [json.loads(line) for path in results.rglob("*.jsonl") for line in path.read_text().splitlines()]
    launched = [line["kind"] for line in lines if line["kind"] == "launch"]
    assert launched, "the baseline was timed"
    of_imitated = [path for path in results.rglob("*.jsonl") if f'"{IMITATED}"' in path.read_text().splitlines()[0]]
    assert len(of_imitated) == 1
    assert '"kind":"launch"' not in of_imitated[0].read_text().replace(" ", "")


@pytest.mark.parametrize(
    ("runtime", "code", "line"),
    [
        (RUNTIME, 0, f"no time is stored, for {REASON}"),
        (
            RUNTIME.replace("session.untimed =", "raise ValueError('no adapter')  #"),
            1,
            "no cell could be timed; 1 of 1",
        ),
    ],
)
def test_a_run_of_such_cells_alone_ends_well_and_one_that_verifies_none_does_not(
    runtime: str, code: int, line: str, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugin_folder / "runtimes" / "imitated.py"
    path.parent.mkdir()
    path.write_text(runtime)
    catalog.forget()
    quick_bench.shorten(monkeypatch.setattr)
    ran = CliRunner().invoke(app, ["run", IMITATED, "--budget", "3s", "--results", "results"])
    assert ran.exit_code == code, ran.output
    assert f"bench: {line}" in ran.output


def test_tables_say_why_and_no_pick_has_it(results: Path) -> None:
    table = CliRunner().invoke(app, ["show", "--results", str(results), "--format", "md"]).stdout
    (line,) = [line for line in table.splitlines() if "imitated" in line and line.startswith("|")]
    assert "not timed" in line
    assert REASON in table
    picked = json.loads(
        CliRunner().invoke(app, ["pick", "toy", "--results", str(results), "--dry-run", "--format", "json"]).stdout
    )
    assert NULL in json.dumps(picked)
    assert IMITATED not in json.dumps(picked)


def test_a_stored_launch_of_such_a_cell_is_not_shown(results: Path) -> None:
    """As one that was stored before the session said so."""
    (own,) = [path for path in results.rglob("*.jsonl") if f'"{IMITATED}"' in path.read_text().splitlines()[0]]
    (other,) = [path for path in results.rglob("*.jsonl") if f'"{NULL}"' in path.read_text().splitlines()[0]]
    launches = [line for line in other.read_text().splitlines() if json.loads(line)["kind"] == "launch"]
    with own.open("a") as file:
        file.writelines(f"{line}\n" for line in launches)
    row = shown(results)[IMITATED]
    assert (row["latency_p50_ns"], row["ratio"], row["num_launches"]) == (None, None, 0)


def test_a_worker_refuses_to_time_it(results: Path) -> None:
    """`bench check` and `bench compare` measure pairs of cells without a sweep."""
    from bench.api.cell import Cell
    from bench.api.errors import ArtifactError
    from bench.measure.limits import Limits
    from bench.pipeline import operations, prepare

    limits = Limits()
    cell = Cell.from_path(IMITATED)
    artifact, inputs = prepare.artifact_of(cell, limits), prepare.inputs_of(catalog.task(cell.task), limits)
    with pytest.raises(ArtifactError, match=f"^not timed: {REASON}$"):
        operations.open_session(cell=IMITATED, artifact=str(artifact.path), inputs=str(inputs))
