"""What a worker does for the profile of a cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api.arrays import save_arrays
from bench.api.errors import InputError
from bench.pipeline import profile_requests
from bench.plugins import catalog


def test_nothing_is_profiled_on_a_provider_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "toy.null").write_text('{"rounds": 1, "scale": 2.0}')
    inputs = tmp_path / "inputs.npz"
    save_arrays(inputs, catalog.task("toy").samples("test").inputs)
    with pytest.raises(InputError, match="null has no provider 'gpu' here"):
        profile_requests.profile_nodes(
            cell="toy/null/native/raw/null/gpu/b1t1",
            artifact=str(tmp_path / "toy.null"),
            inputs=str(inputs),
            num_runs=1,
        )
