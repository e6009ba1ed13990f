"""ncnn's files that cannot be loaded: the reason names the layers that ncnn does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api.errors import ArtifactError
from bench.plugins import catalog
from bench.plugins.engines.archive import pack

pytest.importorskip("ncnn")
PARAMS = """7767517
{layers} {layers}
Input in0 0 1 in0
{others}
"""


def opened(folder: Path, *others: str) -> None:
    text = PARAMS.format(layers=1 + len(others), others="\n".join(others))
    (folder / "model.param").write_text(text)
    (folder / "model.bin").write_bytes(b"")
    pack(folder, ("model.param", "model.bin"), folder / "artifact.ncnn")
    catalog.runtime("ncnn").open(
        folder / "artifact.ncnn", task=catalog.task("toy"), source="torch", provider="cpu", threads=1
    ).close()


def test_layers_that_ncnn_does_not_have_are_named_once(tmp_path: Path) -> None:
    unknown = ("Tensor.to a 1 1 in0 x", "ReLU b 1 1 x y", "Tensor.to c 1 1 y z", "aten::cumsum d 1 1 z out0")
    with pytest.raises(ArtifactError) as raised:
        opened(tmp_path, *unknown)
    assert str(raised.value) == "ncnn cannot load this model: it has no layers Tensor.to, aten::cumsum"


def test_weights_that_are_missing_are_no_unknown_layers(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^ncnn cannot load this model: its layers or weights are damaged$"):
        opened(tmp_path, "InnerProduct a 1 1 in0 out0 0=4 1=1 2=16")


def test_a_file_of_layers_that_ncnn_has_is_opened(tmp_path: Path) -> None:
    opened(tmp_path, "ReLU a 1 1 in0 out0")
