"""What is wrong with a plugin's declarations and answers: one sentence with the file, the name and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api import Exporter, Runtime, Task, Variant
from bench.api.cell import Cell
from bench.api.errors import PluginError
from bench.decisions import listing
from bench.pipeline import opening
from bench.plugins import catalog, declarations

CELL = Cell.from_path("toy/null/native/raw/mine/cpu/b1t2")
OPEN = """
    def open(self, artifact, *, task, source, provider, threads):
        raise NotImplementedError
"""
FORMATS = '    formats = ("null",)\n'
RUNTIME = f"from bench.api import Runtime\n\n\nclass Mine(Runtime):\n{FORMATS}{OPEN}"
EXPORTER = """from bench.api import Exporter


class Mine(Exporter):
    sources = ()

    def format(self, source):
        return "null"

    def export(self, task, source, target):
        return {}
"""
VARIANT = """from bench.api import Variant


class Mine(Variant):
    def apply(self, source, target, *, option, task):
        return {}
"""
TASK = """from bench.api import Task


class Mine(Task):
    build = samples = loss = metrics = None
"""


def put(folder: Path, text: str, kind: str = "runtimes") -> Path:
    path = folder / kind / ("mine/task.py" if kind == "models" else "mine.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def listed(kind: str = "runtimes") -> str | None:
    (mine,) = (one for one in listing.listed()[kind] if one.name == "mine")
    return mine.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RUNTIME.replace("def open", "def opne"), "Mine does not define open; did you mean it by opne?"),
        (RUNTIME.replace(OPEN, ""), "Mine does not define open"),
        (RUNTIME.replace("formats", "format"), "Mine does not define formats; did you mean it by format?"),
        (
            RUNTIME.replace("formats", "format").replace("def open", "def load"),
            "Mine does not define open, formats; did you mean formats by format?",
        ),
        (
            f"{RUNTIME}\n    def enviroment(self, threads):\n        return {{}}\n",
            "Mine defines enviroment, which nothing calls; did you mean environment? "
            "(a helper of its own may be named _enviroment)",
        ),
        (
            f"{RUNTIME}    require = ('torch',)\n",
            "Mine defines require, which nothing calls; did you mean requires? "
            "(a helper of its own may be named _require)",
        ),
    ],
)
def test_a_name_that_is_missing_or_nearly_right(only_folder: Path, text: str, said: str) -> None:
    path = put(only_folder, text)
    assert listed() == f"{path}: {said}"


@pytest.mark.parametrize(
    "helper", ["opened", "compile", "option", "session_of", "run", "provider_of", "_enviroment", "load"]
)
def test_helpers_of_its_own_may_have_other_names(only_folder: Path, helper: str) -> None:
    put(only_folder, f"{RUNTIME}\n    def {helper}(self):\n        return None\n")
    assert listed() is None


def test_a_helper_may_resemble_a_method_that_the_class_defines(only_folder: Path) -> None:
    both = "    def providers(self):\n        return ('cpu',)\n\n    def provider(self):\n        return 'cpu'\n"
    put(only_folder, f"{RUNTIME}\n{both}")
    assert listed() is None


TUPLE = 'a tuple of strings, such as ("onnx",)'


@pytest.mark.parametrize(
    ("kind", "line", "said"),
    [
        ("runtimes", 'formats = ("onnx")', f"formats of Mine is 'onnx'; give {TUPLE}"),
        ("runtimes", 'requires = ["torch"]', f"requires of Mine is ['torch']; give {TUPLE}"),
        ("runtimes", "imports = (1,)", f"imports of Mine is (1,); give {TUPLE}"),
        ("runtimes", "title = None", "title of Mine is None; give a string"),
        ("runtimes", "scores = 1", "scores of Mine is 1; give True or False"),
        ("runtimes", "extra = ('torch',)", "extra of Mine is ('torch',); give a string or None"),
        (
            "runtimes",
            "options = ('fast',)",
            "options of Mine is ('fast',); give a dict of strings by string, such as "
            '{"fast": "what the option does"}',
        ),
        ("exporters", 'sources = "torch"', f"sources of Mine is 'torch'; give {TUPLE}"),
        ("exporters", "lossy = 'no'", "lossy of Mine is 'no'; give True or False"),
        ("variants", 'options = "5"', f"options of Mine is '5'; give {TUPLE}"),
        ("models", "max_metric_loss = '1'", "max_metric_loss of Mine is '1'; give a number"),
        (
            "models",
            "inputs = ('x',)",
            "inputs of Mine is ('x',); give a tuple of bench.api.TensorSpec, such as (TensorSpec(...),)",
        ),
        ("models", "metric_loss_unit = 'db'", "metric_loss_unit of Mine is 'db'; give 'share' or 'dB'"),
    ],
)
def test_an_attribute_of_another_type(only_folder: Path, kind: str, line: str, said: str) -> None:
    text = {"runtimes": RUNTIME, "exporters": EXPORTER, "variants": VARIANT, "models": TASK}[kind]
    path = put(only_folder, f"{text}\n    {line}\n", kind)
    assert listed("tasks" if kind == "models" else kind) == f"{path}: {said}"


@pytest.mark.parametrize("base", [Exporter, Runtime, Task, Variant])
def test_every_attribute_has_a_form(base: type) -> None:
    assert set(declarations._attributes(base).values()) <= set(declarations.FORMS)
    assert len(declarations._attributes(base)) > 8


ENVIRONMENT = 'give a dict of strings by string, such as {"OMP_NUM_THREADS": "1"}'


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("environment(self, threads)", "{'N': threads}", "environment() returned {'N': 1}; " + ENVIRONMENT),
        ("environment(self, threads)", "None", f"environment() returned None; {ENVIRONMENT}"),
        ("providers(self)", "'cpu'", f"providers() returned 'cpu'; give {TUPLE}"),
        ("packages(self, provider)", "provider", f"packages() returned 'cpu'; give {TUPLE}"),
        ("skip(self)", "True", "skip() returned True; give a string or None"),
        ("skip(self)", "shutl", "skip() raised NameError: name 'shutl' is not defined (mine.py, line 11)"),
        ("providers(self)", "{}['a']", "providers() raised KeyError: 'a' (mine.py, line 11)"),
    ],
)
def test_an_answer_of_another_type_and_an_error(only_folder: Path, method: str, answer: str, said: str) -> None:
    path = put(only_folder, f"{RUNTIME}\n    def {method}:\n        return {answer}\n")
    assert listed() == f"{path}: {said}"


def test_a_refusal_that_raises_has_its_line(plugin_folder: Path) -> None:
    path = put(plugin_folder, f"{RUNTIME}\n    def refusal(self, task):\n        return task.no_such\n")
    with pytest.raises(PluginError) as raised:
        catalog.skip_reason(CELL)
    said = "refusal() raised AttributeError: 'Toy' object has no attribute 'no_such' (mine.py, line 11)"
    assert str(raised.value) == f"{path}: {said}"


def test_an_environment_that_is_wrong_for_the_threads_of_a_cell(only_folder: Path) -> None:
    text = "return {'N': '1'} if threads == 1 else {'N': threads}"
    path = put(only_folder, f"{RUNTIME}\n    def environment(self, threads):\n        {text}\n")
    assert listed() is None
    with pytest.raises(PluginError) as raised:
        opening.environment(CELL)
    assert str(raised.value) == f"{path}: environment() returned {{'N': 2}}; {ENVIRONMENT}"


def test_an_import_that_fails_has_its_line(only_folder: Path) -> None:
    path = put(only_folder, f"import json\nimport nothing_of_that_name\n{RUNTIME}")
    said = "ModuleNotFoundError: No module named 'nothing_of_that_name' (mine.py, line 2)"
    assert listed() == f"cannot load {path}: {said}"
