"""Static analysis of ONNX files: what they compute and what it costs, without running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.onnxfile.deferred import np

if TYPE_CHECKING:
    from bench.onnxfile.costs.profile import Profile


def profile(
    path: Path | str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    observe: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> Profile:
    """Return shapes, MACs, parameters and bytes of an ONNX file; see `bench.onnxfile.costs.profile.profile`."""
    from bench.onnxfile.costs import profile as profiling

    return profiling.profile(path, shapes=shapes, dims=dims, observe=observe, inputs=inputs)
