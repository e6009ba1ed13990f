"""OpenVINO generates with its cache as a state, alone and in the pipeline of openvino-genai."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api.generation import Generator
from bench.measure import tokens
from bench.pipeline import generation_quality
from bench.plugins import catalog, steps
from support import deferred

pytestmark = [pytest.mark.framework, pytest.mark.slow(seconds=15)]
deferred.importorskip("openvino_genai")
REQUEST = "codegen_lm~generate@new=8,prompt=64"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openvino") / "model.openvino"
    steps.export(catalog.exporter("torch_openvino"), catalog.task("codegen_lm~step"), "torch", path)
    return path


def opened(runtime: str, artifact: Path) -> Generator:
    task = catalog.task(REQUEST)
    session = catalog.runtime(runtime).open(artifact, task=task, source="torch", provider="cpu", threads=1)
    assert isinstance(session, Generator)
    return session


@pytest.mark.parametrize("runtime", ["openvino", "openvino_genai"])
def test_it_generates_what_the_reference_does(archive: Path, runtime: str) -> None:
    task = catalog.task(REQUEST)
    assert task.request is not None
    feeds = {name: array[0] for name, array in task.samples("test").inputs.items()}
    right, session = opened("pytorch", task.weights_path), opened(runtime, archive)
    prompt, forced = session.prompt_of(feeds), feeds["input_ids"][0, 64:72]
    found = tokens.timed(session, prompt, 8)
    tokens.check(found, task.request.decoder, 64, 8)
    assert list(found.ids) == right.run(feeds)[0].tolist()
    assert (session.precision, session.cache_bytes) == ("float32", 4)
    assert session.weight_bytes is not None
    assert 23_000_000 < session.weight_bytes < 23_200_000  # 5,770,496 weights in float32, and constants
    if session.scores:
        own, expected = (generation_quality.log_softmax(one.logits_after(prompt, forced)) for one in (session, right))
        assert np.abs(own - expected).max() < 1e-4
    session.close()


def test_attention_is_fused_with_the_state(archive: Path) -> None:
    session = opened("openvino", archive)
    layers = [node.get_rt_info()["layerType"].astype(str) for node in session._compiled.get_runtime_model().get_ops()]  # type: ignore[attr-defined]
    assert layers.count("ScaledDotProductAttention") == 6
