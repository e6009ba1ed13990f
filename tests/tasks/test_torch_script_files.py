"""TorchScript files are known by their content, which the command's own process reads without running into trouble."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.tasks import adopt
from bench.tasks.formats.torch_script import MOST_LISTED_BYTES, holds

FILES = ("net/constants.pkl", "net/code/__torch__.py")


def archive(path: Path, *further: str) -> bytes:
    with zipfile.ZipFile(path, "w") as file:
        for name in (*FILES, *further):
            file.writestr(name, b"")
    return path.read_bytes()


def test_archives_that_cannot_be_read_hold_no_torch_script(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    content = archive(path, "net/data/\u00e9")
    assert holds(path)
    path.write_bytes(content.replace("\u00e9".encode(), b"\xc3("))
    assert not holds(path), "a name that is no UTF-8"
    listed = content.index(b"PK\1\2")
    path.write_bytes(content[: listed + 6] + bytes([99]) + content[listed + 7 :])
    assert not holds(path), "version 9.9 of the format"


@pytest.mark.parametrize("is_larger", [False, True])
def test_a_list_of_files_that_is_too_large_is_not_read(is_larger: bool, tmp_path: Path) -> None:
    num_files = MOST_LISTED_BYTES // 60_000 + is_larger
    archive(tmp_path / "model.pt", *(f"{number:059900}" for number in range(num_files)))
    assert holds(tmp_path / "model.pt") is not is_larger


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["net/constants.pkl", "net/code/__torch__.py", "net/data/0"], None),
        (["net/constants.pkl", "net/data/0"], "model.jit is of no kind that can be measured"),
        (["net/code/__torch__.py"], "model.jit is of no kind that can be measured"),
        (None, "model.jit is of no kind that can be measured"),
    ],
)
def test_torch_script_is_known_by_its_content(files: list[str] | None, says: str | None, tmp_path: Path) -> None:
    path = tmp_path / "model.jit"
    path.write_text("no archive")
    if files is not None:
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                archive.writestr(file, b"")
    with pytest.raises(InputError, match=says or r"holds pickled code; add --trust to load it"):
        adopt.adopt(path)
