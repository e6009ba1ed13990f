"""Sweeps: the cells of each sweep, and the globs that name them."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.api import loading, npm
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure import machine
from bench.pipeline import isolated, selection, sweeps
from bench.pipeline.waves import Wave, in_waves
from bench.plugins import catalog

BASELINE = "toy/null/native/raw/null/cpu/b1t1"
RUNTIME = """
from bench.plugins.runtimes.null import NullRuntime

class Twin(NullRuntime):
    default_for = ()
    requires = {requires}

    def providers(self):
        return ("cpu", "cpu-slow")
"""
VARIANT = """
from bench.api import Variant

class Mine(Variant):
    formats = ({format!r},)

    def apply(self, source, target, *, option, task):
        raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def _plugins(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second runtime for null artifacts, and variants for them and for another format."""
    for kind, name, text in (
        ("runtimes", "twin", RUNTIME.format(requires=())),
        ("variants", "halve", VARIANT.format(format="null")),
        ("variants", "prune", VARIANT.format(format="null")),
        ("variants", "elsewhere", VARIANT.format(format="other")),
    ):
        path = plugin_folder / kind / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(machine, "num_cores", lambda: 3)
    catalog.forget()


@functools.cache
def full() -> tuple[Cell, ...]:
    """The full sweep of the plugins above, for tests that add none."""
    return tuple(selection.select([], "full"))


def paths(cells: list[Cell]) -> list[str]:
    return [cell.path for cell in cells]


def test_every_combination_that_fits() -> None:
    found = sweeps.cells_of(("toy",), variants=("raw", "halve", "elsewhere", "halve+prune", "halve+elsewhere"))
    assert sorted(paths(found)) == sorted(
        f"toy/null/native/{variant}/{runtime}/b1t1"
        for variant in ("raw", "halve", "halve+prune")
        for runtime in ("null/cpu", "twin/cpu", "twin/cpu-slow")
    )


def test_batches_and_threads() -> None:
    found = sweeps.cells_of(("toy",), variants=("raw",), batches=(1, 8), threads=(1, 2))
    sizes = [cell.path.rpartition("/")[2] for cell in found if str(cell.runtime) == "null"]
    assert sizes == ["b1t1", "b1t2", "b8t1", "b8t2"]


def test_globs_choose_of_everything_there_is() -> None:
    found = paths(selection.select(["toy/*/null/cpu/b1t1"], None))
    assert found == [f"toy/null/native/{name}/null/cpu/b1t1" for name in ("raw", "halve", "prune")]
    assert {cell.threads for cell in selection.select(["toy"], None)} == {1, 3}


def test_cells_are_chosen_once_in_the_order_of_the_globs() -> None:
    found = paths(selection.select(["*/halve/null/cpu/b1t1", "toy/*/null/cpu/b1t1"], None))
    assert [path.split("/")[3] for path in found] == ["halve", "raw", "prune"]


def test_whole_path_names_any_chain_batch_and_threads() -> None:
    path = "toy/null/native/prune+halve+prune/twin/cpu-slow/b7t5"
    assert paths(selection.select([path], None)) == [path]


@pytest.mark.parametrize(
    ("glob", "message"),
    [
        ("toy/null/native/halv/null/cpu/b1t1", "no variant named 'halv'; did you mean 'halve'"),
        ("toy/null/native/raw/nul/cpu/b1t1", "no runtime named 'nul'; did you mean 'null'"),
        ("toi/null/native/raw/null/cpu/b1t1", "no task named 'toi'; did you mean 'toy'"),
        ("toy/nul/native/raw/null/cpu/b1t1", "toy has no source 'nul'; did you mean 'null'"),
        ("toy/null/nativ/raw/null/cpu/b1t1", "no exporter named 'nativ'; did you mean 'native'"),
        ("toy/null/native/raw/null/gpu/b1t1", "null has no provider 'gpu' here; .*cpu"),
        ("toy/null/native/raw/onnxruntime/cpu/b1t1", "onnxruntime opens onnx, not null"),
        ("toy/null/tf2onnx/raw/onnxruntime/cpu/b1t1", "tf2onnx exports .*tf.*, not null"),
        ("toy/null/native/raw/null/cpu/b0t1", "not a cell: .*b0t1"),
        ("toy/*/gpu/*", "no cell matches 'toy/.*/gpu/.*'; "),
        ("tooy", "no cell matches 'tooy'; did you mean 'toy'"),
        ("tooy/*", "no cell matches .*; did you mean 'toy'"),
        ("toy/*/mnn/*", "mnn opens what is made by torch_mnn of torch; toy is of null"),
        ("toy/*/litert/*", "litert opens what is made by tflite of tf, .*torch_litert of torch; toy is of null"),
        ("toy/*/null/webgpu/*", "see `bench run --dry-run`"),  # it opens others of the task
        ("toy/*/b9t9", "no cell matches 'toy/.*/b9t9'; "),
    ],
)
def test_glob_that_matches_nothing_says_what_may_have_been_meant(glob: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        selection.select([glob], None)


def test_one_bad_glob_is_an_error_though_others_match() -> None:
    with pytest.raises(InputError, match="no cell matches 'tooy'"):
        selection.select(["toy", "tooy"], None)


def test_variant_of_another_format_is_refused_when_the_cell_is_made(plugin_folder: Path) -> None:
    """Not here: the format may change along a chain."""
    path = "toy/null/native/elsewhere/null/cpu/b1t1"
    assert paths(selection.select([path], None)) == [path]


def test_the_quick_sweep_has_the_plain_exports_alone() -> None:
    quick = sweeps.quick()
    assert {cell.variant for cell in quick} == {"raw"}
    assert {cell.source for cell in quick} == {"tf", "torch"}
    assert "ort-all" in {cell.variant for cell in sweeps.plain(sweeps.QUICK_TASK)}


def test_named_sweeps(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(sweeps.named()) >= {"quick", "full", "scaling", "everything"}
    assert not {"cells_of", "baselines", "select"} & set(sweeps.named())
    shutil.copytree(loading.PLUGINS / "models" / "toy", plugin_folder / "models" / "mine")
    catalog.forget()
    monkeypatch.setattr(sweeps, "QUICK_TASK", "mine")
    full, quick = selection.select([], "full"), selection.select([], "quick")
    assert selection.select([], None) == full
    assert set(quick) < set(full)
    assert {cell.threads for cell in full} == {1, 3}
    assert {str(cell.task) for cell in full} == set(loading.find("models")) - {"toy"}
    assert {"mine", "super_resolution"} < {str(cell.task) for cell in full}
    assert {(str(cell.task), cell.threads, cell.variant) for cell in quick} == {("mine", 1, "raw")}
    assert selection.select(["*/null/cpu/*"], "quick") == [Cell.from_path(BASELINE.replace("toy", "mine"))]
    with pytest.raises(InputError, match="no cell matches"):
        selection.select(["*/b1t3"], "quick")
    with pytest.raises(InputError, match="no sweep named 'quik'; did you mean 'quick'"):
        selection.select([], "quik")


@pytest.fixture
def page(plugin_folder: Path) -> str:
    """A task `mine`, and a runtime that the sweep `web` alone has."""
    shutil.copytree(loading.PLUGINS / "models" / "toy", plugin_folder / "models" / "mine")
    text = RUNTIME.format(requires=()).replace("    def providers", '    own_sweep = "web"\n\n    def providers')
    (plugin_folder / "runtimes" / "paged.py").write_text(text)
    catalog.forget()
    return "mine/null/native/raw/paged/cpu/b1t1"


def test_a_runtime_of_its_own_sweep_is_in_no_other_unless_it_is_named(page: str) -> None:
    assert page not in paths(sweeps.full())
    assert page not in paths(selection.select(["mine/*"], None))
    assert page not in paths(selection.select(["*/cpu/*"], None))
    for glob in (page, "*/paged/*", "mine/*/pag*/cpu/*", "mine*paged/cpu/*", "paged/*", "mine/paged/*"):
        found = paths(selection.select([glob], None))
        assert page in found
        assert {path.split("/")[4] for path in found} == {"paged"}
    with pytest.raises(InputError, match=r"matches cells of paged alone, which a glob has to name"):
        selection.select(["mine*aged/cpu/b1t1"], None)


def test_the_web_sweep_has_its_runtimes_beside_the_usual_ones(page: str) -> None:
    """Also where globs choose of it, which need not name them."""
    usual = BASELINE.replace("toy", "mine")
    for globs in ([], ["mine/*"]):
        found = [path for path in paths(selection.select(globs, "web")) if path.startswith("mine/")]
        assert {path for path in found if path.endswith("t1")} == {page, page.replace("cpu", "cpu-slow"), usual}
        assert {path.rpartition("t")[2] for path in found} == {"1", "3"}
        assert len(found) == len(set(found))
    assert page in paths(selection.select(["mine/*"], "everything"))


def test_baseline_is_the_plain_native_cell_of_its_group() -> None:
    assert paths(sweeps.baselines("toy", 1, 1)) == [BASELINE]
    assert paths(sweeps.baselines("toy", 4, 2)) == ["toy/null/native/raw/null/cpu/b4t2"]


def test_runtime_that_cannot_work_here_is_still_a_cell(plugin_folder: Path) -> None:
    """A row that says why is worth more than no row."""
    (plugin_folder / "runtimes" / "twin.py").write_text(RUNTIME.format(requires=("nothing_of_that_name",)))
    catalog.forget()
    (cell,) = selection.select(["toy/null/native/raw/twin/cpu/b1t1"], None)
    assert catalog.skip_reason(cell) == "twin: nothing_of_that_name not installed; pip install nothing_of_that_name"


def test_broken_file_leaves_the_other_plugins_their_cells(plugin_folder: Path) -> None:
    before = selection.select(["toy/*"], None)
    for kind in ("exporters", "variants", "runtimes"):
        (plugin_folder / kind).mkdir(exist_ok=True)
        (plugin_folder / kind / "bad.py").write_text("import not_there_at_all")
    catalog.forget()
    assert selection.select(["toy/*"], None) == before


@pytest.mark.parametrize(("answer", "is_listed"), [("None", True), ("True", True), ("False", False)])
def test_a_way_out_is_listed_for_the_models_that_need_it(answer: str, is_listed: bool, plugin_folder: Path) -> None:
    method = f"    def stands_in_for(self, task):\n        return {answer}\n\n    def providers("
    (plugin_folder / "runtimes" / "twin.py").write_text(
        RUNTIME.format(requires=()).replace("    def providers(", method)
    )
    catalog.forget()
    found = {str(cell.runtime) for cell in sweeps.cells_of(("toy",), variants=("raw",))}
    assert found == ({"null", "twin"} if is_listed else {"null"})
    others = [str(cell.runtime) for cell in sweeps.in_place_of(Cell.from_path(BASELINE))]
    assert others == ([] if answer == "None" else ["twin"]), "another runtime of the same packages fails alike"


@pytest.mark.parametrize(("answer", "order"), [("True", ["twin", "other"]), ("False", ["other", "twin"])])
def test_the_way_out_that_a_model_needs_comes_before_runtimes_of_other_packages(
    answer: str, order: list[str], plugin_folder: Path
) -> None:
    method = f"    def stands_in_for(self, task):\n        return {answer}\n\n    def providers("
    (plugin_folder / "runtimes" / "twin.py").write_text(
        RUNTIME.format(requires=()).replace("    def providers(", method)
    )
    (plugin_folder / "runtimes" / "other.py").write_text(RUNTIME.format(requires=("numpy",)))
    catalog.forget()
    assert [str(cell.runtime) for cell in sweeps.in_place_of(Cell.from_path(BASELINE))] == order


def test_full_sweep_has_each_choice_once(plugin_folder: Path) -> None:
    shutil.copytree(loading.PLUGINS / "models" / "toy", plugin_folder / "models" / "mine")
    options = VARIANT.format(format="null").replace("    formats", '    options = ("slow", "fast")\n    formats')
    (plugin_folder / "variants" / "prune.py").write_text(options)
    catalog.forget()
    found = [path for path in paths(sweeps.full()) if path.startswith("mine/")]
    assert sorted(found) == [
        "mine/null/native/halve/null/cpu/b1t1",
        "mine/null/native/prune-slow/null/cpu/b1t1",
        "mine/null/native/raw/null/cpu/b1t1",
        "mine/null/native/raw/twin/cpu-slow/b1t1",
        "mine/null/native/raw/twin/cpu/b1t1",
    ]


def test_full_sweep_has_all_cores_where_there_are_cells_to_compare(plugin_folder: Path) -> None:
    """With one usual runtime, the baseline would be there alone; with two, each has a row, as another engine has."""
    shutil.copytree(loading.PLUGINS / "models" / "toy", plugin_folder / "models" / "mine")
    catalog.forget()
    assert {cell.threads for cell in sweeps.full() if str(cell.task) == "mine"} == {1}
    usual = RUNTIME.format(requires=()).replace("default_for = ()", 'default_for = ("null",)')
    (plugin_folder / "runtimes" / "twin.py").write_text(usual)
    (plugin_folder / "runtimes" / "mode.py").write_text(RUNTIME.format(requires=()))
    (plugin_folder / "runtimes" / "other.py").write_text(RUNTIME.format(requires=("numpy",)))
    catalog.forget()
    found = [cell.path for cell in sweeps.full() if str(cell.task) == "mine" and cell.threads == 3]
    names = [
        f"{runtime}/{provider}"
        for runtime, provider in (("null", "cpu"), ("twin", "cpu"), ("other", "cpu"), ("other", "cpu-slow"))
    ]
    assert found == [f"mine/null/native/raw/{name}/b1t3" for name in names]


def test_full_sweep_varies_one_export_of_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    varied = {
        (str(cell.task), cell.source, str(cell.exporter))
        for cell in full()
        if cell.variant != "raw" and catalog.exporter(cell.exporter).format(cell.source) == "onnx"
    }
    tasks = {str(cell.task) for cell in full()}
    assert varied == {(task, "torch", "torch_onnx") for task in tasks}


def test_full_sweep_has_every_exporter_that_writes_what_is_scored() -> None:
    """Also one of several whose files no runtime opens by default, as of `pt2`."""

    def exports(cells: Iterable[Cell]) -> set[tuple[str, str, str]]:
        return {(str(cell.task), cell.source, str(cell.exporter)) for cell in cells}

    every = exports(isolated.usable(sweeps.cells_of(sweeps._tasks(), variants=("raw",))))
    assert exports(full()) == every
    assert ("crnn", "torch", "torch_pt2e") in every


def test_sweeps_have_no_program_that_is_not_here_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer without Node.js has no rows that say so, but a line."""
    assert "onnxruntime_node" in {cell.runtime.plugin for cell in sweeps.full()}
    monkeypatch.setattr(npm, "node", lambda: None)
    reason = "Node.js not installed; `apt-get install nodejs npm`, or what your system has for it"
    assert isolated.absent()["runtimes", "onnxruntime_node"] == reason
    assert "onnxruntime_node" not in {cell.runtime.plugin for cell in selection.select([], None)}
    with pytest.raises(InputError, match=r"need what is not here \(onnxruntime_node: Node\.js not installed; `apt-get"):
        selection.select(["crnn/*/onnxruntime_nod?/*"], "full")
    (cell,) = selection.select(["crnn/torch/torch_onnx/raw/onnxruntime_node/cpu/b1t1"], None)
    assert catalog.skip_reason(cell) == f"onnxruntime_node: {reason}"


def test_scaling_sweep_has_batches_and_threads_on_usual_runtimes() -> None:
    found = sweeps.scaling()
    assert {(cell.batch, cell.threads) for cell in found} == {(b, t) for b in (1, 4, 16) for t in (1, 3)}
    assert {cell.variant for cell in found} == {"raw"}
    assert not {"onnxruntime_bytes", "tensorflow_eager"} & {str(cell.runtime) for cell in found}


def test_threads_sweep_doubles_up_to_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, counts in ((1, {1}), (2, {1, 2}), (3, {1, 2, 3}), (12, {1, 2, 4, 8, 12})):
        monkeypatch.setattr(machine, "num_cores", lambda cores=cores: cores)
        found = sweeps.threads()
        assert {cell.threads for cell in found} == counts
        assert {(cell.batch, cell.variant) for cell in found} == {(1, "raw")}


def test_a_large_sweep_begins_with_first_exports_and_ends_with_what_compiles_for_long() -> None:
    cells = list(full())
    first, second, last = (wave.needed for wave in in_waves(cells))
    assert sorted(paths([*first, *second, *last])) == sorted(paths(cells))
    assert {str(cell.task) for cell in first} == {str(cell.task) for cell in cells}
    assert {(cell.variant, cell.threads) for cell in first} == {("raw", 1)}
    assert {str(cell.runtime) for cell in last} | {str(cell.exporter) for cell in last} >= {
        "torch_compile",
        "aot_inductor",
    }
    assert not [
        cell
        for cell in (*first, *second)
        if {str(cell.runtime), str(cell.exporter)} & {"torch_compile", "aot_inductor"}
    ]
    assert len(first) < len(cells) / 4
    albert = [cell for cell in first if str(cell.task) == "albert"]
    assert {(cell.source, str(cell.exporter)) for cell in albert} == {
        ("torch", "native"),
        ("torch", "torch_onnx"),
        ("torch", "torch_openvino"),
        ("tf", "native"),
        ("tf", "tf2onnx"),
        ("tf", "tf_openvino"),
        ("tf", "tf_saved_model"),
        ("tf", "tflite"),
    }
    assert "torch_onnx_legacy" in {str(cell.exporter) for cell in second}


def test_cells_that_gain_little_over_the_fastest_plain_export_are_spare() -> None:
    """Of a request: half of crnn's fastest export is much, although crnn is slower beside its baseline than albert."""
    cells = list(full())
    changed = [cell for cell in in_waves(cells)[1].needed if cell.variant != "raw"]
    slow, equal, fast, unknown = [cell for cell in changed if str(cell.task) == "albert"][:4]
    fast_crnn = next(cell for cell in changed if str(cell.task) == "crnn")
    plain = {
        "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t1": 0.25,
        "albert/torch/native/raw/pytorch/cpu/b1t1": 1.0,
        "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1": 0.8,
    }
    own = {slow.path: 1.0, equal.path: 0.24, fast.path: 0.2, fast_crnn.path: 0.4}
    first, second, _ = in_waves(cells, lambda path: (plain | own).get(path, 0.0))
    assert second.spare == (equal, slow)
    assert {fast, unknown, fast_crnn} <= set(second.needed)
    assert sorted(paths([*second.needed, *second.spare])) == sorted(paths(in_waves(cells)[1].needed))
    assert first == in_waves(cells)[0]


def test_ratios_of_two_machines_are_not_compared() -> None:
    """Its plain exports run here twice as fast beside the baseline as there; of the others nothing is known here."""
    cells = list(full())
    fast = next(cell for cell in in_waves(cells)[1].needed if str(cell.task) == "albert" and cell.variant != "raw")
    plain = "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
    here, there = {plain: 0.2}, {plain: 0.4, fast.path: 0.3}
    sources = (lambda path: here.get(path, 0.0)), (lambda path: there.get(path, 0.0))
    assert fast in in_waves(cells, *sources)[1].needed
    here[fast.path] = 0.25
    assert in_waves(cells, *sources)[1].spare == (fast,)


def test_what_loses_numbers_makes_no_other_cell_spare() -> None:
    """As on the published machine, where an export in 8 bits was faster than the pick and lost too much."""
    cell = "super_resolution/torch/{}/raw/{}/b1t1"
    pick = cell.format("torch_onnx", "openvino/cpu-bf16")
    ratios = {
        cell.format("torch_onnx", "onnxruntime/cpu"): 0.68,
        cell.format("torch_pt2e_onnx", "onnxruntime/cpu"): 0.29,
        pick: 0.35,
    }
    assert pick in paths(in_waves(list(full()), lambda path: ratios.get(path, 0.0))[1].needed)


def test_plain_exports_that_are_as_fast_as_others_are_never_spare() -> None:
    """At two threads they are all that there is but for other engines, and the baseline is one of them."""
    cells = list(full())
    spare = [cell for wave in in_waves(cells, lambda path: 1.0) for cell in wave.spare]
    assert spare
    assert not [cell for cell in spare if cell.threads > 1 and sweeps.is_usual(cell)]
    assert not [
        cell
        for cell in spare
        if str(cell.exporter) == "native" and cell.variant == "raw" and str(cell.runtime) == "pytorch"
        if str(cell.provider) == "cpu"  # on processors that compute in bfloat16 there is another, which gains nothing
    ]


def test_a_plain_export_that_is_far_slower_than_another_is_spare_but_for_the_baseline() -> None:
    """Of a request: at one thread nothing is known, and at three threads one export takes 1.4 times as long."""
    cells = selection.select([], "full")
    rest = ("torch/torch_onnx/raw/onnxruntime", "torch/native/raw/pytorch", "tf/native/raw/tensorflow")
    fast, baseline, slow = (f"albert/{each}/cpu/b1t3" for each in rest)
    near = "albert/tf/tf2onnx/raw/onnxruntime/cpu/b1t3"
    ratios = {fast: 0.4, near: 0.56, baseline: 1.0, slow: 0.9}
    spare = {
        number: [each.path for each in in_waves(cells, lambda path: ratios.get(path, 0.0), baselines=kept)[1].spare]
        for number, kept in enumerate([(), (Cell.from_path(baseline), None)])
    }
    assert spare == {0: [slow, baseline], 1: [slow]}


def test_of_spare_cells_the_first_of_each_runtime_comes_before_all_others() -> None:
    """A table is about every engine, however slow: faster variants of an engine that is in it come after them.

    Of tract nothing is needed, and its cell that is known to run comes before those that are only estimated.
    """
    cells = list(full())
    plain, usual = (
        "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t1",
        "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1",
    )
    changed = [cell.path for cell in in_waves(cells)[1].needed if str(cell.task) == "albert" and cell.chain]
    variants = [path for path in changed if "/onnxruntime/" in path][:2]
    known = {plain: 0.2, usual: 0.2, variants[0]: 0.21, variants[1]: 0.2}
    known["crnn/torch/torch_onnx/raw/tract/cpu/b1t1"] = 9.0
    others = {f"{task}/torch/torch_onnx/raw/onnxruntime/cpu/b1t1": 0.2 for task in {str(cell.task) for cell in cells}}
    estimated = {**others, **{cell.path: 1.0 for cell in cells if "/tract/" in cell.path}, **known}
    _, second, _ = in_waves(cells, lambda path: known.get(path, 0.0), lambda path: estimated.get(path, 0.0))
    spare = paths(second.spare)
    assert spare[:2] == ["crnn/torch/torch_onnx/raw/tract/cpu/b1t1", "albert/torch/torch_onnx/raw/tract/cpu/b1t1"]
    assert spare.index(variants[1]) < spare.index(variants[0])
    assert sorted(set(spare)) == sorted(spare)


def test_of_an_engine_that_is_far_slower_one_cell_is_needed() -> None:
    """Of IREE; TVM runs on one thread alone, and the interpreter of TensorFlow is a mode: these stay spare."""
    cells = list(full())
    slow = ("/iree/", "/tvm/", "/tensorflow_eager/")
    known = {cell.path: 9.0 for cell in cells if any(part in cell.path for part in slow)}
    known |= {cell.path: 0.2 for cell in cells if "/torch_onnx/raw/onnxruntime/cpu/" in cell.path}
    known["crnn/torch/torch_iree/raw/iree/cpu/b1t1"] = 8.0
    _, second, _ = in_waves(cells, lambda path: known.get(path, 0.0))
    assert [path for path in paths(second.needed) if any(part in path for part in slow)] == [
        "crnn/torch/torch_iree/raw/iree/cpu/b1t1"
    ]
    spare = paths(second.spare)
    assert {part for part in slow if any(part in path for path in spare)} == set(slow)
    assert "crnn/torch/torch_iree/raw/iree/cpu/b1t1" not in spare


def test_a_few_cells_are_one_wave() -> None:
    cells = [cell for cell in selection.select(["toy/*"], None) if cell.threads == 1]
    assert in_waves(cells, lambda path: 1.0) == [Wave(cells)]
