"""What of a fleet other users may not reach: the folder of Ray's files, the token, and processes of other fleets."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.features.fleet import cluster, private, token

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser acts as another user")
TOKEN = "0123456789abcdef" * 4


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder of the user alone, in which Ray's folder is made."""
    folder = Path("/tmp", f"bt-{secrets.token_hex(3)}")  # tmp_path is too long for sockets
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    yield folder
    subprocess.run(["rm", "-r", str(folder)], check=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A token as it is made."""
    path = tmp_path / "token"
    token.make(path)
    return path


def test_rays_folder_is_for_its_user_alone_whatever_the_mask(short: Path) -> None:
    mask = os.umask(0)
    try:
        found = private.folder()
    finally:
        os.umask(mask)

    assert found == short / f"bench-fleet-{os.geteuid()}"
    assert found.stat().st_mode & 0o7777 == 0o700
    assert private.folder() == found, "as it is found again"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o755, 0o701])
def test_a_folder_that_others_may_enter_is_refused(short: Path, mode: int) -> None:
    private.folder().chmod(mode)

    with pytest.raises(InputError, match=rf"is open to other users \(mode {mode:04o}, not 0700\)"):
        private.folder()


def test_a_link_a_file_and_a_fifo_are_no_folder_for_ray(short: Path) -> None:
    place, other = short / f"bench-fleet-{os.geteuid()}", short / "other"
    other.mkdir(mode=0o700)
    for kind, make in {
        "a symbolic link": lambda: place.symlink_to(other),
        "a file": place.touch,
        "a FIFO": lambda: os.mkfifo(place),
    }.items():
        make()
        with pytest.raises(InputError, match=f"is {kind}, not a folder"):
            private.folder()
        place.unlink()
    assert not [*other.iterdir()]


@needs_root
def test_a_folder_of_another_user_is_refused(short: Path) -> None:
    os.chown(private.folder(), NOBODY, NOBODY)

    with pytest.raises(InputError, match="belongs to another user"):
        private.folder()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_place_in_which_others_replace_folders_is_refused(short: Path, mode: int) -> None:
    short.chmod(mode)

    with pytest.raises(InputError, match=rf"others may write to {short} \(mode {mode:04o}\).*RAY_TMPDIR"):
        private.folder()
    assert not [*short.iterdir()]

    short.chmod(mode | 0o1000)  # as /tmp is
    private.folder()


def test_a_path_that_is_too_long_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, short: Path) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(short / "a folder of many letters"))

    with pytest.raises(InputError, match=r"too long for its sockets.*at most 36 bytes.*RAY_TMPDIR names a shorter"):
        private.folder()


def test_a_place_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/nowhere")

    with pytest.raises(InputError, match=r"cannot make Ray's folder .*: No such file"):
        private.folder()


def test_the_longest_paths_of_sockets_fit() -> None:
    inside = "/ray/session_2026-11-20_10-00-00_000000_4194304/sockets/plasma_store.99"

    assert private.LONGEST + len(inside) <= 107


def test_whether_others_reach_a_folder(short: Path) -> None:
    inner = short / "inner"
    inner.mkdir()
    inner.chmod(0o777)
    assert private.is_closed(inner)

    short.chmod(0o755)
    assert not private.is_closed(inner)


def test_a_token_is_made_for_its_user_alone_and_kept(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        token.make(tmp_path / "new" / "token")
    finally:
        os.umask(mask)
    path = tmp_path / "new" / "token"
    (path.parent).chmod(0o755)

    assert path.stat().st_mode & 0o7777 == 0o600
    text = path.read_text()
    token.make(path)
    assert token.safe(path) == path.resolve()
    assert path.read_text() == text


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o620, 0o602, 0o606])
def test_a_token_that_others_may_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(InputError, match=rf"its mode is {mode:04o}, not 0600 \(`rm .*` and `bench fleet up`"):
        cluster.environment(file)
    assert file.stat().st_mode & 0o7777 == mode


@pytest.mark.timeout(10)
def test_a_token_that_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    os.mkfifo(path, 0o600)
    with pytest.raises(InputError, match="is a FIFO, not a regular file"):
        cluster.environment(path)
    path.unlink()

    path.mkdir()
    with pytest.raises(InputError, match="is a folder, not a regular file"):
        cluster.environment(path)
    with pytest.raises(InputError, match="is a device, not a regular file"):
        cluster.environment(Path(os.devnull))
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path / "s"))
        with pytest.raises(InputError, match="is a socket, not a regular file"):
            cluster.environment(path / "s")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"aa", "it has 2 characters, and 32 are the fewest"),
        (b"a" * 31 + b"\n", "it has 31 characters, and 32 are the fewest"),
        (b"a" * 5000, "it has more than 4096 characters"),
        ("\u00e4".encode() * 40, "it has other characters than those of ASCII"),
        (b"a" * 20 + b"\n" + b"b" * 20, "it has other characters than those of ASCII"),
        (b"\0" * 64, "it has other characters than those of ASCII"),
    ],
)
def test_a_content_that_is_no_token_is_refused(file: Path, content: bytes, reason: str) -> None:
    file.write_bytes(content)

    with pytest.raises(InputError, match=f"is no token of a fleet: {reason}"):
        cluster.environment(file)


def test_a_token_with_an_end_of_line_is_taken(file: Path) -> None:
    file.write_text(TOKEN + "\n")

    assert cluster.environment(file)["RAY_AUTH_TOKEN_PATH"] == str(file.resolve())


def test_a_token_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("none", "dangling"):
        with pytest.raises(InputError, match=r"cannot read the fleet's token: .*No such file.*--token-file names it"):
            cluster.environment(tmp_path / name)


def test_an_own_link_is_followed_and_a_hard_link_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    assert cluster.environment(tmp_path / "link")["RAY_AUTH_TOKEN_PATH"] == str(file.resolve())

    os.link(file, tmp_path / "other")
    with pytest.raises(InputError, match=r"has 2 names \(hard links\)"):
        cluster.environment(file)


@needs_root
def test_a_token_or_a_link_of_another_user_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    os.lchown(tmp_path / "link", NOBODY, NOBODY)
    with pytest.raises(InputError, match="is a symbolic link of another user"):
        cluster.environment(tmp_path / "link")

    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user, who knows it"):
        cluster.environment(file)


def test_a_token_in_a_folder_in_which_others_replace_files_is_refused(file: Path) -> None:
    file.parent.chmod(0o777)

    with pytest.raises(InputError, match=r"could be replaced: others may write to .* \(mode 0777\)"):
        cluster.environment(file)


def test_leaving_a_fleet_ends_its_processes_and_no_others(tmp_path: Path) -> None:
    address, other = f"{secrets.token_hex(4)}:1", f"{secrets.token_hex(4)}:1"

    def waits(variables: dict[str, str], **more: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, **variables}, cwd="/", **more)  # type: ignore[call-overload,no-any-return]

    own = waits({cluster.NAME: "one", cluster.FLEET: address})
    kept = [waits({cluster.NAME: "one", cluster.FLEET: other}), waits({cluster.FLEET: address})]
    if os.geteuid() == 0:
        kept.append(waits({cluster.NAME: "one", cluster.FLEET: address}, user=NOBODY, group=NOBODY))
    try:
        assert cluster.leave(address) == 1
        assert own.wait(timeout=10) is not None
        assert cluster.leave(address) == 0
        assert [process.poll() for process in kept] == [None] * len(kept)
    finally:
        for process in (own, *kept):
            process.kill()
            process.wait()


def test_a_start_that_fails_leaves_no_process(
    short: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it started before it failed ends, and the reason is one line."""
    noted = tmp_path / "noted"
    script = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,"
        " start_new_session=True)\n"
        f"pathlib.Path({str(noted)!r}).write_text(str(child.pid))\n"
        "print('some words'); sys.exit('it cannot')\n"
    )
    monkeypatch.setattr(cluster, "RAY", (sys.executable, "-c", script))

    with pytest.raises(cluster.FleetError, match="Ray does not start: it cannot"):
        cluster.up(cluster.LOOPBACK, 1, file, "one")

    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)
