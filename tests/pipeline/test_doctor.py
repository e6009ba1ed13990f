"""The examination of a machine: states of its runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.pipeline.doctor import runtime_state


def test_runtime_that_cannot_be_loaded_does_not_end_the_examination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtimes").mkdir()
    (tmp_path / "runtimes" / "broken.py").write_text("def (:")
    monkeypatch.setenv("BENCH_PATH", str(tmp_path))

    state = runtime_state("broken")

    assert state.reason is not None
    assert state.reason.startswith(f"cannot load {tmp_path / 'runtimes' / 'broken.py'}: SyntaxError")
    assert runtime_state("null").reason is None
