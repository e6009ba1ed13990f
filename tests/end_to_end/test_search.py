"""`bench search` from nothing: the fixed matrix, proposals, finalists on the test split, and the saved deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.features import needs

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = needs("search")

VARIANT = '''
import json

from bench.api import Part, Variant, mixture


class Halving(Variant):
    """Each of two parts may be left out: the first is of no use, the second makes the outputs right."""

    formats = ("null",)
    options = ()
    letters = {"f": "as it is", "h": "left out"}
    lossy = True

    def parts(self, source, *, task):
        return [Part(name=name, operator=name, alike=name, letters="fh", num_weights=1) for name in ("idle", "useful")]

    def apply(self, source, target, *, option, task):
        chosen = mixture.chosen(option, self.parts(source, task=task)).get("h", [])
        model = json.loads(source.read_text())
        model["rounds"] = model["rounds"] * (1 - 0.4 * len(chosen))
        model["scale"] = 2.1 if "useful" in chosen else 2.0
        target.write_text(json.dumps(model))
        return {}
'''


@pytest.fixture
def searching(harness: Harness) -> Harness:
    (harness.folder / "plugins" / "variants").mkdir(parents=True)
    (harness.folder / "plugins" / "variants" / "halving.py").write_text(VARIANT)
    harness.environment["BENCH_PATH"] = str(harness.folder / "plugins")
    return harness


@pytest.mark.thorough
def test_the_winner_is_fast_and_right(searching: Harness) -> None:
    printed = searching.here("search", "toy", "--max-metric-drop", "40%", "--budget", "30s")
    assert "toy/null/native/halving-1h1f/null/cpu/b1t1\nbeats toy/null/native/raw/null/cpu/b1t1: latency 0." in printed
    assert "4 proposals ran" in printed
    compared = "toy/null/native/halving-1h1f/null/cpu/b1t1' --vs 'toy/null/native/raw/null/cpu/b1t1'"
    assert f"bench explain '{compared}" in printed
    again = searching.here("search", "toy", "--max-metric-drop", "40%", "--budget", "10s")
    assert "toy/null/native/halving-1h1f/null/cpu/b1t1\nbeats toy/null/native/raw/" in again, "not held against itself"
    folder = searching.folder / "results" / "picks" / "toy-b1t1-latency"
    recipe = json.loads((folder / "deployment.json").read_text())
    assert recipe["cell"] == "toy/null/native/halving-1h1f/null/cpu/b1t1"
    assert recipe["chosen_for"] == {"--max-metric-drop": 0.4, "--objective": "latency"}
    assert json.loads((folder / recipe["artifact"]["file"]).read_text()) == {"rounds": pytest.approx(900), "scale": 2.0}
    plots = {path.name for path in (searching.folder / "results").glob("*/plots/*.png")}
    assert plots == {"toy-b1t1-latency-search.png", "toy-b1t1-latency-letters-1.png"}
    shown = {row["cell"]: row for row in json.loads(searching.here("show", "toy~tuning/*", "--format", "json"))}
    assert {cell.split("/")[3] for cell in shown} == {"raw", "halving-2h", "halving-1h1f", "halving-1f1h"}
    assert {row["metric_name"] for row in shown.values()} == {"snr_db"}
    everything = json.loads(searching.here("show", "--format", "json"))
    assert {row["task"] for row in everything} == {"toy"}, "proposals are shown where they are asked for"
    asked = {row["variant"] for row in everything}
    assert asked == {"raw", "halving-1h1f"}, "what loses the metric on the tuning samples is not confirmed"


@pytest.mark.thorough
def test_nothing_better_is_said_and_ends_with_1(searching: Harness) -> None:
    path = searching.folder / "plugins" / "variants" / "halving.py"
    path.write_text(path.read_text().replace('2.1 if "useful" in chosen else 2.0', "2.1"))
    printed = searching.here("search", "toy", "--max-metric-drop", "40%", "--budget", "20s", code=1)
    assert "Nothing beats toy/null/native/raw/null/cpu/b1t1: no proposal is expected to." in printed
    assert not Path(searching.folder / "results" / "picks").exists()


def test_what_cannot_be_searched_is_said_in_a_line(harness: Harness) -> None:
    for arguments, said in (
        ((), "name a task, or a model of your own with --model"),
        (("toy", "--model", "model.onnx"), "name a task, or a model of your own with --model, not both"),
        (("toy", "--dim", "width=3"), "--dim is for a model of your own"),
        (("--model", "model.onnx", "--dim", "width=3,4"), "--dim width: a search is for one request"),
        (("toy", "--threads", "4096"), "--threads 4096 is more than the"),
    ):
        harness.here("search", *arguments, code=2)
        assert said in harness.stderr()


def test_a_task_of_which_nothing_can_be_chosen(harness: Harness) -> None:
    harness.here("search", "toy", "--budget", "2s", code=2)
    assert "nothing can be chosen for an export of toy here" in harness.stderr()
