"""Reading an ONNX file without its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile.file.lazy import read

LARGE = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
SMALL = np.arange(6, dtype=np.int64)


def branch(name: str, tensor: onnx.TensorProto) -> onnx.GraphProto:
    nodes = [helper.make_node("Constant", [], [name], value=tensor)]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])


def make_model() -> onnx.ModelProto:
    """A large tensor in each place that can hold one."""
    doubles = helper.make_tensor("doubles", TensorProto.DOUBLE, LARGE.shape, LARGE.astype(np.float64).ravel())
    floats = helper.make_tensor("floats", TensorProto.FLOAT, LARGE.shape, LARGE.ravel())
    integers = helper.make_tensor("integers", TensorProto.INT64, [2000], np.arange(2000))
    constant = numpy_helper.from_array(LARGE, "constant")
    nodes = [
        helper.make_node("Constant", [], ["made"], value=constant),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch("t", constant), else_branch=branch("e", floats)),
    ]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(LARGE, "raw"), numpy_helper.from_array(SMALL, "small"), doubles, floats, integers]
    graph = helper.make_graph(nodes, "g", [flag], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path)
    return path


def test_large_tensors_are_left_on_disk(path: Path) -> None:
    stored = read(path)
    tensors = {tensor.name: tensor for tensor in stored.model.graph.initializer}

    assert path.stat().st_size > 5 * LARGE.nbytes
    assert stored.model.ByteSize() < 30_000  # the integers are no plain bytes, and stay
    assert [tensors[name].ByteSize() < 200 for name in ("raw", "doubles", "floats")] == [True] * 3
    assert tensors["small"].raw_data == SMALL.tobytes()


def test_tensors_that_were_left_are_found_again(path: Path) -> None:
    stored = read(path)
    tensors = {tensor.name: tensor for tensor in stored.model.graph.initializer}
    made, chosen = stored.model.graph.node
    branches = [attribute.g.node[0].attribute[0].t for attribute in chosen.attribute]

    for tensor in (tensors["raw"], tensors["floats"], made.attribute[0].t, *branches):
        np.testing.assert_array_equal(stored.array(tensor), LARGE)
    np.testing.assert_array_equal(stored.array(tensors["doubles"]), LARGE.astype(np.float64))
    np.testing.assert_array_equal(stored.array(tensors["small"]), SMALL)
    np.testing.assert_array_equal(stored.array(tensors["integers"]), np.arange(2000))


def test_everything_else_is_as_onnx_reads_it(path: Path) -> None:
    expected, actual = onnx.load(path), read(path).model
    for model in (expected, actual):
        del model.graph.initializer[:]
        del model.graph.node[:]

    assert actual == expected


def test_external_data_are_read_from_their_place(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    stored = read(path)

    assert not stored.is_whole
    np.testing.assert_array_equal(stored.array(stored.model.graph.initializer[0]), LARGE)


def test_external_data_may_be_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").write_bytes(b"1234")
    stored = read(path)

    with pytest.raises(InputError, match=r"'weights.bin' end before those of the tensor 'raw' do"):
        stored.data(stored.model.graph.initializer[0])


@pytest.mark.parametrize("offset", ["-4", "x", "99999999999"])
def test_external_data_may_have_a_wrong_place(tmp_path: Path, offset: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    stored = read(path)
    tensor = stored.model.graph.initializer[0]
    next(entry for entry in tensor.external_data if entry.key == "offset").value = offset

    with pytest.raises(InputError, match="'raw'"):
        stored.data(tensor)


def test_external_data_without_a_length_have_to_be_as_long_as_the_elements(tmp_path: Path) -> None:
    """They reach to the end of the file, which holds the other weights, too."""
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    stored = read(path)
    tensor = stored.model.graph.initializer[0]
    tensor.external_data.remove(next(entry for entry in tensor.external_data if entry.key == "length"))

    for use in (stored.array, stored.embed):
        with pytest.raises(InputError, match=r"tensor 'raw' takes [\d,]+ bytes; its external data have [\d,]+$"):
            use(tensor)


def test_every_truncated_file_is_refused_or_read_as_onnx_does(path: Path) -> None:
    content = path.read_bytes()
    for length in (0, 1, 3, 100, 1000, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="not an ONNX file, or only a part of one"):
            read(path)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x00" * 500, b"\xff" * 500, b"PK\x03\x04" + bytes(5000)])
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(InputError, match="not an ONNX file"):
        read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.onnx"):
        read(tmp_path / "none.onnx")
