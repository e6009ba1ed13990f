"""litert-torch of what it cannot convert, without its environment: a module stands in its place."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError
from bench.plugins import catalog
from bench.records import folder
from support import small_models as small


class Tensor:
    """As much of a tensor as an exporter takes a sample from."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples

    def __getitem__(self, rows: slice) -> Tensor:
        return Tensor(len(range(self.num_samples)[rows]))


@pytest.mark.parametrize("content", [b"", b"TFL3", b"no model at all", b"\x1c\0\0\0TFL2" + bytes(64)])
def test_what_is_no_tflite_file_is_refused(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def convert(model: str, example: tuple[Tensor, ...]) -> types.SimpleNamespace:
        sizes.extend(tensor.num_samples for tensor in example)
        return types.SimpleNamespace(export=lambda path: Path(path).write_bytes(content))

    monkeypatch.setitem(sys.modules, "litert_torch", types.SimpleNamespace(convert=convert))
    exporter = catalog.exporter("torch_litert")
    with pytest.raises(ArtifactError, match=r"^litert-torch wrote no TFLite file$"):
        exporter.convert("model", (Tensor(2), Tensor(2)), small.make_task(), tmp_path / "artifact.tflite")
    assert sizes == [1, 1], "its files are for one sample"


MODEL = """
import torch


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvalsh(x @ x.mT)


def build():
    return Spectrum().eval()


def example_inputs():
    return {"x": torch.rand(2, 3, 3)}
"""


@pytest.mark.thorough
@pytest.mark.framework
@pytest.mark.timeout(1800)
def test_an_operator_that_it_cannot_translate_is_named(tmp_path: Path) -> None:
    """Its packages are installed from the index."""
    (tmp_path / "spectrum.py").write_text(MODEL)
    bench = [sys.executable, "-c", "from bench.cli import main; main.main()"]
    cell = "spectrum/torch/torch_litert/raw/litert/cpu/b1t1"
    results = tmp_path / "results"
    run = ["run", "--model", str(tmp_path / "spectrum.py"), cell, "--launches", "1", "--results", str(results)]
    for command, code in ((["install", "torch_litert", "--yes"], 0), (run, 1)):
        done = subprocess.run([*bench, *command], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    (row,) = [row for row in folder.read(results).rows if row.cell == cell]
    assert row.status == "failed"
    assert "linalg_eigh" in row.reason
