"""Files that are no .npz files of plain arrays are refused in words that say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api.arrays import load_arrays
from bench.api.errors import InputError


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 cut off"], ids=["empty", "junk", "cut"])
def test_file_that_is_no_npz_is_refused_in_our_words(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"data\.npz is no \.npz file of plain arrays by input name") as refused:
        load_arrays(tmp_path / "data.npz")
    assert "pickle" not in str(refused.value)
    with pytest.raises(InputError, match="No such file"):
        load_arrays(tmp_path / "missing.npz")
