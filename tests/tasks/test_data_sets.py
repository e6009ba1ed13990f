"""Data sets of a user's model that hurt: they are refused at once, and they are to blame, not the model."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.api.errors import InputError
from bench.tasks import adopt, dataset

EMPTY_TEXTS = b"\x93NUMPY\x01\x00\x46\x00{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999, 64)}  \n"


def test_samples_that_hold_nothing_are_refused_at_once(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).write_bytes(EMPTY_TEXTS)
    begin = time.process_time()
    with pytest.raises(InputError, match=r"a\.npy holds 6,399,999,999,936 elements of <U0"):
        dataset.read(tmp_path)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("other", "dtype"),
    [((2,), "float32"), ((3,), "<U2"), ((3,), "bool"), ((3, 1), "float32")],
    ids=["shape", "texts", "bools", "axes"],
)
def test_samples_of_other_shapes_or_kinds_are_refused(other: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "b.npy", np.zeros(other, dtype))
    with pytest.raises(InputError, match=r"b\.npy does not hold arrays of the names, shapes and kinds of a\.npy"):
        dataset.read(tmp_path)
    np.save(tmp_path / "b.npy", np.ones(3, np.float64))
    arrays, _ = dataset.read(tmp_path)
    assert arrays[""].shape == (2, 3)


@pytest.mark.parametrize("name", ["data.npz", "folder"])
def test_the_data_set_is_to_blame_and_not_the_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_PATH", "")
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,4] y) { y = Relu (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    if name == "folder":
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.npy").write_bytes(EMPTY_TEXTS)
    else:
        (tmp_path / name).write_bytes(b"PK\x05\x06 no list")
    with pytest.raises(InputError, match=rf"^cannot use the data set: {tmp_path / name}") as raised:
        adopt.adopt(tmp_path / "model.onnx", adopt.Options(dataset=tmp_path / name))
    assert "Error" not in str(raised.value)
