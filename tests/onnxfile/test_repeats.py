"""What a file stores more than once: equal arrays, transposed ones, and the same numbers in fewer bits."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.weights import parameter_counts
from bench.onnxfile.weights.repeats import LONGEST_NAME, Weight, sentence

TABLE = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
OTHER = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)
CODES = np.clip(np.round(TABLE * 30), -127, 127).astype(np.int8)
NIBBLES = (np.clip(np.round(TABLE * 3), -7, 7) + 8).astype(np.uint8).reshape(-1)


def found(**arrays: np.ndarray) -> str | None:
    """What is told of arrays; one whose name begins with `packed` holds two numbers in a byte."""
    weights = [
        Weight(
            name=name, num_params=array.size * (2 if name.startswith("packed") else 1), array=lambda array=array: array
        )
        for name, array in arrays.items()
    ]
    return sentence(weights)


@pytest.mark.parametrize(
    "again",
    [TABLE, TABLE.T, TABLE.copy().reshape(32, 64), TABLE[None], TABLE.T.copy().reshape(1, 32, 64)],
    ids=["equal", "transposed", "reshaped", "with an axis", "transposed with an axis"],
)
def test_the_same_numbers_again(again: np.ndarray) -> None:
    assert found(table=TABLE, other=OTHER, head=again) == "2,048 are stored again: table as head"


@pytest.mark.parametrize("codes", [CODES, CODES.T.copy(), CODES.reshape(8, 256)])
def test_the_same_numbers_in_8_bits(codes: np.ndarray) -> None:
    assert found(table=TABLE, head=codes, other=OTHER) == "2,048 are stored again: table as head"


def test_the_same_numbers_in_8_bits_whose_blocks_have_scales_of_either_sign() -> None:
    signs = np.where(np.arange(TABLE.size).reshape(TABLE.shape) // 32 % 2, 1, -1)
    codes = (np.clip(np.round(TABLE * 30), -127, 127) * signs + 128).astype(np.uint8)
    assert found(table=TABLE, head=codes.reshape(64, 1, 32)) == "2,048 are stored again: table as head"


def test_the_same_numbers_in_4_bits_packed() -> None:
    packed = NIBBLES[::2] | NIBBLES[1::2] << 4
    assert found(table=TABLE, packed=packed) == "2,048 are stored again: table as packed"


@pytest.mark.parametrize(
    "dtype", ["int2", "uint2", "int4", "uint4", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
)
def test_the_same_numbers_again_in_a_narrow_type(dtype: str) -> None:
    """NumPy has no such types: their arrays have neither a buffer nor a kind."""
    narrow = np.dtype(getattr(ml_dtypes, dtype))
    table, other = (np.abs(np.round(array)).astype(narrow) for array in (TABLE, OTHER))
    assert found(table=table, other=other, head=table.T.copy()) == "2,048 are stored again: table as head"


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_the_same_numbers_in_4_bits_of_a_type_of_onnx(dtype: str) -> None:
    codes = (NIBBLES.astype(np.int8) - (8 if dtype == "int4" else 0)).astype(np.dtype(getattr(ml_dtypes, dtype)))
    assert found(table=TABLE, head=codes, other=OTHER) == "2,048 are stored again: table as head"


def test_equal_bytes_of_other_types_are_other_numbers() -> None:
    codes = np.arange(64).reshape(2, 32) % 16
    signed, unsigned = (codes.astype(np.dtype(getattr(ml_dtypes, dtype))) for dtype in ("int4", "uint4"))
    assert found(one=signed, two=unsigned) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"one": TABLE, "two": OTHER},
        {"one": TABLE, "two": -OTHER.T},
        {"zeros": np.zeros(64, np.float32), "biases": np.zeros(64, np.float32)},
        {"ones": np.ones((8, 8), np.float32), "scales": np.ones((8, 8), np.float32)},
        {"codes": np.clip(np.round(OTHER * 30), -127, 127).astype(np.int8), "table": TABLE},
        {"part": TABLE[:32], "table": TABLE},
        {"four": TABLE[0, :4], "bits": CODES[0, :4]},
    ],
)
def test_other_numbers(arrays: dict[str, np.ndarray]) -> None:
    assert found(**arrays) is None


def test_sets_are_named_largest_first_and_the_rest_is_counted() -> None:
    small = {f"{name}{copy}": OTHER[0, : 4 + place] for place, name in enumerate("abc") for copy in range(2)}
    layers = {f"layer_{number}": TABLE for number in range(12)}
    text = found(**small, **layers)
    assert text == f"{11 * 2048 + 4 + 5 + 6:,} are stored again: layer_0 as layer_1 and 10 more, c0 as c1, 2 more"


def test_long_names_are_cut_in_the_middle() -> None:
    text = found(**{"a" * 200: TABLE, "b": TABLE})
    assert text is not None
    assert "aaa...aaa" in text
    assert len(text) < 40 + LONGEST_NAME


def test_an_onnx_file_whose_head_is_the_transposed_table(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "head"], ["y"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])
    stored = {"table": TABLE, "head": np.ascontiguousarray(TABLE.T)}
    graph = helper.make_graph(
        nodes, "tied", [ids], [y], [numpy_helper.from_array(array, name) for name, array in stored.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "tied.onnx")
    whole = parameter_counts.of_onnx(tmp_path / "tied.onnx")
    assert (whole.num_params, whole.repeated) == (2 * 2048, "2,048 are stored again: table as head")
    outside = {"save_as_external_data": True, "size_threshold": 0, "location": "tied.data"}
    onnx.save(onnx.load(tmp_path / "tied.onnx"), tmp_path / "outside.onnx", **outside)
    assert parameter_counts.of_onnx(tmp_path / "outside.onnx") == whole
    (tmp_path / "tied.data").unlink()
    assert parameter_counts.of_onnx(tmp_path / "outside.onnx").num_params == 2 * 2048
