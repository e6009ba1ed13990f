"""The examination of a machine: states of its runtimes."""

from __future__ import annotations

from pathlib import Path

from bench.features.doctor.examination import runtime_state


def test_runtime_that_cannot_be_loaded_does_not_end_the_examination(plugin_folder: Path) -> None:
    path = plugin_folder / "runtimes" / "broken.py"
    path.parent.mkdir()
    path.write_text("def (:")

    reason = runtime_state("broken").reason

    assert reason is not None
    assert reason.startswith(f"cannot load {path}: SyntaxError")
    assert runtime_state("null").reason is None
