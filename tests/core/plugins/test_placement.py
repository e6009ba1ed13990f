"""Placement: nodes and MACs by the provider that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ArtifactError
from bench.onnxfile.costs.nodes import NodeCost
from bench.plugins.engines.onnxruntime import placement, providers
from bench.plugins.engines.onnxruntime.providers import CPU, Provider

NPU = Provider(name="npu", ort_name="NpuExecutionProvider", library="plugin.so", device="NPU")
SHAPES = {"x": (2, 8)}


def cost(name: str, macs: int, *, path: str = "", known: bool = True) -> NodeCost:
    return NodeCost(
        name=name,
        op_type="MatMul",
        domain="",
        inputs=(),
        outputs=(),
        output_shapes=(),
        macs=macs,
        other_ops=0,
        params=0,
        weight_bytes=0,
        activation_bytes=0,
        known=known,
        path=path,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x (2, 8) -> product with (8, 8), 128 MACs; Tanh; product with (8, 4), 64 MACs; nodes without names."""
    first, second = (np.eye(8, columns, dtype=np.float32) for columns in (8, 4))
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["a"]),
            helper.make_node("Identity", ["a"], ["same"]),
            helper.make_node("Tanh", ["same"], ["b"]),
            helper.make_node("MatMul", ["b", "second"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_the_processor_runs_what_is_left_after_optimizing(model: Path) -> None:
    before = model.read_bytes()
    assert placement.place(model, "cpu", shapes=SHAPES) == {"CPUExecutionProvider": {"nodes": 3, "macs_share": 1.0}}
    assert model.read_bytes() == before


def test_macs_are_found_by_the_names_of_the_nodes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of ONNX Runtime itself names the nodes; only which of them a second provider takes is made up."""

    def open_session(path: Path, provider: Provider, *, threads: int) -> Any:
        import onnxruntime

        assert provider == NPU
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        return onnxruntime.InferenceSession(path, options, providers=[CPU.ort_name])

    def assignment(session: Any) -> dict[str, list[str]]:
        ((name, nodes),) = told(session).items()
        assert len(set(nodes)) == 3
        return {NPU.ort_name: [node for node in nodes if node.startswith("MatMul")][:1], name: nodes[1:]}

    told = providers.assignment
    monkeypatch.setattr(providers, "usable", lambda: {CPU.name: CPU, NPU.name: NPU})
    monkeypatch.setattr(providers, "open_session", open_session)
    monkeypatch.setattr(providers, "assignment", assignment)
    assert placement.place(model, "npu", shapes=SHAPES) == {
        "NpuExecutionProvider": {"nodes": 1, "macs_share": 128 / 192},
        "CPUExecutionProvider": {"nodes": 2, "macs_share": 64 / 192},
    }


def test_openvino_takes_every_node(model: Path) -> None:
    if "openvino" not in providers.usable():
        pytest.skip("OpenVINO's provider is not installed, or offers no device here")
    placed = placement.place(model, "openvino", shapes=SHAPES)
    assert placed == {"OpenVINOExecutionProvider": {"nodes": 3, "macs_share": 1.0}}


def test_nodes_of_a_subgraph_run_where_its_holder_does_unless_they_are_named() -> None:
    costs = [
        cost("/a.b/loop_1", 0),
        cost("product_2", 30, path="/a.b/loop_1.body"),
        cost("if_3", 0, path="/a.b/loop_1.body"),
        cost("product_4", 50, path="/a.b/loop_1.body/if_3.then_branch"),
        cost("product_5", 20),
    ]
    outside = {"/a.b/loop_1": "A", "product_5": "B"}
    assert placement.summary(costs, outside) == {
        "A": {"nodes": 1, "macs_share": 0.8},
        "B": {"nodes": 1, "macs_share": 0.2},
    }
    assert placement.summary(costs, {**outside, "product_2": "B", "if_3": "B"}) == {
        "B": {"nodes": 3, "macs_share": 1.0},
        "A": {"nodes": 1, "macs_share": 0.0},
    }


@pytest.mark.parametrize(
    "costs",
    [
        [cost("product", 0), cost("tanh", 0)],
        [cost("product", 10), cost("tanh", 0, known=False)],
        [cost("product", 10), cost("folded", 1), cost("tanh", 0)],
    ],
    ids=["none", "unknown", "lost"],
)
def test_shares_are_not_told_where_macs_cannot_be(costs: list[NodeCost]) -> None:
    assert placement.summary(costs, {"product": "A", "tanh": "B"}) == {
        "A": {"nodes": 1, "macs_share": None},
        "B": {"nodes": 1, "macs_share": None},
    }


def test_a_fall_back_is_told() -> None:
    placed = {"A": {"nodes": 12, "macs_share": 0.98}, "B": {"nodes": 3, "macs_share": 0.02}}
    assert placement.fallback(placed, "A") == "falls back: 3 nodes with 2.0% of the MACs run on B"
    assert placement.fallback({"A": placed["A"]}, "A") is None
    placed["B"]["macs_share"] = None
    assert placement.fallback(placed, "A") == "falls back: 3 nodes run on B"


def test_a_provider_that_is_not_there_is_told(model: Path) -> None:
    with pytest.raises(ArtifactError, match="no provider 'npu' here"):
        placement.place(model, "npu", shapes=SHAPES)
