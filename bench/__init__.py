"""Inferometer: which deployment of a trained model to ship on this machine, and how sure we are."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which every measured process would have to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    import pandas as pd

    Arrays = Mapping[str, np.ndarray]


def load_results(path: str | Path, *, baseline: str | None = None) -> pd.DataFrame:
    """Stored results as a data frame, a row for each cell.

    Columns are those of `bench show --format json`, with units in their names. What was not measured is missing
    (`pandas.NA`, or NaN among floats). A warning tells of stored lines that cannot be read; they are left out.

    Args:
        path: a folder of results: `results`, or one machine's folder in it.
        baseline: a cell to compare with, instead of each group's own.

    Raises:
        InputError: there are no results, it is not clear of which machine, or pandas is not installed.
    """
    import warnings
    from pathlib import Path

    from bench.records import folder
    from bench.records.reading import note_of
    from bench.report import frame

    results = folder.read(Path(path), baseline=baseline)
    if (note := note_of(results.damages)) is not None:
        warnings.warn(note, stacklevel=2)
    return frame.frame(results.rows)


def load_deployment(folder: str | Path) -> Callable[[Arrays], Arrays]:
    """Load the model that `bench pick` saved, to run it as it was measured.

    Args:
        folder: the folder that `bench pick` saved.

    Returns:
        A function from input arrays by name to output arrays by name.

    Raises:
        InputError: the folder is not a saved pick, or its task is no longer here.
    """
    from pathlib import Path

    from bench.decisions import saved_deployment

    return saved_deployment.load(Path(folder))


def evaluate_deployment(folder: str | Path, predict: Callable[[Arrays], Arrays]) -> str:
    """Evaluate a function on the held-out samples of the task of a saved pick.

    Args:
        folder: the folder that `bench pick` saved.
        predict: a function from input arrays by name to output arrays by name, such as `load_deployment` returns.

    Returns:
        The loss and the metrics, each on a line, beside the values that were measured before the pick.

    Raises:
        InputError: the folder is not a saved pick, or its task is no longer here.
        ArtifactError: the outputs of `predict` do not fit the task.
    """
    from pathlib import Path

    from bench.decisions import saved_deployment

    return saved_deployment.evaluate(Path(folder), predict)
