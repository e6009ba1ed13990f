"""What docs/quickstart.md says is in the matrix are the plugins that there are."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_matrix", ROOT / "docs" / "site" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_quickstart_names_all_plugins() -> None:
    """`make readme` writes the table anew."""
    matrix = script()
    _, _, rest = matrix.PAGE.read_text().partition(matrix.BEGIN)
    assert rest.partition(matrix.END)[0] == matrix.table()
    assert "| runtimes of `tvm` files | `tvm` (TVM) |\n" in matrix.table()
    assert "`torch_litert`\\* (tflite)" in matrix.table()
