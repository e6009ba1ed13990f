"""Plugins: the search path, the reasons why a file cannot be used, and variants with options."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.api import Plugin, errors, loading
from bench.api.cell import Cell
from bench.api.errors import InputError, PluginError
from bench.pipeline import code_digests
from bench.plugins import catalog
from support import plugin_child

RUNTIME = """
from bench.api import Runtime, Session

class Mine(Runtime):
    formats = ("null",)

    def open(self, artifact, *, task, source, provider, threads):
        raise NotImplementedError
"""
VARIANT = """
from bench.api import Variant

class Mine(Variant):
    formats = ("null",)
    options = {options}
    requires = {requires}

    def apply(self, source, target, *, option, task):
        return {{}}
"""
OTHER_LOSS = """
from bench.api import Task

class Other(Task):
    build = samples = loss = metrics = None

    def {method}(self, metric, reference):
        return 0.25
"""


def put(folder: Path, file: str, text: str) -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_earlier_folders_win(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    second = tmp_path / "second"
    paths = {name: put(plugin_folder, f"runtimes/{name}.py", RUNTIME) for name in ("first_only", "both", "null")}
    paths["second_only"] = put(second, "runtimes/second_only.py", RUNTIME)
    put(second, "runtimes/both.py", RUNTIME)
    put(Path.cwd(), "runtimes/both.py", RUNTIME)
    paths["here"] = put(Path.cwd(), "runtimes/here.py", RUNTIME)
    monkeypatch.setenv("BENCH_PATH", f"{plugin_folder}:{second}")
    found = loading.find("runtimes")
    assert {name: found[name] for name in paths} == paths
    assert found["onnxruntime"].parent == loading.PLUGINS / "runtimes"  # the package comes last
    assert list(found) == sorted(found)
    assert catalog.runtime("null").path == paths["null"]
    assert loading.search_path()[:3] == (plugin_folder, second, Path.cwd())


def test_folder_that_is_missing_is_named(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PATH", f"{plugin_folder}:{plugin_folder}/nowhere")
    with pytest.raises(InputError, match=r"BENCH_PATH names a folder that does not exist: .*/nowhere"):
        loading.find("runtimes")


def test_private_files_are_no_plugins(plugin_folder: Path) -> None:
    put(plugin_folder, "runtimes/_shared.py", "raise RuntimeError")
    put(plugin_folder, "models/_draft/task.py", "raise RuntimeError")
    put(plugin_folder, "models/empty/other.py", "raise RuntimeError")
    assert "_shared" not in loading.find("runtimes")
    assert not {"_draft", "empty"} & set(loading.find("models"))


def test_broken_file_is_named_with_its_error(plugin_folder: Path) -> None:
    path = put(plugin_folder, "runtimes/broken.py", "import nothing_of_that_name")
    with pytest.raises(PluginError, match=f"cannot load {path}: ModuleNotFoundError: .*nothing_of_that_name") as raised:
        catalog.runtime("broken")
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)
    path.write_text("def (:")
    catalog.forget()
    with pytest.raises(PluginError, match=f"cannot load {path}: SyntaxError"):
        catalog.runtime("broken")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RUNTIME + RUNTIME.replace("Mine", "Other"), "must define one subclass of bench.api.Runtime; it defines 2"),
        ("from bench.api import Runtime", "it defines 0"),
        (VARIANT.format(options=("",), requires=()), "must define one subclass of bench.api.Runtime; it defines 0"),
        ("from bench.api import Runtime\nclass Half(Runtime):\n    pass", "Half does not define open"),
    ],
    ids=["two", "none", "another kind", "abstract"],
)
def test_file_that_breaks_the_rules(plugin_folder: Path, text: str, expected: str) -> None:
    path = put(plugin_folder, "runtimes/odd.py", text)
    with pytest.raises(PluginError, match=expected) as raised:
        catalog.runtime("odd")
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("method", ["relative_loss", "metric_loss"])
def test_a_task_that_defines_the_old_name_of_a_method_is_refused(plugin_folder: Path, method: str) -> None:
    path = put(plugin_folder, "models/other/task.py", OTHER_LOSS.format(method=method))
    if method == "metric_loss":
        assert catalog.task("other").metric_loss(1.0, 2.0) == 0.25
        return
    with pytest.raises(PluginError) as raised:
        catalog.task("other")
    said = f"{path}: Other defines relative_loss, which nothing calls: it is metric_loss now"
    assert str(raised.value) == said


def test_classes_that_a_file_imports_do_not_count(plugin_folder: Path) -> None:
    put(
        plugin_folder,
        "runtimes/child.py",
        "from bench.plugins.runtimes.null import NullRuntime\nclass C(NullRuntime): pass",
    )
    found = catalog.runtime("child")
    assert (type(found).__name__, found.name, found.formats) == ("C", "child", ("null",))


def test_dataclasses_work_in_a_plugin(plugin_folder: Path) -> None:
    """They look their module up in `sys.modules` when annotations are text."""
    text = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass A:\n    b: int = 1\n"
    put(plugin_folder, "runtimes/with_data.py", text + RUNTIME)
    assert catalog.runtime("with_data").name == "with_data"


def test_loaded_once(plugin_folder: Path) -> None:
    put(plugin_folder, "runtimes/mine.py", RUNTIME)
    assert catalog.runtime("mine") is catalog.runtime("mine")


def test_unknown_name_gets_a_suggestion(plugin_folder: Path) -> None:
    with pytest.raises(InputError, match="no runtime named 'nul'; did you mean 'null'"):
        catalog.runtime("nul")
    put(plugin_folder, "variants/halve.py", VARIANT.format(options=("",), requires=()))
    with pytest.raises(InputError, match="no variant named 'halved'; did you mean 'halve'"):
        catalog.variant("halved")
    with pytest.raises(InputError, match="no dataset named 'xyzzy'; there are: "):
        loading.dataset_path("xyzzy")


def test_suggest() -> None:
    assert errors.suggest("onnxrutime", ["null", "onnxruntime"]) == "did you mean 'onnxruntime'?"
    assert errors.suggest("xyz", ["null", "toy"]) == "there are: null, toy"
    assert errors.suggest("xyz", []) == "there are none"


def test_variants_with_options(plugin_folder: Path) -> None:
    put(plugin_folder, "variants/shrink.py", VARIANT.format(options=("", "half", "all"), requires=()))
    named = {name: catalog.variant(name) for name in ("shrink", "shrink-half", "shrink-all")}
    assert {name: found.option for name, found in named.items()} == {
        "shrink": "",
        "shrink-half": "half",
        "shrink-all": "all",
    }
    assert len({id(found.variant) for found in named.values()}) == 1
    assert named["shrink-all"].variant.name == "shrink"


def test_a_variant_loads_no_file_of_another(plugin_folder: Path) -> None:
    for name in ("shrink", "shrinkage", "grow"):
        put(plugin_folder, f"variants/{name}.py", VARIANT.format(options=("half",), requires=()))
    catalog.forget()
    assert catalog.variant("shrink-half").variant.name == "shrink"
    assert catalog._load.cache_info().currsize == 1


def test_variant_without_the_plain_option_has_no_plain_name(plugin_folder: Path) -> None:
    put(plugin_folder, "variants/shrink.py", VARIANT.format(options=("half",), requires=()))
    assert "shrink-half" in catalog.variants()
    with pytest.raises(InputError, match="no variant named 'shrink'"):
        catalog.variant("shrink")


def test_broken_variant_leaves_the_others_usable(plugin_folder: Path) -> None:
    put(plugin_folder, "variants/bad.py", "import not_there_at_all\n")
    catalog.forget()
    assert "onnxsim" in catalog.variants()
    assert "bad" not in catalog.variants()
    with pytest.raises(PluginError, match=r"cannot load .*bad\.py: ModuleNotFoundError"):
        catalog.variant("bad")


def test_part_of_a_missing_package_is_missing(plugin_folder: Path) -> None:
    assert "not_there.part not installed" in str(Needy(name="needy", path=plugin_folder).skip())


class Needy(Plugin):
    requires = ("not_there.part",)


def test_reason_to_skip_names_the_plugin_and_the_fix(plugin_folder: Path) -> None:
    put(plugin_folder, "variants/needy.py", VARIANT.format(options=("",), requires=("nothing_of_that_name",)))
    reason = catalog.skip_reason(Cell.from_path("toy/null/native/needy/null/cpu/b1t1"))
    assert reason == "needy: nothing_of_that_name not installed; pip install nothing_of_that_name"
    assert catalog.skip_reason(Cell.from_path("toy/null/native/raw/null/cpu/b1t1")) is None


def test_a_runtime_of_one_thread_is_not_measured_at_two(plugin_folder: Path) -> None:
    text = "from bench.plugins.runtimes.null import NullRuntime\n\n\nclass Single(NullRuntime):\n    default_for = ()\n"
    single = put(plugin_folder, "runtimes/single.py", text)
    cells = [Cell.from_path(f"toy/null/native/raw/single/cpu/b1t{threads}") for threads in (1, 2)]
    assert [catalog.skip_reason(cell) for cell in cells] == [None, None]
    digest = code_digests.of_plugin(catalog.runtime("single"))
    single.write_text(f"{text}\n    def one_thread_only(self):\n        return True\n")
    catalog.forget()
    assert [catalog.skip_reason(cell) for cell in cells] == [None, "single: it runs on one thread only"]
    assert code_digests.of_plugin(catalog.runtime("single")) == digest, "what was measured at one thread stays valid"


TASK = """
from bench.plugins.catalog import find, load_module
Toy = load_module(find('models')['toy']).Toy

class Mine(Toy):
    uses = {uses!r}
"""


def test_module_of_another_task(plugin_folder: Path) -> None:
    put(plugin_folder, "models/mine/task.py", TASK.format(uses=("other", "gone")))
    put(plugin_folder, "models/mine/network.py", "SIZE = 1")
    put(plugin_folder, "models/other/task.py", TASK.format(uses=()))
    put(plugin_folder, "models/other/network.py", "SIZE = 2")
    catalog.forget()
    task = catalog.task("mine")
    assert (task.module("network").SIZE, task.module("network", of="other").SIZE) == (1, 2)
    with pytest.raises(InputError, match="no task named 'gone'"):
        task.module("network", of="gone")
    with pytest.raises(AssertionError, match="mine does not say that it uses toy"):
        task.module("network", of="toy")


def test_threads_that_load_a_broken_file_all_learn_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import time\ntime.sleep(0.05)\nraise ValueError('no good')\n")

    def load(_: int) -> str:
        try:
            loading.load_module(path)
        except Exception as error:
            return type(error).__name__
        return "loaded"

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(load, range(4))) == ["PluginError"] * 4


def test_threads_execute_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text("import time\ntime.sleep(0.05)\n")
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(lambda _: loading.load_module(path), range(4)))
    assert all(module is modules[0] for module in modules)


def test_imports_that_requires_lacks() -> None:
    code = (
        "import json\nimport numpy\ndef f():\n    import other\n    from tinygrad.nn import onnx\n    import tinygrad\n"
    )
    said = "requires of mine lacks tinygrad (imports: tinygrad, tinygrad.nn)"
    assert plugin_child.lacking("mine", code, ("other.part",)) == said
    assert plugin_child.lacking("mine", code, ("other", "tinygrad")) is None


@pytest.mark.parametrize(
    "task", ["albert@tokens=64", "albert~tuning", "albert~confirming", "codegen_lm~generate", "codegen_lm~step"]
)
def test_tasks_that_are_made_of_others_are_asked_as_these(task: str) -> None:
    assert catalog.reason_of(catalog.task(task)) == catalog.reason_of(
        catalog.task(task.partition("~")[0].partition("@")[0])
    )
