"""The one place that turns what onnx raises about a model into a sentence about the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.api.errors import InputError
from bench.api.messages import LONGEST, shortened
from bench.api.printable import printable
from bench.onnxfile.deferred import onnx


@contextlib.contextmanager
def as_input_errors(doing: str) -> Iterator[None]:
    """Raise an InputError instead of whatever onnx raises about a model; an InputError passes unchanged.

    Onnx's functions check a model while they work on it. What they refuse ends in an error of their own, in a failed
    assertion (RuntimeError), or in an error of the C++ library (ValueError, IndexError) or of the binding (TypeError).

    Args:
        doing: what onnx does to the model, after `onnx cannot`.

    Raises:
        InputError: with onnx's message in one line.
    """
    refusals = (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        onnx.version_converter.ConvertError,
    )
    try:
        yield
    except (*refusals, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        text = printable(" ".join(str(error).split()))
        raise InputError(f"onnx cannot {doing}: {shortened(text, LONGEST) or type(error).__name__}") from error
