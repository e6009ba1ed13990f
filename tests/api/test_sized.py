"""Names of tasks at other sizes, and the cells that have them."""

from __future__ import annotations

import pytest

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.sized import family_of, name_at, sizes_of


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


@pytest.mark.parametrize("at", ["", "tokens", "tokens=", "tokens=0", "tokens=1,2", "=3", "tokens=3,", "a=1@b=2"])
def test_cell_with_sizes_that_are_none(at: str) -> None:
    with pytest.raises(InputError, match="sizes read albert@height=224,width=224"):
        Cell.from_path(f"albert@{at}/torch/native/raw/pytorch/cpu/b1t1")
