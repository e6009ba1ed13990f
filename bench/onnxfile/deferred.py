"""NumPy, onnx, ONNX Runtime, PyTorch and TensorFlow as modules that are imported at the first use of an attribute.

Plugins import modules of this room, and `bench list` imports every plugin in the parent, where no framework may be
loaded and 0.6 s are allowed in all (`benchmarks/startup.py`). Importing NumPy takes 0.05 s of that, and onnx 0.13 s
more. Deferring both here keeps the import statements out of the functions.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any

__all__ = ["np", "onnx", "onnxruntime", "tf", "torch"]


class _Deferred(types.ModuleType):
    """Stands for the module of its name: each attribute or submodule is looked up there once, and kept."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools that look at a module's globals ask for these, and need no import
            raise AttributeError(name)
        module = importlib.import_module(self.__name__)
        value = getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import onnx
    import onnx.inliner
    import onnx.reference
    import onnx.version_converter
    import onnxruntime
    import tensorflow as tf
    import torch
else:
    np, onnx, onnxruntime = map(_Deferred, ("numpy", "onnx", "onnxruntime"))
    tf, torch = map(_Deferred, ("tensorflow", "torch"))
