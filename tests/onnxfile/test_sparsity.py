"""Sparsity: planted patterns are found with their exact ratios; statistics of weights are right."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file.lazy import read
from bench.onnxfile.weights.report import weight_report
from bench.onnxfile.weights.sparsity import SIDES, Sparsity, measure_sparsity
from bench.onnxfile.weights.statistics import measure_weight


def planted(shape: tuple[int, ...], block: tuple[int, ...], *, every: int = 2, seed: int = 0) -> np.ndarray:
    """Random numbers without a zero, but for one in `every` blocks, taken at random."""
    generator = np.random.default_rng(seed)
    grid = tuple(-(-size // side) for size, side in zip(shape, block, strict=True))
    kept = np.ones(int(np.prod(grid)), bool)
    kept[generator.permutation(kept.size)[: kept.size // every]] = False
    mask = kept.reshape(grid)
    for axis, side in enumerate(block):
        mask = mask.repeat(side, axis)
    mask = mask[tuple(slice(size) for size in shape)]
    return (generator.uniform(1, 2, shape) * mask).astype(np.float32)


def by_hand(array: np.ndarray, block: tuple[int, ...]) -> float:
    """Share of the elements in zero blocks, counted block by block."""
    covered = 0
    for corner in np.ndindex(*[-(-size // side) for size, side in zip(array.shape, block, strict=True)]):
        part = array[tuple(slice(at * side, (at + 1) * side) for at, side in zip(corner, block, strict=True))]
        covered += part.size if not part.any() else 0
    return covered / array.size


@pytest.mark.parametrize("rows", SIDES)
@pytest.mark.parametrize("columns", SIDES)
def test_planted_rectangles_are_found(rows: int, columns: int) -> None:
    found = measure_sparsity("w", planted((256, 384), (rows, columns)))
    assert found.element_ratio == 0.5
    assert (found.block, found.block_ratio) == ((rows, columns), 0.5)


@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((64, 32, 3, 3), (1, 32, 3, 3)),  # filters
        ((64, 32, 3, 3), (64, 1, 3, 3)),  # input channels
        ((64, 32, 3, 3), (1, 1, 3, 3)),  # kernels
        ((64, 32, 3, 3), (4, 1, 3, 3)),  # kernels of four filters
        ((64, 32, 3, 3), (8, 4, 1, 1)),  # the same place in several kernels
        ((64, 32, 3, 3), (64, 32, 1, 1)),  # a place in all kernels
        ((2, 128, 48), (1, 16, 2)),  # gates of an LSTM
        ((2, 128, 48), (1, 1, 48)),
        ((96, 40), (1, 40)),
        ((96, 40), (96, 1)),
        ((512,), (16,)),
        ((3, 4, 5, 6, 7), (1, 1, 1, 6, 7)),
    ],
)
def test_planted_slices_are_found(shape: tuple[int, ...], block: tuple[int, ...]) -> None:
    array = planted(shape, block)
    found = measure_sparsity("w", array)
    assert found.block == block
    assert found.block_ratio == pytest.approx(by_hand(array, block))
    assert found.element_ratio == pytest.approx(np.mean(array == 0))


@pytest.mark.parametrize(("shape", "block"), [((130, 67), (8, 4)), ((33, 95), (1, 16)), ((45, 7, 3, 3), (2, 1, 3, 3))])
def test_blocks_that_the_edge_cuts_off_count_by_what_is_there(shape: tuple[int, ...], block: tuple[int, ...]) -> None:
    array = planted(shape, block, every=3, seed=3)
    found = measure_sparsity("w", array)
    assert found.block == block
    assert found.block_ratio == pytest.approx(by_hand(array, block))
    assert found.block_ratio == pytest.approx(found.element_ratio)


def test_a_few_zeros_elsewhere_do_not_hide_the_blocks() -> None:
    array = planted((128, 128), (4, 4))
    array.reshape(-1)[::41] = 0
    found = measure_sparsity("w", array)
    assert found.block == (4, 4)
    assert found.block_ratio == pytest.approx(by_hand(array, (4, 4))) == 0.5
    assert found.element_ratio == pytest.approx(np.mean(array == 0))
    assert found.element_ratio > 0.51


def test_zeros_without_structure_dense_and_empty_tensors() -> None:
    scattered = measure_sparsity("w", planted((64, 64), (1, 1)))
    assert (scattered.block, scattered.block_ratio, scattered.element_ratio) == ((1, 1), 0.5, 0.5)
    dense = measure_sparsity("w", np.full((4, 4), np.nan, np.float32))
    assert (dense.block, dense.block_ratio, dense.element_ratio) == ((1, 1), 0, 0)
    zeros = measure_sparsity("w", np.zeros((4, 6), np.int8))
    assert (zeros.block, zeros.block_ratio, zeros.element_ratio) == ((4, 6), 1, 1)
    assert measure_sparsity("w", np.zeros((), np.float32)).block == ()
    assert measure_sparsity("w", np.zeros((0, 3), np.float32)).element_ratio == 0


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", ml_dtypes.bfloat16, ml_dtypes.int4, bool])
def test_every_type(dtype: str) -> None:
    found = measure_sparsity("w", planted((32, 32), (4, 2)).astype(dtype))
    assert (found.block, found.element_ratio, found.dtype) == ((4, 2), 0.5, str(np.dtype(dtype)))


def save(folder: Path, nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto]) -> Path:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)], [value], tensors
    )
    onnx.save(helper.make_model(graph), folder / "model.onnx")
    return folder / "model.onnx"


def test_a_quantized_weight_is_sparse_where_it_equals_its_zero_point(tmp_path: Path) -> None:
    zero_points = np.arange(100, 132, dtype=np.uint8)
    plain = planted((64, 32), (2, 2))
    quantized = np.where(plain == 0, zero_points, 7).astype(np.uint8)
    path = save(
        tmp_path,
        [
            helper.make_node("DequantizeLinear", ["w", "scales", "zeros"], ["d"], axis=1),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ],
        [
            numpy_helper.from_array(quantized, "w"),
            numpy_helper.from_array(np.ones(32, np.float32), "scales"),
            numpy_helper.from_array(zero_points, "zeros"),
        ],
    )
    assert [report.sparsity for report in weight_report(read(path))] == [
        Sparsity(name="w", shape=(64, 32), dtype="uint8", element_ratio=0.5, block=(2, 2), block_ratio=0.5),
        None,
    ]


def test_constants_and_weights_in_subgraphs_are_found_and_shapes_are_not(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("MatMul", ["x", "inside"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(planted((2000, 16), (1, 8)), "inside")],
    )
    path = save(
        tmp_path,
        [
            helper.make_node("Constant", [], ["made"], value=numpy_helper.from_array(planted((16, 16), (16, 1)))),
            helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner),
        ],
        [
            numpy_helper.from_array(np.array(True), "flag"),
            numpy_helper.from_array(np.array([0, 1], np.int64), "shape"),
            numpy_helper.from_array(np.zeros(4, np.float32), "bias"),
        ],
    )
    reports = weight_report(read(path))
    found = {report.sparsity.name: report.sparsity.block for report in reports if report.sparsity}
    assert found == {"inside": (1, 8), "made": (16, 1)}
    statistics = {report.statistics.name: report.statistics for report in reports}
    assert set(statistics) == {"inside", "made", "bias"}
    assert (statistics["bias"].std, statistics["bias"].num_zeros, statistics["bias"].largest_deviation) == (0, 4, None)


def test_statistics_of_a_weight() -> None:
    array = np.random.default_rng(0).normal(0.5, 2, 3_000_000).astype(np.float32)
    array[:7] = 0
    array[10:13] = [40, -41, 50]
    found = measure_weight("w", array)
    expected = array.astype(np.float64)
    assert found.num_elements == 3_000_000
    assert (found.min, found.max) == (-41, 50)
    assert found.mean == pytest.approx(expected.mean(), rel=1e-12)
    assert found.std == pytest.approx(expected.std(), rel=1e-12)
    assert (found.num_zeros, found.num_outliers) == (7, 3)
    assert found.largest_deviation == pytest.approx((50 - expected.mean()) / expected.std())


def test_statistics_leave_out_what_is_not_finite_and_count_it() -> None:
    found = measure_weight("w", np.array([np.nan, np.inf, -np.inf, 1, 3], ml_dtypes.bfloat16))
    assert (found.min, found.max, found.mean, found.std) == (1, 3, 2, 1)
    assert (found.num_nan, found.num_infinite) == (1, 2)
    empty = measure_weight("w", np.array([np.nan], np.float32))
    assert (empty.min, empty.mean, empty.std, empty.num_nan) == (None, None, None, 1)
