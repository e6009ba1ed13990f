"""The files of all variants on ONNX graphs have the same bytes every time, and hold nothing of this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from bench.api import loading
from bench.plugins import catalog

TESTS = Path(__file__).parents[2]
FILES = ("onnxoptimizer", "onnxslim", "onnxscript", "ort_transformers", "fp16", "static_shapes")
NAMES = [name for name, found in catalog.variants().items() if found.variant.name in FILES]
APPLY = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from support import variant_graphs
for name in json.loads(sys.argv[2]):
    variant_graphs.apply(name, variant_graphs.encoder(computed_shapes=True), pathlib.Path.cwd())
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders, each with what every variant makes of one model, by processes that hash texts differently."""
    usable = [name for name in NAMES if catalog.variant(name).variant.skip() is None]
    made = []
    for seed in ("1", "2"):
        folder = tmp_path_factory.mktemp(f"seed{seed}")
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", APPLY, str(TESTS), json.dumps(usable)]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=240)
        made.append(folder)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_every_time(name: str, folders: list[Path]) -> None:
    if (reason := catalog.variant(name).variant.skip()) is not None:
        pytest.skip(reason)
    assert len({hashlib.sha256((folder / f"{name}.onnx").read_bytes()).hexdigest() for folder in folders}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_file_stands_alone_and_tells_nothing_of_where_it_was_made(name: str, folders: list[Path]) -> None:
    if (reason := catalog.variant(name).variant.skip()) is not None:
        pytest.skip(reason)
    path = folders[0] / f"{name}.onnx"
    content = path.read_bytes()
    for told in (Path.cwd(), Path.home(), folders[0], Path(onnx.__file__).parents[1], loading.PACKAGE.parent):
        assert str(told).encode() not in content or str(told) == "/"
    assert not any(tensor.external_data for tensor in onnx.load(path, load_external_data=False).graph.initializer)
    assert {item.name for item in folders[0].iterdir()} <= {f"{other}.onnx" for other in NAMES} | {"source.onnx"}
