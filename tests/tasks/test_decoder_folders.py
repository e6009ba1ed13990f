"""A folder of a decoder becomes a task that generates: the engines that take it give the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task
from bench.api.generation import Generator
from bench.plugins import catalog, steps
from bench.tasks.examine import examine
from support import deferred

pytestmark = pytest.mark.framework("torch")
torch = deferred.importorskip("torch")
transformers = deferred.importorskip("transformers")
SMALL = {
    "vocab_size": 160, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 100, "eos_token_id": [5, 7],
}  # fmt: skip


def examined(plugin_folder: Path, tmp_path: Path, kind: str, **settings: Any) -> tuple[Task, dict[str, Any]]:
    """The task of a model with random weights, large enough that texts differ, and what its examination told."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.CONFIG_MAPPING[kind](**settings))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8 if weight.dim() > 1 else 1)
    model.save_pretrained(tmp_path / "saved")
    folder = plugin_folder / "models" / "mine"
    folder.mkdir(parents=True)
    asked: dict[str, Any] = {"data": None, "dims": (), "shapes": (), "trust": False}
    found = examine(module="transformers", path=str(tmp_path / "saved"), folder=str(folder), **asked)
    catalog.forget()
    return catalog.task("mine"), found


def answer(runtime: str, artifact: Path) -> list[int]:
    asked = catalog.task("mine~generate@new=12,prompt=20")
    with catalog.runtime(runtime).open(artifact, task=asked, source="torch", provider="cpu", threads=1) as session:
        assert isinstance(session, Generator)
        ids: list[int] = []
        session.generate(np.arange(1, 21), 12, ids.append)
        return ids


def test_a_small_llama_generates(plugin_folder: Path, tmp_path: Path) -> None:
    task, found = examined(plugin_folder, tmp_path, "llama", **SMALL)
    assert (found["notes"], found["guessed"]) == ([], {})
    assert task.decoder is not None
    assert (task.decoder.max_positions, task.decoder.end_id) == (100, 5)
    assert catalog.task("mine~generate").name == "mine~generate@new=50,prompt=50"

    right = answer("pytorch", task.weights_path)

    assert len(set(right)) > 3
    one_pass = catalog.task("mine~step")
    for exporter, runtime in (("gguf", "llama_cpp"), ("torch_onnx_legacy", "onnxruntime")):
        if catalog.runtime(runtime).skip() is None:
            artifact = tmp_path / f"model.{catalog.exporter(exporter).writes}"
            steps.export(catalog.exporter(exporter), one_pass, "torch", artifact)
            assert answer(runtime, artifact) == right, runtime


def test_a_model_that_cannot_is_measured_by_whole_passes(plugin_folder: Path, tmp_path: Path) -> None:
    task, found = examined(plugin_folder, tmp_path, "bloom", vocab_size=96, hidden_size=32, n_layer=2, n_head=4)
    assert task.decoder is None
    assert found["guessed"] == {"sequence": 16}
    (note,) = found["notes"]
    assert note.startswith("it generates, and it does not run with a cache (")
    assert note.endswith("): what is measured is one pass over all tokens, without a cache")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"vocab_size": 65}, "a vocabulary of 65 has no room"),
        ({"attention_bias": True}, "it writes Llamas without biases"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "of the kind 'linear'"),
    ],
)
def test_llamas_that_are_not_written_as_gguf(
    plugin_folder: Path, tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    examined(plugin_folder, tmp_path, "llama", **{**SMALL, **settings})
    told = catalog.exporter("gguf").refusal(catalog.task("mine~step"))
    assert told is not None
    assert reason in told
