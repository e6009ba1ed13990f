"""The names of a cell's parts: from a text to a typed value and back, and what is no such name."""

from __future__ import annotations

import pytest

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.names import PluginName, ProviderName, Role, TaskName
from bench.plugins import catalog


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("crnn", TaskName("crnn")),
        ("crnn@height=32,width=400", TaskName("crnn", sizes=(("height", 32), ("width", 400)))),
        ("lm~generate", TaskName("lm", Role.GENERATION)),
        ("lm~generate@new=1,prompt=9", TaskName("lm", Role.GENERATION, (("new", 1), ("prompt", 9)))),
        ("lm~step", TaskName("lm", Role.DECODING_STEP)),
        ("net~tuning@past=0", TaskName("net", Role.TUNING, (("past", 0),))),
        ("net~confirming", TaskName("net", Role.CONFIRMATION)),
    ],
)
def test_task(text: str, expected: TaskName) -> None:
    assert TaskName.parse(text) == expected
    assert str(expected) == text


def test_order_in_which_sizes_are_told_makes_no_other_request() -> None:
    task = TaskName.parse("crnn@width=400,height=32")
    assert (
        task == TaskName("crnn").at({"width": 400, "height": 32}) == TaskName("crnn").at({"height": 32, "width": 400})
    )
    assert Cell.from_path(f"{task}/torch/native/raw/pytorch/cpu/b1t1").task == task
    assert str(task) == "crnn@height=32,width=400"


def test_dimension_of_any_name_fits_into_a_path() -> None:
    task = TaskName("m").at({"Div/2=x, y": 3})
    assert str(task) == "m@Div_2_x__y=3"
    assert Cell.from_path(f"{task}/onnx/native/raw/onnxruntime/cpu/b1t1").task == task


@pytest.mark.parametrize("at", ["", "tokens", "tokens=", "tokens=00", "tokens=1,2", "=3", "tokens=3,", "a=1@b=2"])
def test_sizes_that_are_none(at: str) -> None:
    with pytest.raises(InputError, match=r"not a cell: 'albert@.*; they read albert@height=224,width=224"):
        Cell.from_path(f"albert@{at}/torch/native/raw/pytorch/cpu/b1t1")
    with pytest.raises(InputError, match="they read lm~generate@new=64,prompt=256"):
        TaskName.parse(f"lm~generate@{at}")


def test_a_request_to_generate_tells_its_prompt_and_its_new_tokens() -> None:
    task = TaskName("lm", Role.GENERATION).at({"prompt": 9, "new": 1})
    assert (task.num_prompt, task.num_new) == (9, 1)
    usual = TaskName("lm", Role.GENERATION)
    assert (usual.num_prompt, usual.num_new) == (256, 64)


def test_what_is_exported_has_no_sizes_and_of_a_generation_is_a_step() -> None:
    assert str(TaskName.parse("lm~generate@new=1,prompt=9").exported) == "lm~step"
    assert str(TaskName.parse("lm@tokens=16").exported) == "lm"
    assert str(TaskName.parse("lm~tuning").exported) == "lm"


def test_two_roles_are_of_a_search() -> None:
    assert [role for role in Role if TaskName("net", role).is_of_search] == [Role.TUNING, Role.CONFIRMATION]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("onnxruntime", PluginName("onnxruntime")),
        ("onnxruntime@1.22.0", PluginName("onnxruntime", "1.22.0")),
        ("my-runtime@python-3.12-ab", PluginName("my", "python-3.12-ab", "runtime")),
        ("dedup", PluginName("dedup")),
        ("mixed-2f10s1f", PluginName("mixed", option="2f10s1f")),
        ("weight_only-int4-sym-block@1.22.0", PluginName("weight_only", "1.22.0", "int4-sym-block")),
        ("odd-", PluginName("odd-")),
    ],
)
def test_plugin(text: str, expected: PluginName) -> None:
    assert PluginName.parse(text) == expected
    assert str(expected) == text
    assert expected.listed == text.partition("@")[0]


def test_a_set_of_options_has_one_spelling() -> None:
    assert str(ProviderName("cpu")) == "cpu"
    plain, some = ProviderName("cpu"), ProviderName("cpu", ("b",))
    assert str(plain.with_options(("b", "a"))) == str(some.with_options(("a", "b"))) == "cpu+a+b"
    assert ProviderName.parse("cpu-bf16+a+b") == ProviderName("cpu-bf16", ("a", "b"))
    assert ProviderName.parse("cuda") == ProviderName("cuda")


@pytest.mark.parametrize(
    ("provider", "expected"), [("cpu", True), ("cpu-bf16+a", True), ("cuda", False), ("openvino-gpu+cpu", False)]
)
def test_options_do_not_tell_the_device(provider: str, expected: bool) -> None:
    assert ProviderName.parse(provider).is_on_cpu is expected


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("cpu+no_arena+flush_denormals", r"options stand once and in order: cpu\+flush_denormals\+no_arena, not"),
        ("cpu+no_arena+no_arena", "options stand once and in order"),
        ("cpu+no_area", "onnxruntime has no option 'no_area'; did you mean 'no_arena'"),
        ("gpu+no_arena", "onnxruntime has no provider 'gpu' here"),
        ("cpu+", "onnxruntime has no option ''"),
    ],
)
def test_a_runtime_names_the_options_it_has(provider: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        catalog.runtime("onnxruntime").check_provider(provider)


def test_known_options_are_accepted() -> None:
    catalog.runtime("onnxruntime").check_provider("cpu+flush_denormals+no_arena")
