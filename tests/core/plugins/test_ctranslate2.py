"""CTranslate2's files of a Llama: what is generated with them, their logits, and decoders that they cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.api.errors import ChildError
from bench.measure import tokens
from bench.measure.process import ask_once
from bench.plugins import catalog, steps
from bench.plugins.engines import llamas
from support import plugin_child

pytest.importorskip("ctranslate2")
pytestmark = [pytest.mark.framework("torch"), pytest.mark.slow(seconds=10)]
REQUEST = "codegen_lm~generate@new=8,prompt=64"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ctranslate2") / "model.ctranslate2"
    steps.export(catalog.exporter("ctranslate2"), catalog.task("codegen_lm~step"), "torch", path)
    return path


@pytest.mark.parametrize(("provider", "precision"), [("cpu", "float32"), ("cpu+int8", "int8")])
def test_it_generates_what_the_logits_of_pytorch_say(file: Path, provider: str, precision: str) -> None:
    import torch

    task = catalog.task(REQUEST)
    assert task.request is not None
    prompt = np.arange(5, 69, dtype=np.int64)
    with catalog.runtime("ctranslate2").open(file, task=task, source="torch", provider=provider, threads=1) as session:
        generation = tokens.timed(session, prompt, 8)
        tokens.check(generation, task.request.decoder, 64, 8)
        logits = session.logits_after(prompt, np.array(generation.ids))
    model = catalog.task("codegen_lm").build("torch", task.weights_path)
    with torch.no_grad():
        ids = torch.from_numpy(np.concatenate([prompt, generation.ids[:-1]]))[None]
        expected = model(ids)[0, 63:].numpy()
    assert (session.precision, logits.shape) == (precision, (8, 4096))
    most = {"float32": 1e-3, "int8": 1.0}[precision]
    assert np.abs(logits - expected).max() <= most
    assert [int(row.argmax()) for row in logits] == list(generation.ids)


def test_decoders_of_another_kind_are_refused() -> None:
    exporter = catalog.exporter("ctranslate2")
    assert exporter.refusal(catalog.task("albert")) == "it writes decoders that generate text"
    assert exporter.refusal(catalog.task("codegen_lm~step")) is None
    assert llamas.config(catalog.task("codegen_lm"))["model_type"] == "llama"


def without_head(content: bytes) -> bytes:
    """Zeros where the first bytes of the weights were, after the 512 bytes of the archive that name the file."""
    start = content.index(b"model.bin") + 512
    return content[:start] + bytes(256) + content[start + 256 :]


@pytest.mark.usefixtures("support_in_workers")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[: len(content) // 2], "unexpected end of data"),
        (lambda content: content.replace(b"model.bin", b"model.bun", 1), "Unable to open file 'model.bin'"),
        (without_head, "Cannot load the target vocabulary"),
    ],
    ids=["half of it", "without its weights", "without its head"],
)
def test_a_damaged_archive_is_not_opened(
    file: Path, damage: Callable[[bytes], bytes], reason: str, tmp_path: Path
) -> None:
    damaged = tmp_path / "artifact.ctranslate2"
    damaged.write_bytes(damage(file.read_bytes()))
    request = {"runtime": "ctranslate2", "provider": "cpu", "task": REQUEST, "source": "torch", "batches": [1]}
    target = str(tmp_path / "outputs.npz")
    with pytest.raises(ChildError, match=reason) as raised:
        ask_once(plugin_child.run, timeout_s=60, memory_bytes=4 << 30, artifact=str(damaged), target=target, **request)
    assert raised.value.kind == "error"
