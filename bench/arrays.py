"""Arrays by name in an `.npz` file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import InputError

if TYPE_CHECKING:
    import numpy as np


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an `.npz` file. `numpy.savez` takes the names as its own arguments, and one of them is `file`."""
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an `.npz` file from outside.

    Raises:
        InputError: it is not one.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path} as arrays by input name (an .npz file): {error}") from error
