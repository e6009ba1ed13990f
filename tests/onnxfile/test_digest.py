"""The canonical digest of ONNX files and the count of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ArtifactError
from bench.onnxfile.file.digest import canonical_digest, operator_counts
from bench.onnxfile.weights.parameter_counts import of_onnx

Change = Callable[[onnx.ModelProto], None]

WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(4, dtype=np.float32),
    "axes": np.array([0], dtype=np.int64),
    "epsilon": np.array(1e-5, dtype=np.float32),
}


def make_branch(name: str, operator: str) -> onnx.GraphProto:
    """A branch of an If that reads two values of the graph around it."""
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, ["h", "scaled"], [name])], name, [], [output])


def make_model() -> onnx.ModelProto:
    """(x @ w + b) in two ways joined by an If, and a Constant; every input of Sub, MatMul and If matters."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], name="first"),
        helper.make_node("Add", ["xw", "b"], ["h"], name="second"),
        helper.make_node("Mul", ["xw", "epsilon"], ["scaled"], name="third"),
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array([2.0], np.float32))),
        helper.make_node(
            "If", ["flag"], ["branch"], then_branch=make_branch("t", "Sub"), else_branch=make_branch("e", "Mul")
        ),
        helper.make_node("Sub", ["branch", "two"], ["shifted"]),
        helper.make_node("LeakyRelu", ["shifted"], ["relu"], alpha=0.1),
        helper.make_node("Unsqueeze", ["relu", "axes"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "batch", 4])],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def digest(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> str:
    onnx.save(model, folder / name)
    return canonical_digest(folder / name)


def initializer(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def node(model: onnx.ModelProto, operator: str) -> onnx.NodeProto:
    return next(item for item in model.graph.node if item.op_type == operator)


def rename_values(model: onnx.ModelProto) -> None:
    kept = {"x", "flag", "y"}

    def new(name: str) -> str:
        return name if name in kept or not name else f"renamed_{name}"

    def rename(graph: onnx.GraphProto) -> None:
        for item in graph.node:
            item.input[:] = map(new, item.input)
            item.output[:] = map(new, item.output)
            for attribute in item.attribute:
                if attribute.HasField("g"):
                    rename(attribute.g)
        for value in [*graph.initializer, *graph.output]:
            value.name = new(value.name)

    rename(model.graph)


def rename_nodes(model: onnx.ModelProto) -> None:
    for number, item in enumerate(model.graph.node):
        item.name = f"node {number}"
    model.graph.name = "another"


def reorder_nodes(model: onnx.ModelProto) -> None:
    nodes = [model.graph.node[at] for at in (3, 0, 2, 1, 4, 5, 6, 7)]
    copies = [onnx.NodeProto.FromString(item.SerializeToString()) for item in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def reorder_initializers(model: onnx.ModelProto) -> None:
    copies = [onnx.TensorProto.FromString(item.SerializeToString()) for item in reversed(model.graph.initializer)]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)


def document(model: onnx.ModelProto) -> None:
    model.doc_string = model.graph.doc_string = "a model"
    for item in [*model.graph.node, *model.graph.initializer, *model.graph.input]:
        item.doc_string = "documented"
    model.producer_name, model.producer_version, model.model_version = "another", "2", 7
    helper.set_model_props(model, {"author": "somebody"})
    model.graph.node[0].metadata_props.add(key="stack_trace", value="line 3")


def infer_shapes(model: onnx.ModelProto) -> None:
    model.CopyFrom(onnx.shape_inference.infer_shapes(model))
    assert model.graph.value_info


def rename_dimension(model: onnx.ModelProto) -> None:
    for value in [model.graph.input[0], model.graph.output[0]]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = "N"


def reverse_attributes(model: onnx.ModelProto) -> None:
    item = node(model, "If")
    copies = [onnx.AttributeProto.FromString(attribute.SerializeToString()) for attribute in reversed(item.attribute)]
    del item.attribute[:]
    item.attribute.extend(copies)


def drop_unused_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[1]


def store_typed(model: onnx.ModelProto) -> None:
    for tensor, field in ((initializer(model, "w"), "float_data"), (initializer(model, "axes"), "int64_data")):
        array = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        getattr(tensor, field).extend(array.ravel().tolist())


SAME: list[Change] = [
    rename_values,
    rename_nodes,
    reorder_nodes,
    reorder_initializers,
    document,
    infer_shapes,
    rename_dimension,
    reverse_attributes,
    drop_unused_opset,
    store_typed,
]


@pytest.mark.parametrize("change", SAME, ids=lambda change: change.__name__)
def test_same_computation(change: Change, tmp_path: Path) -> None:
    model = make_model()
    before = model.SerializeToString()
    expected = digest(model, tmp_path)
    change(model)
    assert model.SerializeToString() != before, "the test changes nothing"
    assert digest(model, tmp_path) == expected


def change_attribute(model: onnx.ModelProto) -> None:
    node(model, "LeakyRelu").attribute[0].f = 0.2


def change_weight_by_one_ulp(model: onnx.ModelProto) -> None:
    tensor = initializer(model, "w")
    array = numpy_helper.to_array(tensor).copy()
    array[1, 2] = np.nextafter(array[1, 2], np.float32(2))
    tensor.CopyFrom(numpy_helper.from_array(array, "w"))


def reshape_weight(model: onnx.ModelProto) -> None:
    initializer(model, "b").dims[:] = [1, 4]


def duplicate_initializer(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(WEIGHTS["b"], "b2"))


def duplicate_node(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("MatMul", ["x", "w"], ["unused"]))


def swap_inputs(model: onnx.ModelProto) -> None:
    item = node(model, "Sub")
    item.input[:] = [item.input[1], item.input[0]]


def change_operator_in_subgraph(model: onnx.ModelProto) -> None:
    node(model, "If").attribute[0].g.node[0].op_type = "Add"


def swap_captured_values(model: onnx.ModelProto) -> None:
    item = node(model, "If").attribute[0].g.node[0]
    item.input[:] = [item.input[1], item.input[0]]


def swap_branches(model: onnx.ModelProto) -> None:
    first, second = node(model, "If").attribute
    first.name, second.name = second.name, first.name


def change_constant(model: onnx.ModelProto) -> None:
    node(model, "Constant").attribute[0].t.CopyFrom(numpy_helper.from_array(np.array([3.0], np.float32)))


def change_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 19


def rename_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = node(model, "MatMul").input[0] = "z"


def reorder_inputs(model: onnx.ModelProto) -> None:
    copies = [onnx.ValueInfoProto.FromString(item.SerializeToString()) for item in reversed(model.graph.input)]
    del model.graph.input[:]
    model.graph.input.extend(copies)


def fix_batch(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def change_domain(model: onnx.ModelProto) -> None:
    node(model, "Add").domain = "com.example"


def make_weight_replaceable(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]))


def empty_list_attribute(model: onnx.ModelProto) -> None:
    attribute = node(model, "LeakyRelu").attribute.add()
    attribute.name, attribute.type = "list", onnx.AttributeProto.INTS


def zero_list_attribute(model: onnx.ModelProto) -> None:
    empty_list_attribute(model)
    node(model, "LeakyRelu").attribute[-1].ints.append(0)


OTHER: list[Change] = [
    change_attribute,
    change_weight_by_one_ulp,
    reshape_weight,
    duplicate_initializer,
    duplicate_node,
    swap_inputs,
    change_operator_in_subgraph,
    swap_captured_values,
    swap_branches,
    change_constant,
    change_opset,
    rename_input,
    reorder_inputs,
    fix_batch,
    change_domain,
    make_weight_replaceable,
    empty_list_attribute,
    zero_list_attribute,
]


def test_other_computations_all_differ(tmp_path: Path) -> None:
    digests = {"unchanged": digest(make_model(), tmp_path)}
    for change in OTHER:
        model = make_model()
        change(model)
        digests[change.__name__] = digest(model, tmp_path)
    names: dict[str, list[str]] = {}
    for name, value in digests.items():
        names.setdefault(value, []).append(name)
    assert [group for group in names.values() if len(group) > 1] == []


def test_shared_weight_differs_from_two_equal_ones(tmp_path: Path) -> None:
    def twice(second: str) -> onnx.ModelProto:
        model = make_model()
        duplicate_initializer(model)
        model.graph.node.append(helper.make_node("Neg", ["b"], ["unused"]))
        model.graph.node.append(helper.make_node("Exp", [second], ["unused_too"]))
        return model

    assert digest(twice("b"), tmp_path) != digest(twice("b2"), tmp_path)


def test_number_of_outputs_matters(tmp_path: Path) -> None:
    def split(num_outputs: int) -> onnx.ModelProto:
        names = [f"part{number}" for number in range(num_outputs)]
        item = helper.make_node("Split", ["x"], names, axis=0)
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y"))
        graph = helper.make_graph([item, helper.make_node("Relu", ["part0"], ["y"])], "graph", [x], [y])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])

    assert digest(split(2), tmp_path) != digest(split(3), tmp_path)


def test_functions_count_by_content(tmp_path: Path) -> None:
    def calling(operator: str, value_name: str) -> onnx.ModelProto:
        body = [helper.make_node(operator, ["a"], [value_name]), helper.make_node("Neg", [value_name], ["c"])]
        opset = [helper.make_opsetid("", 18)]
        function = helper.make_function("local", "Act", ["a"], ["c"], body, opset)
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y"))
        graph = helper.make_graph([helper.make_node("Act", ["x"], ["y"], domain="local")], "graph", [x], [y])
        opsets = [*opset, helper.make_opsetid("local", 1)]
        return helper.make_model(graph, functions=[function], opset_imports=opsets)

    relu = digest(calling("Relu", "b"), tmp_path)
    assert digest(calling("Relu", "renamed"), tmp_path) == relu
    assert digest(calling("Sigmoid", "b"), tmp_path) != relu


def test_external_data_counts_by_content(tmp_path: Path) -> None:
    model = make_model()
    expected = digest(model, tmp_path)
    onnx.save(model, tmp_path / "external.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").stat().st_size > 0
    assert canonical_digest(tmp_path / "external.onnx") == expected


def test_value_used_before_it_is_made(tmp_path: Path) -> None:
    model = make_model()
    node(model, "MatMul").input[0] = "y"
    with pytest.raises(ArtifactError, match=r"\(MatMul\) reads 'y' before node '' makes it"):
        digest(model, tmp_path)


@pytest.mark.parametrize("content", [b"", b"no protobuf at all"])
def test_unreadable_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"cannot read bad\.onnx"):
        canonical_digest(path)


def test_num_params(tmp_path: Path) -> None:
    onnx.save(make_model(), tmp_path / "model.onnx")
    # w and b; neither the axes nor single numbers of a formula, the epsilon and the constant [2.0].
    assert of_onnx(tmp_path / "model.onnx").num_params == 12 + 4


def test_operators_are_counted_inside_subgraphs_too(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Gelu", ["n"], ["b"], domain="com.microsoft")],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["negative"], domain="ai.onnx"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "c")]
    graph = helper.make_graph(nodes, "graph", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    assert operator_counts(tmp_path / "model.onnx") == {"If": 1, "Neg": 3, "com.microsoft.Gelu": 2}
