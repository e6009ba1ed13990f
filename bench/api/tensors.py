"""What is known of one input or output of a model."""

from __future__ import annotations

import dataclasses

UNKNOWN = "?"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One input or output of a task.

    Attributes:
        name: the name of the tensor in every export and every feed.
        dtype: NumPy's name of the element type, such as `float32`.
        shape: sizes, the batch first; a text is the name of a dynamic dimension, such as `("batch", 1, "height",
            "width")`. In an output, `UNKNOWN` is a size that depends on the values of the inputs.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
