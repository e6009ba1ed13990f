"""Every finding of the fuzzers stays mended, the seeds break no rule, and the watch notices whatever breaks one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.api.errors import InputError
from bench.tasks import examine
from fuzz import apart, beside, mutations, targets, watch
from fuzz.corpus import CORPUS, EXPECTED, Finding, findings
from fuzz.minimise import minimised
from support.features import needs

OF_FRAMEWORKS = {"boosters": "xgboost", "ports": "litert", "pretrained": "torch"}
"""Targets that open models by their packages, in which a test without frameworks has no share."""


def marks_of(target: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.framework(OF_FRAMEWORKS[target])] if target in OF_FRAMEWORKS else []


FINDINGS = [
    pytest.param(
        finding,
        id=finding.name,
        marks=[
            *marks_of(finding.target),
            *([pytest.mark.xfail(strict=True, reason=finding.open)] if finding.open else []),
        ],
    )
    for finding in findings()
    if finding.target in targets.names()
]


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_breaks_no_rule(finding: Finding) -> None:
    """The case is answered, or refused in a sentence; `broke` says what it did when it was found."""
    if finding.target in OF_FRAMEWORKS:
        assert apart.judged(finding.target)[finding.name] is None, finding.broke
        return
    assert watch.judge_apart(targets.target(finding.target).check, finding.path.read_bytes()) is None, finding.broke


def test_every_file_of_the_corpus_is_expected() -> None:
    files = {path for path in CORPUS.rglob("*") if path.is_file()} - {EXPECTED}
    assert {finding.path for finding in findings()} == files
    assert {finding.target for finding in findings()} <= {path.stem for path in Path(targets.__path__[0]).glob("*.py")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in targets.names()])
def test_the_seeds_break_no_rule_and_mutations_differ_from_them(name: str) -> None:
    target, chance = targets.target(name), random.Random(0)
    for seed in target.seeds():
        assert watch.judge(target.check, seed) is None
        assert {target.changed(seed, chance, 100_000) for _ in range(5)} - {seed}
        assert next(target.smaller(seed)) != seed
    assert all(module.startswith(("bench.", "google.")) for module in targets.instrumented(name))


def fails(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (KeyError(99), watch.EXCEPTION),
        (RecursionError("too deep"), watch.EXCEPTION),
        (AssertionError(), watch.EXCEPTION),
        (MemoryError(), watch.MEMORY),
        (watch.BrokenRule(watch.LOST, "one is lost"), watch.LOST),
    ],
)
def test_an_exception_of_no_kind_of_ours_breaks_a_rule(error: Exception, rule: str) -> None:
    found = watch.judge(lambda content: fails(error), b"")
    assert found is not None
    assert found.rule == rule


def test_a_refusal_breaks_no_rule_and_the_steps_after_it_are_taken() -> None:
    assert watch.judge(lambda content: fails(InputError("it is no model")), b"") is None
    found = watch.judge(lambda content: watch.each(lambda: fails(InputError("no")), lambda: fails(KeyError(1))), b"")
    assert found is not None
    assert found.said == "KeyError: 1"


def test_a_hang_is_ended() -> None:
    def hang(content: bytes) -> None:
        while True:
            pass

    begin = time.process_time()
    found = watch.judge(hang, b"", limit_s=0.2)
    assert found is not None
    assert found.rule == watch.HANG
    assert time.process_time() - begin < 5


def test_memory_beyond_the_limit_is_noticed() -> None:
    found = watch.judge(lambda content: fails(ValueError(len(bytearray(2 * watch.LIMIT_BYTES)))), b"")
    assert found is not None
    assert found.rule == watch.MEMORY


def test_the_end_of_the_process_is_noticed() -> None:
    found = watch.judge_apart(lambda content: os.kill(os.getpid(), signal.SIGSEGV), b"")
    assert found is not None
    assert (found.rule, found.said) == (watch.ENDED, "with status -11")
    assert watch.judge_apart(lambda content: None, b"") is None
    found = watch.judge_apart(lambda content: fails(KeyError(99)), b"")
    assert found is not None
    assert found.said == "KeyError: 99"


def test_a_formula_in_a_cell_is_noticed_and_a_number_is_none() -> None:
    watch.check_cells("name,value\nx,-1.5e-07\ny,-3\nz,-inf\n")
    with pytest.raises(watch.BrokenRule, match="=1"):
        watch.check_cells("name,value\n=1+1,2\n")


@needs("page")
@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<b>bold</b>", "<a href='javascript:1'>x</a>"],
)
def test_markup_in_the_page_is_noticed(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that took a stored text for markup would be found: here a template does."""
    page = targets.target("page")
    made = page.pages.page  # type: ignore[attr-defined]

    def careless(shown: Sequence[Any], *given: object, **named: object) -> str:
        text: str = made(shown, *given, **named)
        return text.replace("</body>", "".join(next(iter(shown[0].records.values())).header.versions) + "</body>")

    stored = next(page.seeds()).replace(b'"null":"1.0"', b'"%b":"1.0"' % hostile.encode())
    assert watch.judge(page.check, stored) is None
    monkeypatch.setattr(page.pages, "page", careless)  # type: ignore[attr-defined]
    found = watch.judge(page.check, stored)
    assert found is not None
    assert found.rule == watch.PAGE


def test_code_in_the_task_of_a_model_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose file holds more than values would be found."""
    target = targets.target("check")
    seed = next(target.seeds())
    assert watch.judge(target.check, seed) is None
    monkeypatch.setattr(examine, "_literal", lambda value: f"len({value!r})")
    found = watch.judge(target.check, seed)
    assert found is not None
    assert found.rule == watch.CODE


def test_the_parts_of_a_case_come_back() -> None:
    assert beside.parts(beside.joined(b"a\nb\n", b"\x00=== model\n")) == (b"a\nb\n", b"\x00=== model\n")
    assert beside.parts(b"a\n=== model\nxyz") == (b"a\n", b"")
    assert beside.parts(b"a\n") == (b"a\n", b"")


def test_a_case_is_minimised_to_what_breaks_the_rule() -> None:
    class Lines:
        smaller = staticmethod(mutations.smaller_bytes)

        @staticmethod
        def check(content: bytes) -> None:
            if b"bad" in content:
                raise KeyError(99)

    content = b"some long text with a bad word in it"
    found = watch.judge(Lines.check, content)
    assert found is not None
    assert minimised(Lines, content, found, limit_s=10) == b"bad"  # type: ignore[arg-type]


@needs("profile")
def test_mutations_of_a_model_are_models(tmp_path: Path) -> None:
    import onnx

    seeds, chance = list(targets.target("shapes").seeds()), random.Random(3)
    made = [mutations.of_model(chance.choice(seeds), chance, 100_000) for _ in range(50)]
    assert len({*made} - {b""}) > 30
    for content in filter(None, made):
        onnx.ModelProto.FromString(content)
