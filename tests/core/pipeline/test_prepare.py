"""Artifacts: each step is made once, made again when one of its inputs changes, and its failure has a reason."""

from __future__ import annotations

import functools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Variant, cache, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, ChildError, RefusedError
from bench.measure.limits import Limits
from bench.pipeline import prepare, provenance
from bench.plugins import catalog

LIMITS = Limits.of(step_s=60, memory_bytes=2**30)
TOY = loading.PLUGINS / "models" / "toy"
ROUNDS = """
import json
from bench.api import Variant

class Rounds(Variant):
    formats = ("null",)
    options = ("double", "same", "told")

    def apply(self, source, target, *, option, task):
        model = json.loads(source.read_text())
        model["rounds"] *= 2 if option == "double" else 1
        target.write_text(json.dumps(model))
        return {"option": option, **({"note": f"{model['rounds']} rounds"} if option == "told" else {})}
"""
FAULTY = """
import sys
from bench.api import Variant

class Faulty(Variant):
    formats = ("null",)
    options = ("raise", "exit", "nothing", "empty", "none", "strange")

    def apply(self, source, target, *, option, task):
        if option == "raise":
            raise ValueError("as expected")
        if option == "exit":
            sys.exit(7)
        if option == "nothing":
            return {}
        target.write_text("" if option == "empty" else source.read_text())
        return None if option == "none" else {"info": float("nan")}
"""


@pytest.fixture
def toy(plugin_folder: Path) -> Path:
    """A toy task of the test's own, `mytoy`."""
    folder = plugin_folder / "models" / "mytoy"
    shutil.copytree(TOY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "weights.json").write_text(json.dumps({"rounds": 3, "scale": 2.0}))
    (plugin_folder / "variants").mkdir()
    (plugin_folder / "variants" / "rounds.py").write_text(ROUNDS)
    (plugin_folder / "variants" / "faulty.py").write_text(FAULTY)
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What children were asked to do, in order."""
    asked: list[str] = []
    ask = prepare.ask_once

    def note(operation: Callable[..., Any], **arguments: Any) -> object:
        asked.append(str(arguments.get("variant") or arguments.get("exporter") or operation.__name__))
        return ask(operation, **arguments)

    monkeypatch.setattr(prepare, "ask_once", note)
    return asked


def make(variant: str, limits: Limits = LIMITS, failed: prepare.FailedSteps | None = None) -> Artifact:
    catalog.forget()
    provenance.task_digest.cache_clear()
    return prepare.artifact_of(Cell.from_path(f"mytoy/null/native/{variant}/null/cpu/b1t1"), limits, failed)


def rounds(artifact: Artifact) -> int:
    return int(json.loads(artifact.path.read_text())["rounds"])


@pytest.mark.usefixtures("toy")
def test_notes_of_all_steps_are_those_of_the_cell() -> None:
    assert make("rounds-told+rounds-double+rounds-told").info["note"] == "rounds-told: 3 rounds; rounds-told: 6 rounds"
    steps = prepare.steps_of(Cell.from_path("mytoy/null/native/rounds-told+rounds-double/null/cpu/b1t1"), LIMITS)
    assert [step.info.get("note") for step in steps] == [None, "3 rounds", None]
    assert make("rounds-double").info.get("note") is None


PADDED = """
import json
from bench.api import Variant

class Padded(Variant):
    formats = ("null",)
    options = ("more", "as_much", "less")
    lossy = {lossy}

    def apply(self, source, target, *, option, task):
        spaces = {{"more": 3, "as_much": 0, "less": -1}}[option]
        text = json.dumps(json.loads(source.read_text()))
        target.write_text(text.replace(" ", "", 1) if spaces < 0 else text + " " * spaces)
        return {{}}
"""


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("variant", "told"),
    [
        (
            "narrow-more",
            "narrow-more: its file is larger than the file before it, 30 B of 27 B: it adds more operators",
        ),
        ("narrow-less+narrow-more", "narrow-more: its file is larger than the file before it, 30 B of 26 B: it adds"),
        ("narrow-as_much", None),
        ("narrow-less", None),
        ("exact-more", None),
    ],
)
def test_a_file_of_fewer_bits_that_is_larger_is_told(variant: str, told: str | None, toy: Path) -> None:
    for name, lossy in (("narrow", True), ("exact", False)):
        (toy.parents[1] / "variants" / f"{name}.py").write_text(PADDED.format(lossy=lossy))
    note = make(variant).info.get("note")
    assert note is None if told is None else str(note).startswith(told), note


@pytest.mark.usefixtures("toy")
def test_chain_is_applied_in_order_and_each_step_made_once(asked: list[str]) -> None:
    artifact = make("rounds-double+rounds-double")
    assert rounds(artifact) == 12
    assert asked == ["native", "rounds-double", "rounds-double"]
    assert (artifact.format, artifact.info["option"]) == ("null", "double")
    assert artifact.sha256 == cache.file_digest(artifact.path)
    assert artifact.size_bytes == artifact.path.stat().st_size
    assert artifact.info["versions"]["python"]
    assert artifact.info["seconds"] >= 0
    asked.clear()
    assert make("rounds-double+rounds-double") == artifact
    assert rounds(make("rounds-double")) == 6
    assert rounds(make("raw")) == 3
    assert asked == []  # the steps of a chain are artifacts of their own


@pytest.mark.usefixtures("toy")
def test_longer_chain_starts_from_the_shorter(asked: list[str]) -> None:
    make("rounds-double")
    asked.clear()
    assert rounds(make("rounds-double+rounds-double")) == 12
    assert asked == ["rounds-double"]


def test_new_weights_make_every_step_again(toy: Path, asked: list[str]) -> None:
    before = make("rounds-double")
    (toy / "weights.json").write_text(json.dumps({"rounds": 5, "scale": 2.0}))
    asked.clear()
    after = make("rounds-double")
    assert asked == ["native", "rounds-double"]
    assert rounds(after) == 10
    assert rounds(before) == 6  # the old file stands


def test_new_code_of_the_task_makes_it_again_its_readme_does_not(toy: Path, asked: list[str]) -> None:
    make("raw")
    asked.clear()
    (toy / "README.md").write_text("What it is.")
    (toy / "train.py").write_text("print('how it was trained')")
    make("raw")
    assert asked == []
    with (toy / "task.py").open("a") as file:
        file.write("\n# changed\n")
    make("raw")
    assert asked == ["native"]


def test_new_code_of_a_task_that_it_uses_makes_it_again(toy: Path, asked: list[str]) -> None:
    other = toy.with_name("other")
    shutil.copytree(toy, other)
    (other / "network.py").write_text("SIZE = 1")
    with (toy / "task.py").open("a") as file:
        file.write("\nToy.uses = ('other',)\n")
    make("raw")
    asked.clear()
    (other / "weights.json").write_text("{}")
    (other / "train.py").write_text("print('how it was trained')")
    make("raw")
    assert asked == []
    (other / "network.py").write_text("SIZE = 2")
    make("raw")
    assert asked == ["native"]


def test_new_code_of_a_variant_makes_its_step_again(toy: Path, asked: list[str]) -> None:
    make("rounds-double")
    path = toy.parents[1] / "variants" / "rounds.py"
    path.write_text(ROUNDS.replace("*= 2 if", "*= 3 if"))
    asked.clear()
    assert rounds(make("rounds-double")) == 9
    assert asked == ["rounds-double"]


@pytest.mark.usefixtures("toy")
def test_options_are_told_apart() -> None:
    assert (rounds(make("rounds-same")), rounds(make("rounds-double"))) == (3, 6)


@pytest.mark.usefixtures("toy")
def test_corrupt_artifact_is_made_again(asked: list[str]) -> None:
    first = make("rounds-double")
    first.path.write_text("{}")
    asked.clear()
    assert make("rounds-double").sha256 == first.sha256
    assert rounds(first) == 6
    assert asked == ["rounds-double"]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("raise", "faulty-raise: ValueError: as expected"),
        ("exit", "faulty-exit: .../faulty.py, line 13: apply raised SystemExit: 7, which would end the command"),
        ("nothing", "faulty-nothing: ValueError: no artifact was written"),
        ("empty", "faulty-empty: ValueError: no artifact was written"),
        ("none", "faulty-none: TypeError: it returned NoneType; it must return a dict of what is worth keeping"),
        ("strange", "faulty-strange: ValueError: Out of range float values are not JSON compliant"),
    ],
)
def test_failing_step_is_named_with_its_reason(option: str, reason: str) -> None:
    with pytest.raises(ArtifactError) as raised:
        make(f"rounds-double+faulty-{option}")
    assert re.sub(r" \S+/(?=faulty\.py)", " .../", str(raised.value)).startswith(reason)
    assert not list(cache.folder().glob("making-*"))


@pytest.mark.usefixtures("toy")
def test_a_step_that_failed_is_not_tried_again(asked: list[str]) -> None:
    failed: prepare.FailedSteps = {}
    for chain in ("faulty-raise", "faulty-raise+rounds-double"):
        with pytest.raises(ArtifactError, match="faulty-raise: ValueError: as expected"):
            make(chain, failed=failed)
    assert asked == ["native", "faulty-raise"]


@pytest.mark.usefixtures("toy")
def test_step_out_of_time() -> None:
    with pytest.raises(ArtifactError, match=r"native: no answer within 0\.001 s"):
        make("raw", Limits.of(step_s=0.001, memory_bytes=2**30))


@pytest.mark.usefixtures("toy")
def test_variant_for_another_format_is_refused(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class OnnxOnly(Variant):
        def apply(self, source, target, *, option, task):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    catalog.forget()
    named = catalog.NamedVariant(OnnxOnly(name="onnx_only", path=Path(__file__)), "")
    monkeypatch.setattr(catalog, "variant", functools.cache(lambda name: named))
    with pytest.raises(ArtifactError, match="onnx_only takes onnx, not null"):
        prepare.artifact_of(Cell.from_path("mytoy/null/native/onnx_only/null/cpu/b1t1"), LIMITS)
    assert asked == ["native"]


@pytest.mark.usefixtures("toy")
def test_inputs_are_the_test_split(asked: list[str]) -> None:
    catalog.forget()
    task = catalog.task("mytoy")
    path = prepare.inputs_of(task, LIMITS)
    with np.load(path) as saved:
        assert set(saved) == {"x"}
        np.testing.assert_array_equal(saved["x"], task.samples("test").inputs["x"])
    assert prepare.inputs_of(task, LIMITS) == path
    assert asked == ["save_inputs"]


def test_versions_are_of_distributions() -> None:
    found = provenance.versions(("numpy", "PIL", "nothing_of_that_name"))
    assert set(found) == {"python", "numpy", "pillow", "nothing_of_that_name"}
    assert found["numpy"] == np.__version__
    assert found["nothing_of_that_name"] is None


def test_versions_of_a_package_that_distributions_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler and a runtime may lie in one package: an upgrade of either counts."""
    found = {"iree": ["iree-base-compiler", "iree-base-runtime"]}
    monkeypatch.setattr(provenance, "_distributions", lambda: found)
    monkeypatch.setattr(provenance.importlib.metadata, "version", lambda name: f"{name} 3")
    names = ["iree-base-compiler", "iree-base-runtime"]
    assert provenance.versions.__wrapped__(("iree.compiler",)).items() >= {name: f"{name} 3" for name in names}.items()


def test_limits() -> None:
    every = Limits.of(step_s=7, memory_bytes=5)
    assert (every.prepare_s, every.verify_s, every.open_s, every.burst_s, every.memory_bytes) == (7, 7, 7, 7, 5)
    usual = Limits.of(step_s=None, memory_bytes=None)
    assert usual == Limits(memory_bytes=usual.memory_bytes)
    assert usual.memory_bytes is not None
    assert usual.memory_bytes > 2**20


@pytest.mark.usefixtures("toy")
def test_a_refusal_is_kept_as_a_file_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        calls.append("transform")
        raise ChildError("refused", "nothing to do")

    make("raw")
    monkeypatch.setattr(prepare, "ask_once", refuse)
    for _ in range(2):  # as in two runs, which share no steps that failed
        with pytest.raises(RefusedError, match=r"^rounds-double: nothing to do$"):
            make("rounds-double")
    assert calls == ["transform"]
