"""The scripts in `benchmarks/` that measure for hours: what they plant, count and conclude."""

from __future__ import annotations

import inspect
import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Samples
from bench.api.loading import load_module
from bench.measure import stats
from bench.onnxfile.costs.profile import profile
from bench.pipeline import code_digests
from support.features import needs

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def test_a_strip_is_more_work_in_proportion_and_leaves_the_outputs_as_they_are(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.normal(size=(4, 1, 3, 3)).astype(np.float32), "weight")
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"image": ["batch", 1, 100, 32], "sharp": ["batch", 4, 100, 32]}.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["wide"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["wide"], ["sharp"], name="relu"),
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight])
    source, target = tmp_path / "plain.onnx", tmp_path / "planted.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    images = random.normal(size=(1, 1, 100, 32)).astype(np.float32)
    spec = SimpleNamespace(name="image")
    task: Any = SimpleNamespace(inputs=(spec,), samples=lambda split: Samples(inputs={"image": images}, targets=None))
    strip = load_module(SCRIPTS / "plugins" / "variants" / "strip.py")
    info = strip.Strip(name="strip", path=target).apply(source, target, option="20", task=task)
    assert info == {"planted_rows": 20}
    plain, planted = (profile(path, dims={"batch": 1}) for path in (source, target))
    macs = [sum(node.macs for node in found.nodes if node.op_type == "Conv") for found in (plain, planted)]
    assert macs[1] == 1.2 * macs[0]
    outputs = [
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
        for path in (source, target)
    ]
    assert np.array_equal(*outputs)


@needs("compare")
def test_each_revision_has_its_own_slowdown(scripts: Any, tmp_path: Path) -> None:
    folders = scripts("planted").revisions(tmp_path)
    assert list(folders) == [0, 3, 5, 10, 20]
    today = {
        percent: load_module(folder / "variants" / "strip.py").TODAY_PERCENT for percent, folder in folders.items()
    }
    assert today == {percent: percent for percent in folders}


def test_the_spread_over_sweeps_counts_the_intervals_that_hold_the_median(scripts: Any) -> None:
    rows = [
        SimpleNamespace(ratio=ratio, ratio_low=ratio * low, ratio_high=ratio * 1.05)
        for ratio, low in [(1.0, 0.98), (1.02, 0.99), (1.1, 0.99)]  # the last interval begins above the median
    ]
    spread = scripts("sweeps").spread_of(rows)
    assert (spread.num_sweeps, spread.num_holding, spread.median) == (3, 2, 1.02)
    assert spread.log_sd == pytest.approx(np.std(np.log([1.0, 1.02, 1.1]), ddof=1))
    assert math.isnan(scripts("sweeps").spread_of(rows[:1]).log_sd)


@needs("compare")
def test_the_smallest_slowdown_found_is_told_and_false_alarms_fail(
    scripts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = scripts("planted")
    found = {0: 0, 3: 8, 5: 9, 10: 10, 20: 10}
    trials = [
        planted.Trial(percent=percent, verdict=stats.SLOWER if number < count else stats.UNDECIDED, text="")
        for percent, count in found.items()
        for number in range(10)
    ]
    truth = {percent: 1 + percent / 100 for percent in found}
    assert planted.summarize(trials, truth) == []
    assert "the smallest slowdown found in 9 of 10: 5 % planted, 5.0% slower" in capsys.readouterr().out
    alarm = planted.Trial(percent=0, verdict=stats.FASTER, text="")
    assert planted.summarize([*trials[1:], alarm], truth) == ["too many false alarms"]
    unseen = [trial for trial in trials if trial.verdict != stats.SLOWER or trial.percent == 3]
    assert planted.summarize(unseen, truth) == ["no slowdown was found in 9 of 10 trials"]


def test_a_sweep_that_is_over_is_not_repeated(scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = scripts("sweeps")
    results = tmp_path / "sweep"
    assert sweeps.over(results) is None
    (tmp_path / "sweep.json").write_text('{"start_s": 3.0, "wall_s": 2.0}')
    monkeypatch.setattr(sweeps.subprocess, "run", lambda *_, **__: pytest.fail("it runs again"))
    swept = sweeps.run(["toy/null"], results, budget="1s")
    assert (swept.results, swept.start_s, swept.wall_s) == (results, 3.0, 2.0)
    sweeps.keep(tmp_path, busy=0)
    with pytest.raises(SystemExit, match="name another folder"):
        sweeps.keep(tmp_path, busy=2)


def test_variograms_tell_states_from_the_scatter_of_launches(scripts: Any) -> None:
    states, random = scripts("states"), np.random.default_rng(4)
    noise = [(float(5 * number), float(random.normal(0, 0.02))) for number in range(120)]
    flat = [deviation for deviation, _ in states.variogram(noise)]
    assert flat == pytest.approx([0.02] * len(flat), rel=0.25)
    state = math.sqrt(2) * 0.05 * np.sin(np.arange(120) / 120 * math.pi * 2)
    moved = [(second, level + more) for (second, level), more in zip(noise, state, strict=True)]
    deviations = [deviation for deviation, _ in states.variogram(moved)]
    assert deviations[0] == pytest.approx(0.02, rel=0.25)
    assert deviations[-1] > 0.05
    assert states.variogram(noise[:2])[0][1] == 1
    assert math.isnan(states.variogram(noise[:2])[-1][0]), "no blocks lie so far apart"


def test_simulated_sweeps_of_a_quiet_machine_are_covered(scripts: Any) -> None:
    coverage = scripts("coverage")
    quiet = coverage.SCENARIOS[0]
    rates = coverage.summed(coverage.run(quiet, 2, trials=10, seed=(0, part)) for part in range(2))
    assert rates["covered"].of == 20 * 2 * len(quiet.offsets)
    assert rates["covered"].share > 0.9
    assert coverage.failures_of(quiet, 2, rates | {"covered": coverage.Rate(times=9, of=10)}) == [
        "quiet machine, 2 launches: covered 0.900"
    ]


def test_stored_coverage_depends_on_all_code_that_a_simulated_sweep_runs(scripts: Any) -> None:
    """Code of the statistics that the digest does not reach would change the rates and leave the stored ones valid."""
    coverage, folder = scripts("coverage"), SCRIPTS.parent / "bench" / "measure"
    ran: set[Path] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            ran.add(Path(frame.f_code.co_filename))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for launches in (1, 2):
            coverage.run(coverage.SCENARIOS[0], launches, trials=1, seed=(0, launches))
    finally:
        sys.setprofile(before)
    reading = code_digests._Reading(code_digests._beside_figures())
    for function in coverage.ALWAYS:
        reading.digest(Path(inspect.getfile(function)), function.__name__)
    reached = {file for file, _ in reading._reached}
    assert len(ran & reached) > 10, "the sweep was traced"
    assert {file for file in ran if file.is_relative_to(folder)} <= reached
    assert folder / "rounds.py" not in ran, "it chose no launches"


def test_the_same_seed_simulates_the_same_race(scripts: Any) -> None:
    coverage = scripts("coverage")
    loud = next(each for each in coverage.SCENARIOS if each.name == "forty, launches of 5 %")
    one, other = (coverage.run(loud, coverage.RACE, trials=1, seed=(0, 0, 0)) for _ in range(2))
    assert one["launches"].times > 30
    assert one == other
    assert coverage.run(loud, coverage.RACE, trials=1, seed=(0, 0, 1)) != one


def test_simulated_rates_are_kept_as_long_as_the_code_gives_the_same(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = scripts("coverage")
    quiet, file = coverage.SCENARIOS[0], tmp_path / "coverage.json"
    nine, three = ({"covered": coverage.Rate(times=times, of=10)} for times in (9, 3))
    cases = coverage.Cases(file)
    cases.keep(quiet, 1, 10, nine)
    cases.keep(quiet, 2, 10, three)
    again = coverage.Cases(file)
    assert again.rates(quiet, 1, 10) == nine
    assert again.rates(quiet, 2, 10) == three
    assert again.rates(quiet, 2, 20) is None

    monkeypatch.setattr(coverage, "code", lambda launches: "renamed")
    coverage.Cases(file).rates(quiet, 1, 10)
    digests = [case["code"] for case in json.loads(file.read_text())["cases"].values()]
    assert digests.count("renamed") == 1, "the case whose first sweeps are as before has the new digest"

    monkeypatch.setattr(coverage, "code", lambda launches: "other")
    monkeypatch.setattr(coverage.World, "_launch_effect", lambda world, name: 0.0)
    assert coverage.Cases(file).rates(quiet, 2, 10) is None


def test_sweeps_that_contradict_each_other_fail(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    between = scripts("between_sweeps")

    def sweep(ratio: float, half: float, verdict: str) -> Any:
        row = SimpleNamespace(ratio=ratio, ratio_low=ratio * math.exp(-half), ratio_high=ratio * math.exp(half))
        row.verdict, row.threads = verdict, 1
        return between.Sweep(rows={"cell": row}, near=frozenset({"cell"}), half_width=half)

    faster, slower, near = sweep(0.9, 0.05, "faster"), sweep(1.1, 0.05, "slower"), sweep(0.95, 0.05, "noise")
    assert between.contradicting(faster, slower) == (1, 1)
    assert between.contradicting(faster, near) == (0, 0)
    assert (between.meeting(faster, near), between.meeting(faster, slower)) == ((1, 1), (0, 1))
    # The ratios differ by 5.4 %; both half-widths make 7.1 %, and narrowed to 3 % they make 4.2 %.
    assert between.within(faster, near, ["cell"]) == 1
    assert between.within(faster, near, ["cell"], narrow_to=0.03) == 0
    assert between.judge([faster, near]) == []
    assert between.judge([faster, slower]) == ["1 and 2 contradict each other"]
    assert "1 of 1 verdicts contradict; within both half-widths 0.0% of 1 cells" in capsys.readouterr().out


def test_a_winner_that_is_slower_in_another_sweep_fails(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    between = scripts("between_sweeps")

    def pick(outcome: str, shipped: str | None, ratios: dict[str, float], same_as: dict[str, str]) -> Any:
        rows = [SimpleNamespace(cell=cell, ratio=ratio, same_as=None) for cell, ratio in ratios.items()]
        alike = [SimpleNamespace(cell=cell, ratio=None, same_as=other) for cell, other in same_as.items()]
        standing = SimpleNamespace(outcome=outcome, shipped=SimpleNamespace(cell=shipped) if shipped else None)
        standing.group, standing.qualified = SimpleNamespace(rows=rows + alike), SimpleNamespace(rows=rows)
        return standing

    first = pick("winner", "a", {"a": 0.5, "b": 0.51}, {})
    near = pick("none", None, {"b": 0.5, "c": 0.51}, {"a": "c"})
    apart = pick("winner", "b", {"a": 0.6, "b": 0.5}, {})
    assert between.excess_of_winner(first, near) == pytest.approx(0.02)
    assert between.excess_of_winner(first, apart) == pytest.approx(0.2)
    assert between.excess_of_winner(first, pick("none", None, {"b": 0.5}, {})) == math.inf
    assert between.judge_picks([{("crnn", 1): first}, {("crnn", 1): near}]) == []
    assert "1: 1 of 1 picks end in a winner" in capsys.readouterr().out
    failures = between.judge_picks([{("crnn", 1): first}, {("crnn", 1): apart}])
    assert failures == ["the winner of crnn at 1 thread(s) in 1 is slower in 2"]


def test_the_list_of_the_corpus_can_be_read(scripts: Any) -> None:
    corpus, alone = scripts("corpus"), load_module(SCRIPTS / "peers" / "alone.py")
    packages = tomllib.loads(corpus.LIST.read_text())["package"]
    files = [file for package in packages for file in package["file"]]
    assert len({(package["name"], package["version"]) for package in packages}) == len(packages)
    assert len({file["path"] for file in files}) == len(files)
    random = np.random.default_rng(0)
    for text in (text for file in files for text in file["feeds"].values()):
        assert alone.array(text, random).dtype.name == text.split()[0].replace("str", "object")


def test_a_feed_lies_where_its_text_says(scripts: Any) -> None:
    alone, random = load_module(SCRIPTS / "peers" / "alone.py"), np.random.default_rng(0)
    assert alone.array("int64 scalar =16000", random) == 16000
    tokens = alone.array("int64 4x100 3..5", random)
    assert tokens.shape == (4, 100)
    assert set(tokens.flat) == {3, 4, 5}
    pixels = alone.array("float32 1000 0..255", random)
    assert 0 <= pixels.min() < 10 < 245 < pixels.max() <= 255
    assert alone.array("str 2", random).tolist() == ["a text", "a text"]
    assert not alone.array("int64 3", random).any()


def outcome_of(scripts: Any, name: str, **fields: Any) -> Any:
    """An outcome of the corpus that is good, unless fields say otherwise."""
    good = {
        "alone": "",
        "rows": {"ok": 8, "skipped": 5, "failed": 2},
        "reasons": ["a reason"],
        "decision": "onnx faster",
        "outcome": "keep",
    }
    good |= {"run_s": 29.0, "run_error": "", "profile_s": 1.0, "profile_error": "", "domain": "images", "mib": 2.0}
    return scripts("corpus").Outcome(name=name, **{**good, **fields})


def test_a_file_of_the_corpus_is_good_with_a_profile_and_80_percent_of_its_rows(scripts: Any) -> None:
    assert outcome_of(scripts, "a").is_good  # 8 of 10: skipped rows do not apply
    assert not outcome_of(scripts, "a", rows={"ok": 7, "skipped": 5, "failed": 2}).is_good
    assert not outcome_of(scripts, "a", rows={"ok": 0, "skipped": 5, "failed": 0}).is_good
    assert not outcome_of(scripts, "a", profile_error="refused").is_good
    assert not outcome_of(scripts, "a", run_error="hang").is_good
    assert not outcome_of(scripts, "a", decision="").is_good
    assert not outcome_of(scripts, "a", outcome="").is_good


def test_the_corpus_fails_below_97_percent_and_for_every_traceback_hang_and_difference(scripts: Any) -> None:
    corpus = scripts("corpus")
    good = [outcome_of(scripts, str(number)) for number in range(97)]
    refused = outcome_of(scripts, "bad", run_error="bench: no")
    alone = outcome_of(scripts, "alone", alone="it does not run", run_error="bench: no")
    assert corpus.judge([*good, refused, refused, refused, alone], {}) == []
    assert corpus.judge([*good, refused, refused, refused, refused], {}) == ["too few files have a table and a profile"]
    crash, hang = outcome_of(scripts, "c", run_error="traceback"), outcome_of(scripts, "h", profile_error="hang")
    assert corpus.judge([*good, crash, hang], {}) == ["c: traceback", "h: hang"]
    assert corpus.judge([outcome_of(scripts, "slow", run_s=31.0)], {}) == ["tables take too long"]
    same, other = corpus.Costs(macs=3, params=2), corpus.Costs(macs=4, params=2)
    assert corpus.judge(good, {"a": (same, same)}) == []
    assert corpus.judge(good, {"a": (same, other)}) == [f"a: {same}, not {other}"]
    assert corpus.summary_line([*good, refused, alone]).startswith("99 files, 99 above 1 MiB. 98 run in their own")
    outcomes = [outcome_of(scripts, name, outcome=name) for name in ("winner", "winner", "keep", "none", "")]
    said = corpus.summary_line([*outcomes, alone])
    assert said.endswith(
        "A table takes 29 s (median). 3 (60.0%) end in a decision: 2 winner, 1 keep, 1 none, 1 without an outcome."
    )
    assert "4 of these (80.0%) get a table" in said
    table = corpus.table([outcome_of(scripts, "f"), alone], {"a": (same, other)})
    assert "| f | images | 2.0 | yes | 8, 5, 2 | onnx faster | 29 | 1.0 s | a reason |" in table
    assert "| alone | images | 2.0 | no | 8, 5, 2 | onnx faster | 29 | 1.0 s | bench: no |" in table
    assert "| a | 3 | 4 | 2 | 2 |" in table


def test_the_outcome_of_a_file_of_the_corpus_is_that_of_the_run(scripts: Any) -> None:
    outcome_in = scripts("corpus").outcome_in
    for outcome in ("winner", "keep", "none"):
        printed = f"bench: sizes: x=4 (guessed)\nbench: {outcome}: a sentence\nbench: next: the same command"
        assert outcome_in(printed) == outcome
    assert outcome_in("bench: cannot use it: none") == ""


def test_a_command_of_the_corpus_that_crashes_or_hangs_is_told(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, log = scripts("corpus"), tmp_path / "log"
    monkeypatch.setattr(corpus, "ENDING_S", 0.5)

    def told(code: str, limit_s: float = 60.0) -> str:
        return corpus.timed([sys.executable, "-c", code], os.environ, limit_s, log)[1]

    assert told("print(3)") == ""
    assert told("raise SystemExit('bench: a reason')") == "bench: a reason"
    assert told("1 / 0") == "traceback"
    for handler in ("default_int_handler", "SIG_IGN"):  # the second is killed
        code = f"import signal, time; signal.signal(signal.SIGINT, signal.{handler}); time.sleep(600)"
        assert told(code, 1.0) == "hang"
    assert "bench: a reason" in log.read_text()


def test_the_counter_of_the_corpus_counts_as_by_hand(tmp_path: Path) -> None:
    weights = {
        "kernel": np.ones((4, 3, 3, 3), np.float32),
        "bias": np.ones(4, np.float32),
        **{name: np.ones(4, np.float32) for name in ("scale", "shift", "mean", "variance")},
        "sizes": np.array([0, -1], np.int64),
        "matrix": np.ones((256, 5), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel", "bias"], ["wide"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["wide", "scale", "shift", "mean", "variance"], ["even"]),
        helper.make_node("Reshape", ["even", "sizes"], ["flat"]),
        helper.make_node("Gemm", ["flat", "matrix"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(*port) for port in (("x", 1, ["n", 3, 8, 8]), ("y", 1, ["n", 5]))]
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], stored)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    command = [sys.executable, str(SCRIPTS / "peers" / "counted.py"), str(path), '{"x": "float32 2x3x8x8"}']
    counted = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert counted == {
        "macs": 2 * 4 * 8 * 8 * 3 * 9 + 2 * 5 * 256,
        "params": 4 * 3 * 9 + 4 + 2 * 4 + 256 * 5,  # no running statistics, and no sizes
    }


def test_a_release_that_made_a_model_slower_is_bisected_once(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is slower by 20 % is, and one that is undecided or slower by 2 % is not."""
    regressions = scripts("regressions")
    cell = "{}/onnx/native/raw/onnxruntime@1.20.0..1.27.0/cpu/b1t1"
    verdicts = {"a": ("slower", 1.2), "b": ("undecided", 1.2), "c": ("slower", 1.02)}
    asked: list[list[str]] = []

    def run(arguments: Sequence[str], place: Path, home: Path = SCRIPTS) -> dict[str, Any]:
        asked.append([*arguments])
        if arguments[0] == "bisect":
            (home / "blame").mkdir()
            (home / "blame" / "reproduce.py").touch()
            return {"first_bad": "1.27.0", "blame": "it is Add"}
        verdict, ratio = verdicts[arguments[3]]
        sides = {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01}
        return {"cells": [{"cell": cell.format(arguments[3]), "verdict": verdict, **sides}]}

    monkeypatch.setattr(regressions, "run", run)
    for model in verdicts:
        case = regressions.Case(
            model=model, model_options=("--model", model), package="onnxruntime", old="1.20.0", new="1.27.0"
        )
        said = regressions.outcome(case, tmp_path)
        assert json.loads(regressions.file_of(case, tmp_path).read_text()) == said
        if model == "a":
            assert said["bisected"]["reproducers"] == ["blame"]
            assert regressions.line(case, said).endswith("1.200 [1.190, 1.210] slower     1.27.0 it is Add")
        else:
            assert "bisected" not in said
    (bisect,) = (arguments for arguments in asked if arguments[0] == "bisect")
    assert bisect[bisect.index("--cell") + 1] == "a/onnx/native/raw/onnxruntime/cpu/b1t1"
