"""The option `--output`: the standard output by its names, and regular files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.cli import options


@pytest.mark.parametrize("name", [None, "-", "/dev/stdout"])
def test_standard_output_has_names(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options.write("text", Path(name) if name else None)
    assert capsys.readouterr().out == "text"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null"), Path.mkdir])
def test_nothing_but_a_regular_file_is_replaced(make: object, tmp_path: Path) -> None:
    path = tmp_path / "out"
    make(path)  # type: ignore[operator]
    mode = path.lstat().st_mode
    with pytest.raises(InputError, match=r"out is a .*, not a regular file; name another path"):
        options.write("text", path)
    assert path.lstat().st_mode == mode


def test_device_is_not_replaced() -> None:
    with pytest.raises(InputError, match="/dev/null is a device, not a regular file"):
        options.write("text", Path("/dev/null"))
