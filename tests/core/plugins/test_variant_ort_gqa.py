"""The attention of a decoder's pass becomes GroupQueryAttention, with the same outputs, or the step is refused."""

from __future__ import annotations

import collections
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.api import Task
from bench.api.errors import RefusedError
from bench.pipeline import operations
from bench.plugins import catalog, generating, steps
from support import deferred
from support.features import needs

pytest.importorskip("onnxruntime")
deferred.importorskip("onnxscript")
deferred.importorskip("sympy")
deferred.importorskip("transformers")
pytestmark = [pytest.mark.framework, pytest.mark.xdist_group("ort_gqa"), pytest.mark.slow(seconds=20)]


@pytest.fixture(scope="module")
def task() -> Task:
    return catalog.task("codegen_lm~step")


@pytest.fixture(scope="module", params=[pytest.param("torch_onnx", marks=pytest.mark.thorough), "torch_onnx_legacy"])
def exported(request: pytest.FixtureRequest, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("exported") / "model.onnx"
    steps.export(catalog.exporter(request.param), task, "torch", target)
    return target


@pytest.fixture(scope="module")
def grouped(exported: Path, task: Task) -> Path:
    target = exported.with_name("grouped.onnx")
    info = steps.transform(catalog.variant("ort_gqa"), task, exported, target)
    assert info["fused"] == {
        "GroupQueryAttention": 6,
        "SimplifiedLayerNormalization": 1,
        "SkipSimplifiedLayerNormalization": 12,
    }
    return target


def test_nothing_of_the_attention_is_left(grouped: Path) -> None:
    nodes = collections.Counter(node.op_type for node in onnx.load(grouped).graph.node)
    assert nodes["GroupQueryAttention"] == 6
    assert not {"Softmax", "Concat", "Expand", "Cos", "Sin"} & nodes.keys()
    assert nodes["MatMul"] == 6 * 5 + 1, "queries, keys and values are one product"


def test_it_is_rewritten_once(grouped: Path, task: Task, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"layer 0 .* no Concat makes present\.0\.key"):
        steps.transform(catalog.variant("ort_gqa"), task, grouped, tmp_path / "again.onnx")


def test_it_generates_in_half_precision_too(grouped: Path, task: Task, tmp_path: Path) -> None:
    halved = tmp_path / "halved.onnx"
    assert steps.transform(catalog.variant("fp16"), task, grouped, halved)["num_kept"] == 0
    asked = catalog.task("codegen_lm~generate@new=4,prompt=16")
    rows = []
    for path in (grouped, halved):
        runtime = catalog.runtime("onnxruntime")
        with runtime.open(path, task=asked, source="torch", provider="cpu", threads=1) as session:
            rows.append(session.logits_after(np.arange(16), np.arange(4)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(rows[1], rows[0], atol=0.05)


def test_other_models_are_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="pass of a decoder"):
        steps.transform(catalog.variant("ort_gqa"), catalog.task("codegen_lm"), exported, tmp_path / "other.onnx")


def test_a_pass_has_no_static_shapes(exported: Path, task: Task, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="passes of every size"):
        steps.transform(catalog.variant("static_shapes"), task, exported, tmp_path / "fixed.onnx")


@pytest.mark.parametrize(("asked", "num_tokens"), [("new=1,prompt=16", 16), ("new=4,prompt=16", 1)])
@needs("explain")
def test_the_timed_pass_is_profiled_and_held_against_the_plain_one(
    exported: Path, grouped: Path, tmp_path: Path, asked: str, num_tokens: int
) -> None:
    from bench.features.explain import worker_requests
    from bench.pipeline import profile_requests

    task, inputs = f"codegen_lm~generate@{asked}", tmp_path / "inputs.npz"
    operations.save_inputs(task=task, split="test", target=str(inputs))

    cell = f"{task}/torch/torch_onnx/ort_gqa/onnxruntime/cpu/b1t1"
    nodes = profile_requests.profile_nodes(cell=cell, artifact=str(grouped), inputs=str(inputs), num_runs=2)["nodes"]
    found = worker_requests.drift(
        task=task,
        before=str(exported),
        after=str(grouped),
        batch=1,
        inputs=str(inputs),
        tolerance=1e-3,
        names=None,
    )

    attention = [node for node in nodes if node["operator"] == "GroupQueryAttention"]
    assert len(attention) == 6
    assert all(node["time_ns"] > 0 for node in attention)
    feeds = generating.pass_feeds(catalog.task(task).request, np.arange(48))
    assert feeds["input_ids"].shape == (1, num_tokens)
    assert feeds["past_key_values.5.value"].shape == (1, 2, 16 if num_tokens == 1 else 0, 64)
    assert found["first"] is None
