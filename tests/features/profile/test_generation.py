"""`bench profile` of language models: the table, its formats, and the one-line message of each error."""

from __future__ import annotations

import csv
import json
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.api.errors import BenchError, ChildError
from bench.cli import main
from bench.features.profile import command as profile
from bench.features.profile import decoders
from bench.measure.generation import WEIGHT_BITS
from bench.measure.roofline import Peaks

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}
LAYERS, WORDS, VECTORS = 2 * (64 * 16 * 12 + 3 * 64 * 96), 128 * 64, 5 * 64
CACHE = 2 * 2 * 2 * 16
"""Elements of keys and values a token."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration alone; the machine computes 1 G MACs/s and reads 10 GB/s."""
    pytest.importorskip("transformers")
    rates = decoders.Rates(
        threads=2, peaks=Peaks(macs_per_s={"float32": 1e9}, libraries={}, bytes_per_s=0), bytes_per_s=1e10
    )
    monkeypatch.setattr(decoders, "rates", lambda found, threads: rates)
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports transformers once for several tests, where others price a model in a process of its own."""

    def ask_once(operation: Callable[..., Any], *, timeout_s: float, memory_bytes: int, **asked: Any) -> Any:
        try:
            return json.loads(json.dumps(operation(**asked)))
        except BenchError as error:
            raise ChildError("error", str(error)) from error

    monkeypatch.setattr(decoders, "ask_once", ask_once)


def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main.main()
    said = capsys.readouterr()
    return int(caught.value.code or 0), said.out, said.err


@pytest.mark.framework("transformers")
def test_each_pass_has_its_costs_and_its_bound(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = bench(capsys, monkeypatch, "profile", folder, "--prompt", 10, "--new", 5, "--format", "json")

    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["num_params"] == LAYERS + WORDS + VECTORS
    assert (found["stored"], found["cache_bytes_per_token"]) == ("bfloat16", 2 * CACHE)
    prefill, first, last = found["passes"]
    assert [(one["pass"], one["num_tokens"], one["depth"]) for one in found["passes"]] == [
        ("prefill", 10, 0),
        ("decode", 1, 10),
        ("decode", 1, 13),  # the prefill gives the first of five tokens
    ]
    macs = 10 * LAYERS + WORDS + 2 * 55 * 4 * 2 * 16
    assert prefill["macs"] == macs
    assert (prefill["bound_by"], prefill["least_ns"]) == ("compute", macs)
    assert prefill["most_tokens_per_s"] == pytest.approx(10 / (macs * 1e-9))
    assert last["cache_bytes"] - first["cache_bytes"] == 3 * 2 * CACHE
    assert first["weight_bytes"] == 2 * (LAYERS + WORDS + VECTORS)


@pytest.mark.framework("torch")
@pytest.mark.usefixtures("_in_this_process")
def test_the_table_and_the_csv(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("profile", folder, "--by", "generation", "--stored", "int4", "--batch", 4)
    code, out, _ = bench(capsys, monkeypatch, *asked, "--output", "-")
    assert code == 0
    assert "tiny, LlamaForCausalLM" in out
    assert "k parameters" in out
    assert "in int4; 256 B of keys and values a token" in out
    assert "this machine, 2 threads: 1 G MACs/s, reads 10 GB/s" in out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(" prefill") or "after" in line] == [
        ["prefill", "of", "512"],
        ["decode", "after", "512"],
        ["decode", "after", "638"],
    ]
    code, out, _ = bench(capsys, monkeypatch, *asked, "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [int(row["cache_read"]) for row in rows] == [4 * 512 * CACHE, 4 * 513 * CACHE, 4 * 639 * CACHE]


@pytest.mark.framework("torch")
@pytest.mark.usefixtures("_in_this_process")
def test_a_terminal_of_80_columns_has_the_bounds_whole(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = bench(capsys, monkeypatch, "profile", folder, "--prompt", 4096, "--batch", 8)
    (titles,) = [line for line in out.splitlines() if line.startswith(" pass")]
    assert titles.split("  ")[-1].strip() == "tokens/s at most"
    assert "attention" not in titles


@pytest.mark.framework("torch")
@pytest.mark.usefixtures("_in_this_process")
def test_a_single_new_token_takes_no_decode_step(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = bench(capsys, monkeypatch, "profile", folder, "--new", 1, "--format", "json")
    assert [one["pass"] for one in json.loads(out)["passes"]] == ["prefill"]


@pytest.mark.framework("torch")
@pytest.mark.usefixtures("_in_this_process")
def test_a_model_that_cannot_be_priced_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": -9}))
    code, out, err = bench(capsys, monkeypatch, "profile", folder)
    assert (code, out) == (2, "")
    assert err.startswith("bench: cannot price tiny: transformers cannot build it from its config.json: ")
    assert err.endswith("; --by node profiles its graph\n")
    assert err.count("\n") == 1


def test_options_of_the_other_view_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = bench(capsys, monkeypatch, "profile", folder, "--by", "generation", "--dim", "N=4")
    assert (code, err) == (2, "bench: --dim: about graphs: leave them out of --by generation\n")
    code, _, err = bench(capsys, monkeypatch, "profile", folder, "--by", "weight", "--prompt", 4, "--threads", 1)
    assert code == 2
    assert (
        err == "bench: --prompt, --threads: about generation: they need --by generation, of a folder of transformers\n"
    )
    # A shape asks for the graph, which has no weights here.
    code, _, err = bench(capsys, monkeypatch, "profile", folder, "--shape", "input_ids=1x8:int64")
    assert code == 2
    assert "no .safetensors" in err


def test_weights_are_stored_as_the_command_line_can_say() -> None:
    hints = typing.get_type_hints(profile.profile, include_extras=False)
    (choices, _) = typing.get_args(hints["stored"])
    assert typing.get_args(choices) == tuple(WEIGHT_BITS)


@pytest.mark.framework("torch")
@pytest.mark.usefixtures("_in_this_process")
def test_an_unknown_type_of_weights_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "dtype": "float64"}))
    code, _, err = bench(capsys, monkeypatch, "profile", folder)
    assert code == 2
    assert "its weights are float64; say how they are stored by --stored: float32, bfloat16" in err


def test_only_a_folder_is_priced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = bench(capsys, monkeypatch, "profile", tmp_path / "model.onnx", "--by", "generation")
    assert code == 2
    assert "is not a folder with a config.json" in err


@pytest.mark.parametrize(
    ("content", "is_decoder"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, True),
        ({"architectures": ["BertForMaskedLM"]}, False),
        ({"architectures": None}, False),
        ({}, False),
        ([], False),
    ],
)
def test_folders_that_generate_are_known_by_their_class(content: object, is_decoder: bool, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert decoders.is_decoder(tmp_path) is is_decoder


def test_what_is_no_configuration_generates_nothing(tmp_path: Path) -> None:
    assert not decoders.is_decoder(tmp_path)
    assert not decoders.is_decoder(tmp_path / "missing")
    for content in (b"\xff{", b"[" * 100_000):
        (tmp_path / "config.json").write_bytes(content)
        assert not decoders.is_decoder(tmp_path)
