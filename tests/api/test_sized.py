"""Names of tasks at other sizes, and the cells that have them."""

from __future__ import annotations

import pytest

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.sized import (
    exported_of,
    family_of,
    generating_of,
    is_generating,
    is_step,
    name_at,
    request_of,
    sizes_of,
)


def test_name_tells_the_family_and_the_sizes() -> None:
    name = name_at("crnn", {"height": 32, "width": 400})
    assert name == "crnn@height=32,width=400"
    assert (family_of(name), sizes_of(name)) == ("crnn", {"height": 32, "width": 400})


def test_order_in_which_sizes_are_told_makes_no_other_request() -> None:
    assert name_at("crnn", {"width": 400, "height": 32}) == name_at("crnn", {"height": 32, "width": 400})
    cell = Cell.from_path("crnn@width=400,height=32/torch/native/raw/pytorch/cpu/b1t1")
    assert cell.task == "crnn@height=32,width=400"


def test_name_without_sizes() -> None:
    assert name_at("crnn", {}) == "crnn"
    assert (family_of("crnn"), sizes_of("crnn")) == ("crnn", {})


def test_dimension_of_any_name_fits_into_a_path() -> None:
    name = name_at("m", {"Div/2=x, y": 3})
    assert name == "m@Div_2_x__y=3"
    assert Cell.from_path(f"{name}/onnx/native/raw/onnxruntime/cpu/b1t1").task == name


@pytest.mark.parametrize("at", ["", "tokens", "tokens=", "tokens=00", "tokens=1,2", "=3", "tokens=3,", "a=1@b=2"])
def test_cell_with_sizes_that_are_none(at: str) -> None:
    with pytest.raises(InputError, match="sizes read albert@height=224,width=224"):
        Cell.from_path(f"albert@{at}/torch/native/raw/pytorch/cpu/b1t1")


def test_a_request_to_generate_tells_its_prompt_and_its_new_tokens() -> None:
    name = generating_of("lm", prompt=256, new=64)
    assert name == "lm~generate@new=64,prompt=256"
    assert (family_of(name), request_of(name), is_generating(name)) == ("lm", (256, 64), True)
    assert (exported_of(name), is_step(exported_of(name))) == ("lm~step", True)
    assert request_of("lm~generate") == (256, 64)
    assert Cell.from_path("lm~generate@prompt=9,new=1/torch/native/raw/pytorch/cpu/b1t1").task == (
        "lm~generate@new=1,prompt=9"
    )


def test_other_tasks_generate_nothing() -> None:
    assert not is_generating("lm@tokens=16")
    assert not is_step("lm")
    assert exported_of("lm@tokens=16") == "lm"
