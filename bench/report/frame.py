"""Rows as a pandas data frame, and as Parquet: the same columns, types and units as `bench show --format json`."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from bench.api.errors import InputError
from bench.records.rows import COLUMNS, Row

if TYPE_CHECKING:
    import pandas as pd

DTYPES = {str: "string", int: "Int64", float: "float64"}
FIX = "pip install 'inferometer[data]'"


def frame(rows: Sequence[Row], columns: Collection[str] = COLUMNS) -> pd.DataFrame:
    """Rows as a data frame; a column has its type even if it has no value.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("a data frame needs pandas, which is not installed", fix=FIX) from error
    return pd.DataFrame(
        {key: pd.array([getattr(row, key) for row in rows], dtype=DTYPES[COLUMNS[key].type]) for key in columns}
    )


def parquet(rows: Sequence[Row], columns: Collection[str] = COLUMNS) -> bytes:
    """Rows as a Parquet file.

    Raises:
        InputError: pandas or pyarrow is not installed.
    """
    table = frame(rows, columns)
    file = io.BytesIO()
    try:
        table.to_parquet(file, index=False)
    except ImportError as error:
        raise InputError(f"Parquet needs pyarrow; {FIX}") from error
    return file.getvalue()
