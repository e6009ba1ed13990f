"""Models whose files share a name, measured into one folder of results: none takes the name of another."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import StoreError
from bench.plugins import catalog
from bench.tasks import adopt, names, project
from bench.tasks.adopt import Adopted
from bench.tasks.hub.reference import Reference


@pytest.fixture(autouse=True)
def _work(plugin_folder: Path) -> None:
    """An empty working folder, with an empty cache."""


def save(place: str, width: int = 4) -> Path:
    """A model of its own for each width; its place is relative to the working folder."""
    weight = np.full((3, width), width, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", width])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = Path(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def measured(path: Path, results: Path = Path("results"), *, trust: bool = False) -> Adopted:
    """Adopt a model as a run does that stores results."""
    adopted = adopt.adopt(path, adopt.Options(trust=trust), results=results)
    assert adopted.chosen is not None
    names.keep(results, adopted.chosen)
    return adopted


def name_of(path: Path, results: Path = Path("results")) -> str:
    """The name of a model that is a file of its own, noted without looking into it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    found = names.choose(results, path, str(path), str)
    names.keep(results, found)
    return found.name


def told(adopted: Adopted) -> list[str]:
    return [note for note in adopted.notes if "results named" in note]


def test_two_models_of_one_name_are_told_apart_by_their_folders() -> None:
    small, large = measured(save("small/model.onnx")), measured(save("large/model.onnx", 8))
    assert (small.name, large.name) == ("model", "large_model")
    assert (small.also, large.also) == (frozenset(), frozenset({"model"}))
    assert told(small) == []
    assert told(large) == [
        "results named model in results are of another file; those of large/model.onnx are named large_model"
    ]
    assert [catalog.task(name).outputs[0].shape for name in ("model", "large_model")] == [("N", 4), ("N", 8)]


@pytest.mark.parametrize(
    ("pattern", "glob"),
    [
        ("model/*", "b_model/*"),
        ("b_model/*", "b_model/*"),
        ("model", "b_model"),
        ("model@tokens=16/*/b1t1", "b_model@tokens=16/*/b1t1"),
        ("model~generate@new=8,prompt=16/*", "b_model~generate@new=8,prompt=16/*"),
        ("model/onnx/native/raw/onnxruntime/cpu/b1t1", "b_model/onnx/native/raw/onnxruntime/cpu/b1t1"),
        ("onnx/native/*", "b_model/onnx/native/*"),
        ("models/*", "b_model/models/*"),
        ("*/b1t1", "b_model/*/b1t1"),
    ],
)
def test_a_pattern_may_call_a_model_as_its_file_is_called(pattern: str, glob: str) -> None:
    assert Adopted(name="b_model", also=frozenset({"model"})).glob(pattern) == glob


def test_a_pattern_may_call_a_file_by_what_a_name_of_a_task_cannot_hold() -> None:
    adopted = measured(save("a/my model.onnx"))
    assert adopted.name == "my_model"
    assert [adopted.glob(pattern) for pattern in ("my model/*", "my_model/*", "*")] == [
        *("my_model/*", "my_model/*", "my_model/*")
    ]
    taken = measured(save("a/toy.onnx"))
    assert (taken.name, taken.glob("toy/*")) == ("toy_own", "toy_own/*"), "the toy is a model of this package"


def test_each_keeps_its_name_in_later_runs_whatever_their_order() -> None:
    paths = [save(f"{folder}/model.onnx", width) for folder, width in (("a", 2), ("b", 3), ("c", 4))]
    first = [measured(path).name for path in paths]
    assert first == ["model", "b_model", "c_model"]
    assert [measured(path).name for path in reversed(paths)] == first[::-1]


def test_a_model_that_changed_at_its_place_keeps_its_name() -> None:
    """As one that was trained anew: its results take the place of the earlier ones."""
    assert measured(save("model.onnx", 2)).name == "model"
    again = measured(save("model.onnx", 3))
    assert (again.name, told(again)) == ("model", [])


def test_the_same_model_in_two_folders_has_one_name() -> None:
    measured(save("a/model.onnx"))
    again = measured(save("b/model.onnx"))
    assert (again.name, told(again)) == (
        "model",
        ["the results named model in results are of the same model at another place; they go on"],
    )
    other = measured(save("b/model.onnx", 9))
    assert other.name == "b_model", "it is another model now"
    assert measured(save("a/model.onnx")).name == "model"


def test_a_folder_that_was_renamed_goes_on_with_its_results() -> None:
    measured(save("a/model.onnx", 2)), measured(save("b/model.onnx", 3))
    Path("b").rename("c")
    again = measured(Path("c/model.onnx"))
    assert (again.name, told(again)) == (
        "b_model",
        ["the results named b_model in results are of the same model at another place; they go on"],
    )


def test_a_model_that_was_renamed_and_another_that_took_its_name() -> None:
    first = save("model.onnx", 2)
    assert measured(first).name == "model"
    first.rename("old.onnx")
    assert measured(Path("old.onnx")).name == "old"
    Path("old.onnx").rename("elsewhere.onnx")
    assert measured(save("new/model.onnx", 5)).name == "new_model"
    assert measured(save("new/old.onnx", 6)).name == "new_old"


def test_folders_that_do_not_tell_models_apart_are_followed_by_further_ones() -> None:
    """As in repositories of a hub, each with its folder `onnx`."""
    found = [name_of(Path(f"{top}/{owner}/onnx/model.onnx")) for top in ("p", "q") for owner in ("one", "two")]
    assert found == ["model", "onnx_model", "one_onnx_model", "two_onnx_model"]


def test_names_as_long_as_they_may_be_still_differ() -> None:
    long = "x" * 80
    found = [measured(save(f"{folder}/{long}.onnx", 2 + number)).name for number, folder in enumerate(("a", "b", "c"))]
    assert found[0] == "x" * 60
    assert len(set(found)) == 3
    assert max(map(len, found)) <= 60


def test_other_folders_of_results_know_nothing_of_it() -> None:
    save("a/model.onnx", 2), save("b/model.onnx", 3)
    assert measured(Path("a/model.onnx"), Path("one")).name == "model"
    assert measured(Path("b/model.onnx"), Path("two")).name == "model"
    assert adopt.adopt(Path("b/model.onnx")).name == "model", "as of a command that stores no result"


def test_nothing_is_noted_until_results_are_stored() -> None:
    save("a/model.onnx", 2), save("b/model.onnx", 3)
    assert adopt.adopt(Path("a/model.onnx"), results=Path("results")).name == "model"
    assert not Path("results").exists()
    assert measured(Path("b/model.onnx")).name == "model"


def test_results_and_models_may_move_together() -> None:
    save("work/a/model.onnx", 2), save("work/b/model.onnx", 3)
    before = [measured(Path(f"work/{name}/model.onnx"), Path("work/results")).name for name in "ab"]
    Path("work").rename("moved")
    assert [measured(Path(f"moved/{name}/model.onnx"), Path("moved/results")).name for name in "ab"] == before


def test_the_file_names_no_folder() -> None:
    measured(save("secret/model.onnx"))
    noted = Path("results", names.FILE).read_text()
    assert [*json.loads(noted)] == ["model"]
    assert "secret" not in noted


@pytest.mark.parametrize("text", ["", "[]", '{"model": 3}', '{"model": {"place": 1}}', "{" * 10_000])
def test_a_file_that_cannot_be_read_is_written_anew(text: str) -> None:
    Path("results").mkdir()
    Path("results", names.FILE).write_text(text)
    assert name_of(Path("a/model.onnx")) == "model"
    assert name_of(Path("b/model.onnx")) == "b_model"


def test_tasks_of_ones_own_in_folders_of_one_name() -> None:
    toy = catalog.task("toy").folder
    for place in ("a/mine", "b/mine"):
        Path(place).mkdir(parents=True)
        for file in ("task.py", "weights.json"):
            Path(place, file).write_bytes((toy / file).read_bytes())
    assert [measured(Path(place)).name for place in ("a/mine", "b/mine")] == ["mine", "b_mine"]
    assert adopt.adopt(Path("a/mine"), results=Path("results")).name == "mine"
    assert catalog.task("b_mine").folder.resolve() == Path("b/mine").resolve()


def test_of_two_commands_at_once_the_first_to_note_a_name_has_it() -> None:
    """Both chose before either noted."""
    results = Path("results")
    first, second = (adopt.adopt(save(f"{name}/model.onnx", 2 + at), results=results) for at, name in enumerate("xy"))
    assert (first.name, second.name) == ("model", "model")
    assert first.chosen is not None
    assert second.chosen is not None
    names.keep(results, first.chosen)
    noted = Path(results, names.FILE).read_text()
    with pytest.raises(StoreError, match=r"has just taken the name model in results for another file \(the same"):
        names.keep(results, second.chosen)
    assert Path(results, names.FILE).read_text() == noted
    assert [measured(Path(f"{name}/model.onnx")).name for name in "yx"] == ["y_model", "model"]


def test_two_commands_at_once_on_the_same_model_have_one_name() -> None:
    """Whether at two places, or at one where it was trained anew in between."""
    results = Path("results")
    save("x/model.onnx"), save("y/model.onnx")
    first, second = (adopt.adopt(Path(f"{name}/model.onnx"), results=results).chosen for name in "xy")
    anew = adopt.adopt(save("x/model.onnx", 7), results=results).chosen
    assert first is not None
    assert second is not None
    assert anew is not None
    names.keep(results, first)
    noted = Path(results, names.FILE).read_text()
    names.keep(results, second)
    assert Path(results, names.FILE).read_text() == noted
    names.keep(results, anew)
    assert json.loads(Path(results, names.FILE).read_text())["model"]["content"] == anew.claim.content


def test_names_that_are_noted_at_once_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read = names._read

    def slowly(results: Path) -> Mapping[str, names.Claim]:
        found = read(results)
        time.sleep(0.05)  # in which others write
        return found

    monkeypatch.setattr(names, "_read", slowly)
    chosen = [names.Chosen(name=f"m{at}", claim=names.Claim(place=str(at))) for at in range(6)]
    with ThreadPoolExecutor(len(chosen)) as threads:
        list(threads.map(functools.partial(names.keep, Path("results")), chosen))
    assert read(Path("results")) == {one.name: one.claim for one in chosen}


def test_a_repository_of_another_hub_is_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Reference.of("hf:org/net:model.onnx")

    def name(endpoint: str, content: str) -> str:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        chosen = names.choose(Path("results"), Path("model.onnx"), content, str, fetched=fetched)
        names.keep(Path("results"), chosen)
        return chosen.name

    hubs = ("", "https://hub.example.org/", "https://other.example.org")
    assert [name(hub, hub) for hub in hubs][:2] == ["net", "org_net"]
    assert len({name(hub, "trained anew") for hub in reversed(hubs)}) == 3
    assert name("https://huggingface.co", "") == "net"
    assert name("https://hub.example.org", "") == "org_net"


SAVED = """
import tensorflow as tf

for folder, width in (("a", 4), ("b", 8)):
    weight = tf.constant(0.5, shape=(3, width))
    module = tf.Module()
    module.call = tf.function(lambda x, w=weight: {"y": x @ w}, [tf.TensorSpec((None, 3), tf.float32, "x")])
    tf.saved_model.save(module, f"{folder}/saved", signatures=module.call)
    made = tf.lite.TFLiteConverter.from_saved_model(f"{folder}/saved").convert()
    with open(f"{folder}/lite.tflite", "wb") as file:
        file.write(made)
"""


@pytest.mark.thorough
def test_saved_models_and_tflite_files_of_one_name() -> None:
    """Formats other than ONNX have names in the same way; a saved model is a folder."""
    subprocess.run([sys.executable, "-c", SAVED], check=True, capture_output=True)
    for name in ("saved", "lite.tflite"):
        stem = Path(name).stem
        found = [measured(Path(folder, name), trust=True).name for folder in ("a", "b", "a")]
        assert found == [stem, f"b_{stem}", stem]
        widths = [catalog.task(each).outputs[0].shape[-1] for each in found[:2]]
        assert widths == [4, 8]


def test_a_folder_that_cannot_be_written() -> None:
    Path("results").write_text("no folder")
    with pytest.raises(StoreError, match="cannot write to results: File exists"):
        measured(save("model.onnx"))


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)


def checkout(folder: str, origin: str | None, *widths: int, tracked: bool = True) -> list[Path]:
    """A checkout with models in `export/0`, `export/1` and so on; paths of the models."""
    paths = [save(f"{folder}/export/{number}/model.onnx", width) for number, width in enumerate(widths)]
    git(Path(folder), "init", "--quiet")
    if origin is not None:
        git(Path(folder), "remote", "add", "origin", origin)
    if tracked:
        git(Path(folder), "add", "--all")
    return paths


NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@NEEDS_GIT
def test_a_model_that_was_trained_anew_keeps_its_name_in_a_fresh_checkout(tmp_path: Path) -> None:
    """As on a CI machine, where each job has a folder of its own, and the results lie elsewhere."""
    results = tmp_path / "kept"
    secret = "https://robot:secret@example.org/team/net.git"
    before = [measured(path, results).name for path in checkout("job-1/net", secret, 2, 3)]
    assert before == ["model", "1_model"]
    again = [measured(path, results) for path in checkout("job-2/other", "git@example.org:team/net", 4, 5)]
    assert [each.name for each in again] == before
    assert told(again[1]) == [
        f"the results named 1_model in {results} are of this file in another checkout of its project; they go on"
    ]
    assert [measured(Path(f"job-2/other/export/{number}/model.onnx"), results).name for number in (0, 1)] == before
    noted = (results / names.FILE).read_text()
    assert [text for text in ("secret", "example", "export", "job") if text in noted] == []


@NEEDS_GIT
@pytest.mark.parametrize(
    ("origins", "tracked"),
    [
        (("https://example.org/team/net", "https://example.org/team/other"), True),
        (("https://example.org/team/net", "https://example.com/team/net"), True),
        (("../net", "../net"), True),
        ((None, None), True),
        (("https://example.org/team/net",) * 2, False),
    ],
    ids=["other project", "other host", "a path from here", "no origin", "not tracked"],
)
def test_files_that_may_be_of_other_projects_have_names_of_their_own(
    origins: tuple[str | None, str | None], tracked: bool, tmp_path: Path
) -> None:
    for number, (origin, name) in enumerate(zip(origins, ("model", "0_model"), strict=True)):
        (path,) = checkout(f"job-{number}/net", origin, 2 + number, tracked=tracked)
        assert name_of(path, tmp_path / "kept") == name


@NEEDS_GIT
def test_a_repository_runs_no_program_of_its_own(tmp_path: Path) -> None:
    """As git runs its monitor of the work tree, which the repository names, for every command that reads the index."""
    (path,) = checkout("net", "https://example.org/team/net", 2)
    monitor = Path("net/monitor")
    monitor.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    monitor.chmod(0o755)
    git(Path("net"), "config", "core.fsmonitor", "./monitor")
    assert project.place_in_project(path) == "example.org/team/net:export/0/model.onnx"
    assert not (tmp_path / "ran").exists()
    git(Path("net"), "ls-files")
    assert (tmp_path / "ran").exists(), "the monitor works"


@NEEDS_GIT
def test_a_folder_belongs_to_its_project_too(tmp_path: Path) -> None:
    toy = catalog.task("toy").folder
    for number in (1, 2):
        Path(f"job-{number}/net/mine").mkdir(parents=True)
        for file in ("task.py", "weights.json"):
            Path(f"job-{number}/net/mine", file).write_bytes((toy / file).read_bytes())
        git(Path(f"job-{number}/net"), "init", "--quiet")
        git(Path(f"job-{number}/net"), "remote", "add", "origin", "ssh://git@example.org:22/team/net.git/")
        git(Path(f"job-{number}/net"), "add", "--all")
    assert [measured(Path(f"job-{number}/net/mine"), tmp_path / "kept").name for number in (1, 2)] == ["mine"] * 2


def test_without_git_files_are_told_apart_by_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert project.place_in_project(save("a/model.onnx")) is None
    assert name_of(Path("a/model.onnx")) == "model"


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://example.org/team/net.git", "example.org/team/net"),
        ("https://user:secret@Example.org:8443/team/net/", "example.org/team/net"),
        ("git@example.org:team/net.git", "example.org/team/net"),
        ("ssh://git@example.org:22/team/net.git/", "example.org/team/net"),
        ("file:///srv/git/net.git", "/srv/git/net"),
        ("/srv/git/net.git", "/srv/git/net"),
        ("../net", None),
        ("https://[::1/net", None),
        ("", None),
    ],
)
def test_addresses_of_one_repository_are_alike(address: str, origin: str | None) -> None:
    assert project._origin(address) == origin
