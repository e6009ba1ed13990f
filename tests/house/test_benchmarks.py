"""The scripts in `benchmarks/` that measure for hours: what they plant, count and conclude."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Samples
from bench.api.loading import load_module
from bench.graphs.costs.profile import profile
from bench.measure import stats

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script as `python benchmarks/<name>.py` would; the scripts set a search path for plugins."""
    monkeypatch.setenv("BENCH_PATH", "")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return __import__(name)

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(SCRIPTS)):
            del sys.modules[name]


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


def test_simulated_sweeps_of_a_quiet_machine_are_covered(scripts: Any) -> None:
    coverage = scripts("coverage")
    quiet = coverage.SCENARIOS[0]
    rates = coverage.summed(coverage.run(quiet, 2, trials=10, seed=(0, part)) for part in range(2))
    assert rates["covered"].of == 20 * 2 * len(quiet.offsets)
    assert rates["covered"].share > 0.9
    assert coverage.failures_of(quiet, 2, rates | {"covered": coverage.Rate(times=9, of=10)}) == [
        "quiet machine, 2 launches: covered 0.900"
    ]


def test_sweeps_that_contradict_each_other_fail(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    between = scripts("between_sweeps")

    def sweep(ratio: float, half: float, verdict: str) -> Any:
        row = SimpleNamespace(ratio=ratio, ratio_low=ratio * math.exp(-half), ratio_high=ratio * math.exp(half))
        row.verdict = verdict
        return between.Sweep(rows={"cell": row}, near=frozenset({"cell"}), half_width=half)

    faster, slower, near = sweep(0.9, 0.05, "faster"), sweep(1.1, 0.05, "slower"), sweep(0.95, 0.05, "noise")
    assert between.contradicting(faster, slower) == (1, 1)
    assert between.contradicting(faster, near) == (0, 0)
    # The ratios differ by 5.4 %; both half-widths make 7.1 %, and narrowed to 3 % they make 4.2 %.
    assert between.within(faster, near, ["cell"]) == 1
    assert between.within(faster, near, ["cell"], narrow_to=0.03) == 0
    assert between.judge([faster, near]) == []
    assert between.judge([faster, slower]) == ["1 and 2 contradict each other"]
    assert "1 of 1 verdicts contradict; within both half-widths 0.0% of 1 cells" in capsys.readouterr().out
