"""Which model is chosen of a repository of the hub by the names of its files alone, where they are many."""

from __future__ import annotations

import pytest

from bench.api.errors import InputError
from bench.tasks.hub import choosing
from bench.tasks.hub.listing import Entry
from bench.tasks.hub.reference import Reference
from support.hub_server import commit


def choice(*paths: str) -> str:
    """Path of the model that is chosen of a repository with these files."""
    files = {path: Entry(path=path, size=1, sha256=None, blob=commit(1)) for path in paths}
    return choosing.choose(files, Reference(repository="org/net", revision=commit(1)), trust=False).path


def folder(path: str) -> tuple[str, str]:
    """The files of a model that transformers saved."""
    return f"{path}/config.json", f"{path}/model.safetensors"


MANY = [f"a{at:02}/config.json" for at in range(40)]
"""As many folders as are looked at, without weights."""


def test_of_more_folders_than_are_looked_at_none_is_the_only_model() -> None:
    assert choice(*MANY[:-1], *folder("z1")) == "z1"
    says = (
        r"has 1 model: a05 \(0\.0 kB\); 2 more may be models, and were not looked at \(name one: --model hf:.*:a05\)$"
    )
    with pytest.raises(InputError, match=says):
        choice(*MANY, "a05/model.safetensors", *folder("z1"), *folder("z2"))


def test_models_that_were_not_looked_at_are_not_denied() -> None:
    """Neither after folders without weights nor after files that are not trusted."""
    with pytest.raises(
        InputError, match=r"of the first 40 .* none can be measured; 1 more may be models, .*by its path$"
    ):
        choice(*MANY, *folder("z1"))
    says = r"none can be measured; 2 more may be models, .*: .*m00\.pt holds pickled code; add --trust"
    with pytest.raises(InputError, match=says):
        choice(*(f"m{at:02}.pt" for at in range(41)), "z.onnx")


def test_folders_within_the_folder_of_a_model_are_none_whatever_their_names_and_number() -> None:
    inner = [name for at in range(50) for name in folder(f"+part{at:02}")]
    assert choice("config.json", "model.safetensors", *inner) == "."
    assert choice(*folder("net"), *(f"net/{name}" for name in inner)) == "net"
