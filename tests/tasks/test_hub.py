"""Models of the hub, fetched from a stand-in on this machine: names, choices, commits, the cache and the token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import testing
from bench.api.errors import InputError
from bench.tasks.hub import downloads, fetch, places
from bench.tasks.hub.reference import Reference, is_confined
from support.hub_fixtures import Fetched
from support.hub_server import LARGE, StandIn, commit

NAME = "hf:org/net"
LARGE_MODEL = bytes(range(256)) * (LARGE // 100)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("text", "repository", "revision", "path"),
    [
        ("hf:org/net", "org/net", "main", None),
        ("hf:org/net@v1.0", "org/net", "v1.0", None),
        ("hf:org/net@refs/pr/3:onnx/model.onnx", "org/net", "refs/pr/3", "onnx/model.onnx"),
        ("hf:org/net:.", "org/net", "main", "."),
        (f"hf:o-r.g/n_e.t@{commit(7)}:a b.onnx", "o-r.g/n_e.t", commit(7), "a b.onnx"),
    ],
)
def test_names(text: str, repository: str, revision: str, path: str | None) -> None:
    found = Reference.of(text)
    assert found == Reference(repository=repository, revision=revision, path=path)
    assert Reference.of(str(found)) == found
    assert str(Path(text)) == text, "options take it for a path"


@pytest.mark.parametrize(
    "text",
    [
        *("hf:", "hf:net", "hf:org/net/more", "hf:../net", "hf:org/..", "hf:org/a..b", "hf:/org/net", "hf:org/.net"),
        *("hf:org/net@", "hf:org/net@-x", "hf:org/net@a..b", "hf:org/net@a b", "hf:org/net@v1\n", "hf:org/n\u00e9t"),
        *("hf:org/net:", "hf:org/net:../x.onnx", "hf:org/net:/etc/passwd", "hf:org/net:a/../../x", "hf:org/net:a\\b"),
        *("hf:org/net:C:/x.onnx", "hf:org/net:a//b", "hf:org/net:./a", "hf:org/net:a\0b", "hf:org/net:\x1b[31mred"),
    ],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InputError, match=r"not a (model|path in a repository) of the hub"):
        Reference.of(text)


def test_paths_that_are_confined() -> None:
    assert all(is_confined(path) for path in ("model.onnx", "a/b/c.onnx", "<b>x</b>.onnx", "caf\u00e9.onnx", "a..b"))
    hostile = ("", "/", "..", "a/..", "./a", "a//b", "a/", "\\\\host", "C:x", "a\nb", "a\u202eb", "a\ud800", "x" * 300)
    assert [path for path in hostile if is_confined(path)] == []


def test_the_only_model_is_fetched_at_its_commit(hub: StandIn, fetched: Fetched) -> None:
    sha = hub.add("org/net", {"README.md": b"# net", "onnx/model.onnx": LARGE_MODEL, "config.txt": b"x"})
    model = fetched(NAME)
    assert model.read_bytes() == LARGE_MODEL
    assert content(places.folder() / "org" / "net" / sha)[f"{model.parents[1].name}/onnx/model.onnx"] == LARGE_MODEL
    assert fetched.said == [
        f"{NAME}@main is onnx/model.onnx of org/net at commit {sha}",
        f"1 file of 2.6 kB to fetch from {hub.url.removeprefix('http://')}",
    ]
    assert str(places.reference_of(model)) == f"hf:org/net@{sha}:onnx/model.onnx"
    assert hub.asked("cdn") == [f"/{next(iter(hub.large))}?signature=secret"]


def test_what_is_here_is_not_fetched_again(hub: StandIn, fetched: Fetched) -> None:
    sha = hub.add("org/net", {"model.onnx": LARGE_MODEL})
    model = fetched(NAME)
    hub.requests.clear()
    assert fetched(f"{NAME}@{sha}") == model
    assert hub.asked() == [], "a commit names the same files for ever"
    assert fetched(NAME) == model
    assert hub.asked() == ["/api/models/org/net/revision/main?expand=sha"]
    hub.add("org/net", {"model.onnx": b"other"}, number=2)
    assert fetched(NAME).read_bytes() == b"other"
    assert model.read_bytes() == LARGE_MODEL
    assert fetched(f"{NAME}@{sha}").read_bytes() == LARGE_MODEL


def test_revisions(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": b"one"}, number=1, ref="v1")
    hub.add("org/net", {"model.onnx": b"two"}, number=2, ref="feature/x")
    assert fetched(f"{NAME}@v1").read_bytes() == b"one"
    assert fetched(f"{NAME}@feature/x").read_bytes() == b"two"
    assert fetched(f"{NAME}@{commit(1)}").read_bytes() == b"one"
    with pytest.raises(InputError, match=r"^hf:org/net@v9: it has no such branch, tag or commit$"):
        fetched(f"{NAME}@v9")
    with pytest.raises(InputError, match=r"^hf:org/none@main: it is not there, or not for everyone: .*HF_TOKEN"):
        fetched("hf:org/none")


def test_several_models_are_listed_with_their_sizes(hub: StandIn, fetched: Fetched) -> None:
    sha = hub.add("org/net", {"onnx/model.onnx": b"x" * 2_340_000, "onnx/model_int8.onnx": b"y", "t.tflite": b"z"})
    with pytest.raises(InputError) as refused:
        fetched(NAME)
    assert str(refused.value) == (
        f"hf:org/net@{sha} has 3 models: onnx/model.onnx (2.3 MB), onnx/model_int8.onnx (0.0 kB), t.tflite (0.0 kB) "
        f"(name one: --model hf:org/net@{sha}:onnx/model.onnx)"
    )
    assert fetched(f"{NAME}:onnx/model_int8.onnx").read_bytes() == b"y"
    assert [path for path in hub.asked() if "resolve" in path] == [f"/org/net/resolve/{sha}/onnx/model_int8.onnx"]
    with pytest.raises(InputError, match=r"^no file or folder onnx/other\.onnx in hf:org/net@0*1; without the path"):
        fetched(f"{NAME}:onnx/other.onnx")


def test_many_models_are_cut_short(hub: StandIn, fetched: Fetched) -> None:
    hub.page_size = 1000
    hub.add("org/net", {f"m{at:03}.onnx": b"x" for at in range(300)})
    says = (
        r"has 40 models: m000\.onnx .*m011\.onnx \(0\.0 kB\), 28 more; 260 more may be models, and were not looked at "
    )
    with pytest.raises(InputError, match=says):
        fetched(NAME)


def test_external_data_come_along_and_no_other_file(hub: StandIn, fetched: Fetched) -> None:
    """The file names two files in its folder, one that is not there, and one outside of it."""
    named = ("model.onnx_data", "parts/w.bin", "gone.bin", "../secret.bin", "/etc/passwd", "run.py")
    model = b"".join(b"\x0a\x08location\x12" + bytes([len(name)]) + name.encode() for name in named)
    hub.add(
        "org/net",
        {
            "onnx/model.onnx": model,
            "onnx/model.onnx_data": LARGE_MODEL,
            "onnx/parts/w.bin": b"w",
            "onnx/unused.bin": b"u",
            "onnx/run.py": b"import os",
            "secret.bin": b"s",
        },
    )
    found = fetched(NAME)
    assert content(found.parents[1]) == {
        "onnx/model.onnx": model,
        "onnx/model.onnx_data": LARGE_MODEL,
        "onnx/parts/w.bin": b"w",
    }
    assert [line.partition(" to fetch")[0] for line in fetched.said[1:]] == ["2 files of 2.7 kB", "1 file of 0.0 kB"]
    hub.requests.clear()
    assert fetched(f"{NAME}@{commit(1)}", offline=True) == found
    assert hub.asked() == []


def test_an_openvino_model_has_two_files(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"ov/m.xml": b"<net/>", "ov/m.bin": b"weights", "ov/n.bin": b"other"})
    assert content(fetched(NAME).parents[1]) == {"ov/m.xml": b"<net/>", "ov/m.bin": b"weights"}


FOLDER = {
    "config.json": b"{}",
    "tokenizer_config.json": b"{}",
    "tokenizer.json": b"{}",
    "modeling_net.py": b"import os",
    "model.safetensors": b"weights",
    "model.fp16.safetensors": b"more",
    "pytorch_model.bin": b"pickle",
    "onnx/config.json": b"{}",
}


def test_a_folder_of_transformers(hub: StandIn, fetched: Fetched) -> None:
    """Configurations and weights: no pickle, no code, no weights that are not read, nothing of other folders."""
    hub.add("org/net", FOLDER)
    folder = fetched(NAME)
    assert set(content(folder)) == {"config.json", "tokenizer_config.json", "model.safetensors"}
    assert fetched.said[0] == (
        "Python files of a repository are not fetched (modeling_net.py); a clone that you name has them"
    )
    assert places.reference_of(folder) == Reference(repository="org/net", revision=commit(1), path=".")
    assert set(content(fetched(NAME, trust=True))) == set(content(folder))


def test_weights_in_parts(hub: StandIn, fetched: Fetched) -> None:
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json")
    hub.add("org/net", {"config.json": b"{}", "consolidated.safetensors": b"x", **dict.fromkeys(names, b"w")})
    assert set(content(fetched(NAME))) == {"config.json", *names}


def test_a_folder_of_sentence_transformers(hub: StandIn, fetched: Fetched) -> None:
    wanted = {
        "modules.json": b"[]",
        "config.json": b"{}",
        "model.safetensors": b"w",
        "1_Pooling/config.json": b"{}",
        "2_Dense/config.json": b"{}",
        "2_Dense/model.safetensors": b"d",
    }
    hub.add("org/net", {**wanted, "2_Dense/pytorch_model.bin": b"p", "onnx/deep/config.json": b"{}", "README.md": b""})
    assert content(fetched(NAME)) == wanted


@pytest.mark.parametrize(
    ("files", "path", "says"),
    [
        ({"config.json": b"{}", "pytorch_model.bin": b"p"}, "", "pickled weights alone, and a pickle may run any code"),
        ({"model.pt": b"p"}, "", "holds pickled code; add --trust"),
        ({"model.pkl": b"p"}, "", "holds a pickle, which may run any code; add --trust"),
        ({"saved_model.pb": b"g", "variables/variables.index": b"v"}, "", "a program that may read and write files"),
        ({"a.bin": b"p"}, ":a.bin", "may be a pickle, which may run any code; add --trust"),
        ({"a.ckpt": b"p"}, ":a.ckpt", "may be a pickle, which may run any code; add --trust"),
    ],
)
def test_pickles_and_programs_are_fetched_with_trust_alone(
    files: dict[str, bytes], path: str, says: str, hub: StandIn, fetched: Fetched
) -> None:
    hub.add("org/net", {**files, "README.md": b""})
    with pytest.raises(InputError, match=says):
        fetched(f"{NAME}{path}")
    assert not [asked for asked in hub.asked() if "resolve" in asked]
    found = fetched(f"{NAME}{path}", trust=True)
    assert content(found if found.is_dir() else found.parent) == files


@pytest.mark.parametrize(
    ("files", "path", "says"),
    [
        (
            {"model.safetensors": b"w"},
            "",
            r"holds weights alone \(\.safetensors\) and no config\.json of transf",
        ),
        (
            {"model.safetensors": b"w"},
            ":model.safetensors",
            "holds weights alone; name the folder with its config.json",
        ),
        ({"model.gguf": b"w"}, "", "has no model that is known by its name; --model takes"),
        ({"task.py": b"", "model.py": b""}, "", "has no model that is known by its name"),
        ({"net.py": b"import os"}, ":net.py", "is code, which is not fetched; read it, and name a copy of your own"),
        ({"m.xml": b"<net/>"}, "", "is not whole: its weights are not in the repository"),
        ({"a/x.onnx": b"x"}, ":a", "is a folder of no kind that can be measured"),
        ({}, "", "has no model"),
    ],
)
def test_what_cannot_run_is_not_fetched(
    files: dict[str, bytes], path: str, says: str, hub: StandIn, fetched: Fetched
) -> None:
    hub.add("org/net", files)
    for trust in (False, True):
        with pytest.raises(InputError, match=says):
            fetched(f"{NAME}{path}", trust=trust)
    assert not [asked for asked in hub.asked() if "resolve" in asked]


def test_the_size_is_said_first_and_capped(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/net", {"model.onnx": LARGE_MODEL})
    monkeypatch.setattr(fetch, "MUCH_BYTES", len(LARGE_MODEL) - 1)
    with pytest.raises(InputError, match=r"takes a download of 2\.6 kB; more than .* must be asked for \(add --yes"):
        fetched(NAME)
    assert fetched.said[-1].startswith("1 file of 2.6 kB to fetch from ")
    assert not [asked for asked in hub.asked() if "resolve" in asked]
    assert fetched(NAME, yes=True).read_bytes() == LARGE_MODEL
    assert fetched(NAME).read_bytes() == LARGE_MODEL, "what is here is no download"


def test_further_files_of_a_model_count_with_it(
    hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = b"\x0a\x08location\x12\x09other.bin"
    hub.add("org/net", {"model.onnx": model, "other.bin": b"weights" * 10})
    monkeypatch.setattr(fetch, "MUCH_BYTES", 70 + len(model) - 1)
    with pytest.raises(InputError, match=r"takes a download of 0\.1 kB; more than .* must be asked for"):
        fetched(NAME)
    assert fetched(NAME, yes=True).with_name("other.bin").read_bytes() == b"weights" * 10


def test_another_hub_has_files_of_its_own(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror may serve what it likes; the usual hub's name vouches for none of it."""
    monkeypatch.delenv("HF_ENDPOINT")
    usual = places.folder()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.add("org/net", {"model.onnx": LARGE_MODEL})
    assert not fetched(NAME).is_relative_to(usual)


def test_without_room_nothing_is_fetched(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/net", {"model.onnx": LARGE_MODEL})
    monkeypatch.setattr(downloads, "SPARE_BYTES", 2**62)
    with pytest.raises(InputError, match=r"^no room for 2\.6 kB: the disk of the cache has .* left \(free some"):
        fetched(NAME)
    assert not [asked for asked in hub.asked() if "resolve" in asked]


def test_a_disk_that_fills_up_keeps_no_file(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/net", {"model.onnx": LARGE_MODEL})
    opened = os.fdopen

    class Full:
        """A file on a full disk."""

        def __init__(self, file: object) -> None:
            self._file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloads.os, "fdopen", lambda number, mode: Full(opened(number, mode)))
    with pytest.raises(OSError, match="No space left"):
        fetched(NAME)
    assert not list(places.folder().rglob("*.onnx"))
    monkeypatch.setattr(downloads.os, "fdopen", opened)
    assert fetched(NAME).read_bytes() == LARGE_MODEL


def test_without_the_network(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/net", {"model.onnx": LARGE_MODEL, "b/other.tflite": b"o"})
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command = r"bench run --dry-run --model hf:org/net@main:model\.onnx"
    with pytest.raises(InputError, match=rf"was not fetched before, and without the network nothing is .*{command}"):
        fetched(f"{NAME}:model.onnx")
    assert hub.asked() == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    model = fetched(f"{NAME}:model.onnx")
    hub.requests.clear()
    assert fetched(f"{NAME}:model.onnx", offline=True) == model, "the branch is at the commit that it was at"
    assert fetched(f"{NAME}@{commit(1)}:model.onnx", offline=True) == model
    for other in (f"{NAME}:b/other.tflite", f"{NAME}@v2:model.onnx", f"{NAME}@{commit(2)}:model.onnx", "hf:org/more"):
        with pytest.raises(InputError, match="was not fetched before"):
            fetched(other, offline=True)
    assert hub.asked() == []


def test_a_list_in_the_cache_that_is_damaged_is_asked_for_again(hub: StandIn, fetched: Fetched) -> None:
    sha = hub.add("org/net", {"model.onnx": LARGE_MODEL})
    fetched(NAME)
    place = places.of_commit("org/net", sha) / places.LISTING
    place.write_text('{"files": [{"type": "file", "path": "../x", "size": -1}], "left_out": []}')
    assert fetched(f"{NAME}@{sha}").read_bytes() == LARGE_MODEL
    assert len(hub.asked()) == 5, "the commit, the list and the file; then the list again"


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "file"])
def test_the_token_goes_to_the_hub_alone(
    name: str, hub: StandIn, fetched: Fetched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "file":
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "token").write_text("hf_secret\n")
    else:
        monkeypatch.setenv(name, "hf_secret")
    hub.add("org/net", {"model.onnx": LARGE_MODEL, "config.txt": b"", "a": b"", "b": b""})
    fetched(NAME)
    sent = {(request.host, request.headers.get("authorization")) for request in hub.requests}
    assert sent == {("hub", "Bearer hf_secret"), ("cdn", None)}
    assert len(hub.asked("hub")) == 4, "the commit, two pages of the list, the file"
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert b"hf_secret" not in kept
    assert "hf_secret" not in " ".join(fetched.said)


def test_a_token_that_is_none(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret\r\nX-Other: 1")
    with pytest.raises(InputError, match="characters that no token has") as refused:
        fetched(NAME)
    assert "hf_secret" not in str(refused.value)
    assert hub.asked() == []


def test_the_fixture_guard_takes_models_of_the_hub(hub: StandIn) -> None:
    hub.add("org/net", {"model.onnx": LARGE_MODEL})
    assert Path(testing._here(NAME, trust=False, may_be_large=False)).read_bytes() == LARGE_MODEL
    assert testing._here("model.onnx", trust=False, may_be_large=False) == "model.onnx"


def test_names_of_tasks() -> None:
    def name(path: str | None) -> str:
        return Reference(repository="org/net-small", revision=commit(1), path=path).task_name

    assert [name(path) for path in (".", "onnx/model.onnx", "onnx/model_int8.onnx", "net-small.tflite", "unet")] == [
        *("net-small", "net-small", "net-small_model_int8", "net-small", "net-small_unet"),
    ]
