"""A model at a git revision: its files are read from the repository's objects, and the work tree is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.features.compare import git_revisions

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture(autouse=True)
def own_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine, and a cache of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


class Repository:
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, **files: bytes) -> str:
        """Write files (`__` for `/`, `_dot_` for `.`) and commit; the short hash."""
        for name, content in files.items():
            path = self.folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "as expected")
        return self.git("rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_file_at_two_revisions(repository: Repository) -> None:
    first = repository.commit(nets__m_dot_onnx=b"one", other=b"x")
    second = repository.commit(nets__m_dot_onnx=b"two")
    repository.commit(other=b"y")
    path = repository.folder / "nets" / "m.onnx"
    path.write_bytes(b"not committed")
    (repository.folder / "new").write_bytes(b"nor this")
    status = repository.git("status", "--porcelain")
    places = [git_revisions.extract(git_revisions.find(name, path)) for name in (first, "HEAD~1", "HEAD")]
    assert [place.read_bytes() for place in places] == [b"one", b"two", b"two"]
    assert places[0].name == f"m_{first}.onnx"
    assert places[1].name == f"m_{second}.onnx"
    assert git_revisions.find(second, path).content == git_revisions.find("HEAD", path).content
    assert git_revisions.find(first, path).content != git_revisions.find("HEAD", path).content
    assert git_revisions.extract(git_revisions.find(first, path)) == places[0], "it is found again"
    assert repository.git("status", "--porcelain") == status
    assert path.read_bytes() == b"not committed"


def test_model_that_is_gone_from_the_work_tree(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit(nets__deep__m_dot_onnx=b"one")
    repository.git("rm", "-r", "--quiet", "nets")
    repository.commit()
    monkeypatch.chdir(repository.folder)
    path = Path("nets", "deep", "m.onnx")
    assert git_revisions.extract(git_revisions.find("HEAD~1", path)).read_bytes() == b"one"
    with pytest.raises(InputError, match=r"no file or folder nets/deep/m\.onnx at HEAD \([0-9a-f]+\) in "):
        git_revisions.find("HEAD", path)


def test_external_data_come_along(repository: Repository) -> None:
    """The file names `w.bin` and `parts/v.bin`; `unused.bin` is no part of it, nor is a file of that name elsewhere."""
    model = b"\x0a\x08location\x12\x05w.bin \x0a\x08location\x12\x0bparts/v.bin"
    repository.commit(
        nets__m_dot_onnx=model,
        nets__w_dot_bin=b"w",
        nets__parts__v_dot_bin=b"v",
        nets__unused_dot_bin=b"u",
        w_dot_bin=b"elsewhere",
    )
    first = git_revisions.find("HEAD", repository.folder / "nets" / "m.onnx")
    folder = git_revisions.extract(first).parent
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {first.name: model, "w.bin": b"w", "parts/v.bin": b"v"}
    repository.commit(nets__w_dot_bin=b"other")
    assert git_revisions.find("HEAD", repository.folder / "nets" / "m.onnx").content != first.content


def test_external_data_at_the_top(repository: Repository) -> None:
    repository.commit(m_dot_onnx=b"location w.bin", w_dot_bin=b"w")
    place = git_revisions.extract(git_revisions.find("HEAD", repository.folder / "m.onnx"))
    assert {path.name for path in place.parent.iterdir()} == {place.name, "w.bin"}


def test_python_file_has_its_folder(repository: Repository) -> None:
    repository.commit(src__net_dot_py=b"import layers", src__layers__a_dot_py=b"", top_dot_py=b"")
    place = git_revisions.extract(git_revisions.find("HEAD", repository.folder / "src" / "net.py"))
    assert place.read_bytes() == b"import layers"
    assert (place.parent / "layers" / "a.py").is_file()
    assert not (place.parent / "top.py").exists()


def test_folders(repository: Repository) -> None:
    short = repository.commit(models__mine__task_dot_py=b"1", models__mine__weights__w_dot_bin=b"w", task_dot_py=b"2")
    place = git_revisions.extract(git_revisions.find("HEAD", repository.folder / "models" / "mine"))
    assert place.name == f"mine_{short}"
    assert (place / "task.py").read_bytes() == b"1"
    assert (place / "weights" / "w.bin").read_bytes() == b"w"
    top = git_revisions.extract(git_revisions.find("HEAD", repository.folder))
    assert top.name == f"repository_{short}"
    assert (top / "task.py").read_bytes() == b"2"


def test_names_with_signs_of_globs_and_of_options(repository: Repository) -> None:
    repository.commit(**{"a__[m]*_dot_onnx": b"this", "a__m_dot_onnx": b"other"})
    place = git_revisions.extract(git_revisions.find("HEAD", repository.folder / "a" / "[m]*.onnx"))
    assert [path.read_bytes() for path in place.parent.iterdir()] == [b"this"]
    with pytest.raises(InputError, match="no revision '--all'"):
        git_revisions.find("--all", repository.folder / "a" / "m.onnx")


def test_long_names_keep_the_hash(repository: Repository) -> None:
    short = repository.commit(**{f"{'n' * 90}_dot_onnx": b"1"})
    found = git_revisions.find("HEAD", repository.folder / f"{'n' * 90}.onnx")
    assert found.name == f"{'n' * (59 - len(short))}_{short}.onnx"


def test_what_cannot_be_found(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit(m_dot_onnx=b"1")
    path = repository.folder / "m.onnx"
    with pytest.raises(InputError, match=r"no revision 'v1' in .*repository; `git log"):
        git_revisions.find("v1", path)
    with pytest.raises(InputError, match=r"no file or folder n\.onnx at HEAD"):
        git_revisions.find("HEAD", repository.folder / "n.onnx")
    (tmp_path / "outside").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(InputError, match="is in no work tree that git can read: not a git repository"):
        git_revisions.find("HEAD", tmp_path / "outside" / "m.onnx")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="git is not installed"):
        git_revisions.find("HEAD", path)


def test_large_files_that_are_elsewhere(repository: Repository) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    repository.commit(m_dot_onnx=pointer)
    found = git_revisions.find("HEAD", repository.folder / "m.onnx")
    with pytest.raises(InputError, match=rf"kept by Git LFS.*git lfs fetch origin {found.commit}"):
        git_revisions.extract(found)
    with pytest.raises(InputError, match="kept by Git LFS"):
        git_revisions.extract(found)
