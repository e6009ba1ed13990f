"""Fitted estimators for the tests of users' models: the data they are fitted to, and their pickles."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Task
from bench.plugins import catalog
from bench.tasks.examine import examine

WIDTH = 5
Examined = Callable[..., tuple[Task, dict[str, Any]]]


def examiner(plugin_folder: Path) -> Examined:
    """A function that examines a model in this process, with trust, and gives its task."""

    def run(module: str, path: Path, **asked: Any) -> tuple[Task, dict[str, Any]]:
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"data": None, "dims": (), "shapes": (), "trust": True, **asked}
        found = examine(module=module, path=str(path), folder=str(folder), **request)
        catalog.forget()
        return catalog.task("mine"), found

    return run


def table(num_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features of 120 samples, and the class of each, on which the second and the fourth feature tell."""
    features = np.random.default_rng(0).normal(size=(120, WIDTH)).astype(np.float32)
    return features, np.digitize(features[:, 1] + features[:, 3] / 2, [-0.4, 0.4][: num_classes - 1])


def others_than_trained() -> np.ndarray:
    """Features that no tree has as thresholds: at a threshold itself, rounding decides which branch is taken."""
    return np.random.default_rng(1).normal(size=(50, WIDTH)).astype(np.float32)


def pickled(estimator: Any, path: Path) -> Path:
    path.write_bytes(pickle.dumps(estimator))
    return path
