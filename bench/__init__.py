"""Inferometer: which deployment of a trained model to ship on this machine, and how sure we are."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which every measured process would have to import
if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def load_results(path: str | Path, *, baseline: str | None = None) -> pd.DataFrame:
    """Stored results as a data frame, a row for each cell.

    Columns are those of `bench show --format json`, with units in their names. What was not measured is missing
    (`pandas.NA`, or NaN among floats).

    Args:
        path: a folder of results: `results`, or one machine's folder in it.
        baseline: a cell to compare with, instead of each group's own.

    Raises:
        InputError: there are no results, it is not clear of which machine, or pandas is not installed.
    """
    from pathlib import Path

    from bench.records import folder
    from bench.report import frame

    return frame.frame(folder.read(Path(path), baseline=baseline).rows)
