"""Linear layers with a ReLU between them, in NumPy: how a model of the source `numpy` runs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.api import Arrays, Outputs, Runtime, Session, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class LayersSession(Session):
    """The layers, called with arrays."""

    def __init__(self, layers: Sequence[tuple[np.ndarray, np.ndarray]], name: str) -> None:
        self._hidden, self._last = layers[:-1], layers[-1]
        self._name = name
        self.num_params = sum(weight.size + bias.size for weight, bias in layers)

    def run(self, feeds: Arrays) -> Outputs:
        values = feeds[self._name]
        for weight, bias in self._hidden:
            values = (values @ weight + bias).clip(min=0)
        weight, bias = self._last
        return [values @ weight + bias]


class NumpyLayers(Runtime):
    """Runs what `build("numpy")` of a task returns: pairs of a weight and a bias."""

    requires = ("numpy",)
    formats = ("numpy",)
    default_for = ("numpy",)

    def import_packages(self) -> None:
        import numpy  # noqa: F401

    def builds(self, artifact: Path) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        return LayersSession(task.build(source, artifact), task.inputs[0].name)
