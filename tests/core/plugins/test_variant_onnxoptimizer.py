"""onnxoptimizer: which passes run, and that the model stays the same one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bench.api import loading
from support import variant_graphs as graphs

onnxoptimizer = pytest.importorskip("onnxoptimizer")


def model() -> object:
    """Nodes to eliminate (Identity, a Dropout, a duplicate) and to fuse (BatchNormalization, two Transposes)."""
    node = helper.make_node
    return graphs.model_of(
        [
            node("Identity", ["x"], ["same"]),
            node("Conv", ["same", "w"], ["c"]),
            node("BatchNormalization", ["c", "gain", "shift", "mean", "variance"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("Relu", ["n"], ["r_again"]),
            node("Add", ["r", "r_again"], ["sum"]),
            node("Transpose", ["sum"], ["t"], perm=[0, 2, 3, 1]),
            node("Transpose", ["t"], ["u"], perm=[0, 2, 3, 1]),
            node("Identity", ["u"], ["y"]),
        ],
        {
            "w": graphs.floats(3, 2, 1, 1),
            "gain": graphs.floats(3),
            "shift": graphs.floats(3, seed=1),
            "mean": graphs.floats(3, seed=2),
            "variance": np.abs(graphs.floats(3, seed=3)) + 1,
        },
        inputs={"x": ["batch", 2, 4, 5]},
        outputs={"y": ["batch", 5, 3, 4]},
    )


@pytest.mark.parametrize(
    ("variant", "changed"),
    [
        ("onnxoptimizer", {"Identity": 0, "Relu": 1, "BatchNormalization": 0, "Transpose": 1}),
        ("onnxoptimizer-eliminate", {"Identity": 0, "Relu": 1, "BatchNormalization": 1, "Transpose": 2}),
        ("onnxoptimizer-fuse", {"Identity": 2, "Relu": 2, "BatchNormalization": 0, "Transpose": 1}),
    ],
)
def test_option_says_what_kind_of_nodes_go(variant: str, changed: dict[str, int], tmp_path: Path) -> None:
    source = model()
    made, info = graphs.apply(variant, source, tmp_path)
    found = graphs.operators(made)
    assert {name: found[name] for name in changed} == changed
    assert graphs.largest_error(source, made) < 1e-5
    kind = variant.partition("-")[2]
    assert all(name.startswith(kind) for name in info["passes"])


def test_passes_are_those_of_the_package_but_for_the_unsafe(tmp_path: Path) -> None:
    unsafe = loading.load_module(loading.find("variants")["onnxoptimizer"]).UNSAFE
    source = model()
    passes = {
        option: set(graphs.apply(f"onnxoptimizer{option}", source, tmp_path)[1]["passes"])
        for option in ("", "-eliminate", "-fuse")
    }
    assert passes[""] == set(onnxoptimizer.get_available_passes()) - unsafe.keys()
    assert passes[""] >= set(onnxoptimizer.get_fuse_and_elimination_passes())
    assert passes["-eliminate"]
    assert passes["-fuse"]
    assert passes["-eliminate"] | passes["-fuse"] < passes[""]


def unsafe_passes() -> list[str]:
    return sorted(loading.load_module(loading.find("variants")["onnxoptimizer"]).UNSAFE)


@pytest.mark.parametrize("name", unsafe_passes())
def test_unsafe_pass_is_one(name: str) -> None:
    """What is said of each: after it, inputs, outputs or weights are not those of the model, or it raises."""
    source = graphs.encoder()

    def interface(item: object) -> list[bytes]:
        graph = item.graph  # type: ignore[attr-defined]
        return [value.SerializeToString() for value in (*graph.input, *graph.output)]

    try:
        made = onnxoptimizer.optimize(source, [name])
    except RuntimeError as error:
        assert "Unresolved value references" in str(error)  # noqa: PT017 (a pass may do either)
    else:
        assert interface(made) != interface(source)


def test_local_functions_are_inlined_not_lost(tmp_path: Path) -> None:
    node = helper.make_node
    source = graphs.model_of([node("Relu", ["x"], ["y"])], {}, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})
    source.functions.append(
        helper.make_function(
            "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
        )
    )
    source.opset_import.append(helper.make_opsetid("own", 1))
    source.graph.node[0].CopyFrom(node("Twice", ["x"], ["y"], domain="own"))
    made, _ = graphs.apply("onnxoptimizer", source, tmp_path)
    assert graphs.operators(made) == {"Add": 1}
    assert graphs.largest_error(source, made) == 0


def test_subgraphs_stay_whole(tmp_path: Path) -> None:
    source = graphs.looped([helper.make_node("Mul", ["state", "half"], ["next"])], {"half": np.float32(0.5)})
    made, _ = graphs.apply("onnxoptimizer", source, tmp_path)
    assert graphs.operators(made)["Loop"] == 1
    assert graphs.largest_error(source, made) == 0
