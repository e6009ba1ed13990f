"""Rules that give the work of an operator, one small function for each kind of operator.

A rule takes a `Node` whose shapes are numbers and returns its `Work`:

- **MACs** are multiplications whose products are summed: convolutions, matrix products, recurrent layers, attention.
- **Other operations** are counted for each element: a bias, an activation, a comparison or an exponential counts 1 an
  element, a normalization as many as its formula has. They are not among the MACs.
- Moving, selecting and sorting elements counts nothing: it costs bytes, not arithmetic.

Other tools that report more MACs have added some of the other operations, such as biases or activations.
"""

from __future__ import annotations

from bench.onnxfile.costs.macs import attention, convolution, elementwise, matrix, movement, openvino, recurrent  # noqa: F401
from bench.onnxfile.costs.work import RULES

__all__ = ["RULES"]
