"""Work during which Python's garbage collector does not run."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector from looking through objects that are all in use, such as a large tree.

    In paired turns, reading the code that judges a cell takes 0.6 to 0.8 s in place of 0.9 to 1.3 s, and the profile of
    DenseNet-121 of the onnx package 10 % less time; that of SqueezeNet takes as long.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
