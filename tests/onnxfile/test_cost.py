"""The work of every operator, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.costs import macs
from bench.onnxfile.costs.nodes import NodeCost, node_costs
from bench.onnxfile.file import normalized
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.operators import OPENVINO
from bench.onnxfile.shapes import inference, rules
from bench.onnxfile.shapes import tensors as shapes
from bench.onnxfile.shapes.steps import all_steps
from bench.onnxfile.weights import parameters

FLOAT, INT8, UINT8, INT32 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
MICROSOFT = "com.microsoft"
TYPES = {"float32": FLOAT, "int8": INT8, "uint8": UINT8, "int32": INT32, "int64": TensorProto.INT64}


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: list[str], stored: list[Any]
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, TYPES[dtype], shape) for name, (shape, dtype) in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    tensors = [one if isinstance(one, onnx.TensorProto) else numpy_helper.from_array(one[1], one[0]) for one in stored]
    domains = {node.domain for node in nodes} | {""}
    imports = [helper.make_opsetid(domain, 1 if domain else 21) for domain in domains]
    return helper.make_model(helper.make_graph(nodes, "g", given, made, tensors), opset_imports=imports)


def costs(model: onnx.ModelProto) -> list[NodeCost]:
    stored = Stored(model=normalized.settle(model), path=None)
    bound, _ = shapes.bind_inputs(stored.model)
    inferred = inference.infer(stored, bound)
    params = parameters.learned(step.node for step in all_steps(inferred.steps))
    return node_costs(inferred.steps, params, {})


def cost(
    op_type: str, *inputs: Any, outputs: int | tuple[str, ...] = 1, domain: str = "", **attributes: Any
) -> NodeCost:
    """The cost of one node. An input is a shape of floats, an array that is stored, or None where it is left out.

    The outputs are given by their number, or by their names, which are empty for those that are left out.
    """
    names, given, stored = [], {}, []
    for index, value in enumerate(inputs):
        name = "" if value is None else f"x{index}"
        names.append(name)
        if isinstance(value, np.ndarray):
            stored.append((name, value))
        elif isinstance(value, onnx.TensorProto):
            value.name = name
            stored.append(value)
        elif value is not None:
            given[name] = (value, "float32")
    made = [f"y{index}" for index in range(outputs)] if isinstance(outputs, int) else [*outputs]
    node = helper.make_node(op_type, names, made, domain=domain, **attributes)
    (found,) = costs(model_of([node], given, [next(filter(None, made))], stored))
    assert found.known
    return found


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def test_every_operator_of_the_standard_domain_has_a_rule() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}

    assert len(names) > 190
    assert names - {name for domain, name in macs.RULES if domain == ""} == set()


def test_every_operator_with_a_shape_has_a_cost() -> None:
    assert rules.RULES.keys() - macs.RULES.keys() == set()


def test_no_cost_is_for_an_operator_that_does_not_exist() -> None:
    pytest.importorskip("onnxruntime")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    known = {(schema.domain, schema.name) for schema in get_all_operator_schema()}
    known |= {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()}
    known.add(("", "SimplifiedLayerNormalization"))  # ONNX Runtime registers it there without a schema to list
    others = {key for key in macs.RULES if key[0] != OPENVINO}  # whose operations have no schema
    assert others - known == set()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (("Conv", [2, 6, 9, 9], zeros(8, 3, 3, 3), zeros(8)), (2 * 8 * 7 * 7 * 3 * 9, 2 * 8 * 7 * 7)),
        (("ConvTranspose", [2, 6, 5, 5], zeros(6, 4, 3, 3)), (2 * 6 * 25 * 4 * 9, 0)),
        (("MatMul", [2, 3, 4], zeros(4, 5)), (2 * 3 * 5 * 4, 0)),
        (("Gemm", [3, 4], zeros(4, 5), zeros(5)), (3 * 5 * 4, 15)),
        (("Relu", [2, 3]), (0, 6)),
        (("Add", [2, 3], [3]), (0, 6)),
        (("Sum", [2, 3], [2, 3], [3]), (0, 12)),
        (("Softmax", [2, 3]), (0, 30)),
        (("Transpose", [2, 3]), (0, 0)),
        (("BatchNormalization", [2, 3, 4, 4], zeros(3), zeros(3), zeros(3), zeros(3)), (0, 2 * 96)),
        (("GlobalAveragePool", [2, 3, 4, 4]), (0, 96)),
        (("ReduceSum", [2, 3]), (0, 6)),
        (("Det", [5, 6, 6]), (5 * 72, 0)),
        (("LayerNormalization", [2, 8], zeros(8), zeros(8)), (0, 7 * 16)),
    ],
)  # fmt: skip
def test_work_of_one_node(node: tuple[Any, ...], expected: tuple[int, int]) -> None:
    attributes = {"group": 2} if node[0] == "Conv" else {}
    found = cost(*node, **attributes)

    assert (found.macs, found.other_ops) == expected


@pytest.mark.parametrize(
    ("equation", "inputs", "expected"),
    [
        ("bij,bjk->bik", ([2, 3, 4], [2, 4, 5]), 2 * 3 * 4 * 5),
        ("...ij,...jk->...ik", ([7, 2, 3, 4], [7, 2, 4, 5]), 14 * 3 * 4 * 5),
        ("bij,bjk", ([2, 3, 4], [2, 4, 5]), 2 * 3 * 4 * 5),
        ("i,j->ij", ([3], [4]), 0),
        ("ij->ji", ([3, 4],), 0),
        ("ij,jk,kl->il", ([2, 3], [3, 4], [4, 5]), 2 * 3 * 4 * 5 * 2),
    ],
)
def test_work_of_einsum(equation: str, inputs: tuple[list[int], ...], expected: int) -> None:
    assert cost("Einsum", *inputs, equation=equation).macs == expected


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_work_scales_with_the_steps(op_type: str, gates: int) -> None:
    found = {
        steps: cost(op_type, [steps, 3, 10], zeros(2, gates * 8, 10), zeros(2, gates * 8, 8),
                    hidden_size=8, direction="bidirectional").macs
        for steps in (1, 5, 50)
    }  # fmt: skip

    assert found == {steps: steps * 3 * 2 * gates * 8 * (10 + 8) for steps in (1, 5, 50)}


def test_attention_multiplies_queries_keys_and_values() -> None:
    four = cost("Attention", [2, 8, 5, 16], [2, 4, 7, 16], [2, 4, 7, 12])
    three = cost("Attention", [2, 5, 128], [2, 7, 64], [2, 7, 48], q_num_heads=8, kv_num_heads=4)
    past = cost("Attention", [2, 8, 5, 16], [2, 8, 7, 16], [2, 8, 7, 12], None, [2, 8, 3, 16], [2, 8, 3, 12], outputs=3)

    assert four.macs == three.macs == 2 * 8 * 5 * 7 * (16 + 12)
    assert past.macs == 2 * 8 * 5 * 10 * (16 + 12)
    assert past.output_shapes == ((2, 8, 5, 12), (2, 8, 10, 16), (2, 8, 10, 12))


def test_fused_attention_includes_its_projections() -> None:
    found = cost("Attention", [2, 5, 24], zeros(24, 72), zeros(72), domain=MICROSOFT, num_heads=3)

    assert found.macs == 2 * 5 * 24 * 72 + 2 * 3 * 5 * 5 * (8 + 8)
    assert found.params == 24 * 72 + 72
    assert found.output_shapes == ((2, 5, 24),)


def test_multi_head_and_group_query_attention() -> None:
    multi = cost("MultiHeadAttention", [2, 5, 24], [2, 7, 24], [2, 7, 24], domain=MICROSOFT, num_heads=3)
    group = cost("GroupQueryAttention", [2, 5, 32], [2, 5, 16], [2, 5, 16], [2, 2, 6, 8], [2, 2, 6, 8], None, None,
                 domain=MICROSOFT, num_heads=4, kv_num_heads=2, outputs=3)  # fmt: skip

    assert multi.macs == 2 * 3 * 5 * 7 * 16
    assert group.macs == 2 * 4 * 5 * 11 * 16
    assert group.output_shapes == ((2, 5, 32), (2, 2, 11, 8), (2, 2, 11, 8))


def test_quantized_operators_do_the_work_of_the_float_ones() -> None:
    image, weights = zeros(1, 3, 8, 8, dtype=np.uint8), zeros(4, 3, 3, 3, dtype=np.int8)
    scale, zero, zero8 = np.array(1, np.float32), zeros(dtype=np.uint8), zeros(dtype=np.int8)
    float_conv = cost("Conv", [1, 3, 8, 8], zeros(4, 3, 3, 3), zeros(4))
    conv = cost("QLinearConv", image, scale, zero, weights, scale, zero8, scale, zero, zeros(4, dtype=np.int32))
    integer = cost("ConvInteger", image, weights)
    matmul = cost(
        "QLinearMatMul", zeros(5, 6, dtype=np.uint8), scale, zero, zeros(6, 7, dtype=np.int8), scale, zero8, scale, zero
    )

    assert conv.macs == integer.macs == float_conv.macs
    assert (
        matmul.macs == cost("MatMulInteger", zeros(5, 6, dtype=np.uint8), zeros(6, 7, dtype=np.int8)).macs == 5 * 6 * 7
    )


def test_parameters_of_a_quantized_node_are_those_of_the_float_one_in_fewer_bytes() -> None:
    scale, zero, zero8 = np.array(1, np.float32), zeros(dtype=np.uint8), zeros(4, dtype=np.int8)
    scales = zeros(4)
    weights, bias = zeros(4, 3, 3, 3, dtype=np.int8), zeros(4, dtype=np.int32)
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "ws", "wz", "s", "z", "b"], ["y"])
    stored = [("s", scale), ("z", zero), ("w", weights), ("ws", scales), ("wz", zero8), ("b", bias)]
    (found,) = costs(model_of([node], {"x": ([1, 3, 8, 8], "uint8")}, ["y"], stored))

    assert found.params == 4 * 27 + 4  # neither scales nor zero points are learned
    assert found.weight_bytes == 4 * 27 + 4 * 4 + 4 * 4 + 4 + 4 + 1


def test_int4_weights_take_half_a_byte() -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [64, 32], np.zeros(64 * 32, np.int64))
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"])
    (found,) = costs(model_of([node], {}, ["y"], [packed, ("s", np.array(1, np.float32))]))

    assert found.params == 64 * 32
    assert found.weight_bytes == 64 * 32 // 2 + 4
    assert found.activation_bytes == 64 * 32 * 4


def test_matmul_of_few_bits_counts_what_is_packed() -> None:
    """K 64 in two blocks of 32, 4 bits: (N, 2, 16) bytes."""
    packed = zeros(10, 2, 16, dtype=np.uint8)
    found = cost("MatMulNBits", [3, 64], packed, zeros(20), domain=MICROSOFT, K=64, N=10, bits=4, block_size=32)

    assert found.macs == 3 * 64 * 10
    assert found.params == 64 * 10
    assert found.weight_bytes == 64 * 10 // 2 + 20 * 4
    assert found.output_shapes == ((3, 10),)


@pytest.mark.parametrize(
    ("fused", "plain"),
    [
        (("FusedConv", [1, 3, 8, 8], zeros(4, 3, 3, 3)), ("Conv", [1, 3, 8, 8], zeros(4, 3, 3, 3))),
        (("FusedMatMul", [2, 3, 4], zeros(4, 5)), ("MatMul", [2, 3, 4], zeros(4, 5))),
        (("FusedGemm", [3, 4], zeros(4, 5)), ("Gemm", [3, 4], zeros(4, 5))),
    ],
)
def test_fused_operators_do_the_work_of_the_plain_ones(fused: tuple[Any, ...], plain: tuple[Any, ...]) -> None:
    one, other = cost(*fused, domain=MICROSOFT), cost(*plain)

    assert one.macs == other.macs > 0
    assert one.output_shapes == other.output_shapes


def test_fused_matmul_turns_its_operands() -> None:
    found = cost("FusedMatMul", [2, 4, 3], [2, 5, 4], domain=MICROSOFT, transA=1, transB=1)

    assert found.macs == 2 * 3 * 5 * 4
    assert found.output_shapes == ((2, 3, 5),)


@pytest.mark.parametrize(
    ("op_type", "inputs", "shape"),
    [
        ("SkipLayerNormalization", ([2, 5, 8], [2, 5, 8], zeros(8)), (2, 5, 8)),
        ("BiasGelu", ([2, 5, 8], zeros(8)), (2, 5, 8)),
        ("FastGelu", ([2, 5, 8],), (2, 5, 8)),
        ("DynamicQuantizeMatMul", ([3, 4], zeros(4, 5, dtype=np.int8), zeros(5)), (3, 5)),
    ],
)
def test_other_fused_operators_are_known(op_type: str, inputs: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    found = cost(op_type, *inputs, domain=MICROSOFT)

    assert found.output_shapes == (shape,)
    assert found.other_ops > 0


def test_embedding_layer_normalization() -> None:
    ids = zeros(2, 5, dtype=np.int32)
    found = cost("EmbedLayerNormalization", ids, ids, zeros(9, 8), zeros(16, 8), zeros(2, 8), zeros(8), zeros(8), None,
                 domain=MICROSOFT, outputs=2)  # fmt: skip

    assert found.output_shapes == ((2, 5, 8), (2,))
    assert found.params == 9 * 8 + 16 * 8 + 2 * 8 + 8 + 8


def test_dynamic_lstm() -> None:
    w, r, zero = zeros(1, 10, 32, dtype=np.int8), zeros(1, 8, 32, dtype=np.int8), zeros(1, dtype=np.int8)
    left_out = [None] * 4
    scales = (zeros(1), zero, zeros(1), zero)
    found = cost(
        "DynamicQuantizeLSTM", [6, 2, 10], w, r, zeros(1, 64), *left_out, *scales, domain=MICROSOFT, hidden_size=8
    )

    assert found.macs == 6 * 2 * 4 * 8 * (10 + 8)
    assert found.params == 32 * 10 + 32 * 8 + 64
    assert found.output_shapes == ((6, 1, 2, 8),)


def test_statistics_and_scalars_are_no_parameters() -> None:
    norm = cost("BatchNormalization", [2, 3, 4, 4], zeros(3), zeros(3), zeros(3), zeros(3))
    scalar = cost("Mul", [2, 3], np.array(2, np.float32))
    one = cost("Mul", [2, 3], zeros(1))
    shape = cost("Reshape", [2, 3], np.array([6]))

    assert (norm.params, scalar.params, one.params, shape.params) == (6, 0, 0, 0)
    assert (norm.weight_bytes, scalar.weight_bytes, shape.weight_bytes) == (48, 4, 8)


RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Operators, and how many matrices of the size of the state each of them has."""


@pytest.mark.parametrize("operator", RECURRENT)
def test_outputs_that_are_left_out_take_no_memory(operator: str) -> None:
    """Of a recurrent layer, the states of all steps are often left out: 4 numbers of 4 bytes are made here."""
    gates = RECURRENT[operator]
    stored = [zeros(1, gates * 4, 3), zeros(1, gates * 4, 4)]
    whole = cost(operator, [5, 1, 3], *stored, outputs=("all", "last"), hidden_size=4)
    last = cost(operator, [5, 1, 3], *stored, outputs=("", "last"), hidden_size=4)
    assert (whole.activation_bytes, last.activation_bytes) == ((5 + 1) * 4 * 4, 4 * 4)


def test_an_output_that_is_left_out_before_others_takes_no_memory() -> None:
    found = cost("TopK", [2, 8], np.array([3]), outputs=("", "places"))
    assert found.activation_bytes == 2 * 3 * 8


def body(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, "b", inputs, [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs])


def test_loops_count_as_often_as_they_run_and_nested_ones_multiply() -> None:
    def loop(name: str, trips: str, inner: list[onnx.NodeProto], x: str, y: str) -> onnx.NodeProto:
        given = [
            helper.make_tensor_value_info(f"{name}_i", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"{name}_c", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"{name}_v", FLOAT, None),
        ]
        nodes = [*inner, helper.make_node("Identity", [f"{name}_c"], [f"{name}_c2"], name=f"{name}_condition")]
        return helper.make_node(
            "Loop", [trips, "", x], [y], name=name, body=body(nodes, given, f"{name}_c2", f"{name}_v2")
        )

    product = helper.make_node("MatMul", ["in_v", "w"], ["in_v2"], name="product")
    inner = loop("in", "three", [product], "out_v", "out_v2")
    outer = loop("out", "five", [inner], "x", "y")
    stored = [("w", zeros(4, 4)), ("three", np.array(3)), ("five", np.array(5))]
    found = {node.name: node for node in costs(model_of([outer], {"x": ([2, 4], "float32")}, ["y"], stored))}

    assert found["product"].runs == 15
    assert found["product"].macs == 15 * 2 * 4 * 4
    assert found["product"].path == "out.body/in.body"
    assert found["product"].params == 16
    assert list(found) == ["out", "in", "product", "in_condition", "out_condition"]


def test_of_branches_that_are_not_known_the_one_with_more_macs_counts() -> None:
    once = body([helper.make_node("MatMul", ["x", "w"], ["t"], name="once")], [], "t")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("MatMul", ["h", "w"], ["e"], name="second"),
    ]
    top = helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0, name="top")
    flag = helper.make_node("Cast", ["top"], ["flag"], to=TensorProto.BOOL, name="flag")
    choice = helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=once, else_branch=body(nodes, [], "e"))
    found = {
        node.name: node
        for node in costs(model_of([top, flag, choice], {"x": ([2, 4], "float32")}, ["y"], [("w", zeros(4, 4))]))
    }

    assert [found[name].macs for name in ("once", "first", "second")] == [0, 32, 32]
    assert [found[name].runs for name in ("once", "first", "second")] == [0, 1, 1]
    assert found["second"].path == "choice.else_branch"


def test_scans_count_each_step() -> None:
    given = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("state", "row")]
    inner = [
        helper.make_node("Gemm", ["row", "w"], ["p"], name="p"),
        helper.make_node("Add", ["state", "p"], ["next"], name="n"),
    ]
    scan = helper.make_node(
        "Scan", ["start", "x"], ["last"], name="scan", body=body(inner, given, "next"), num_scan_inputs=1
    )
    inputs = {"start": ([1, 6], "float32"), "x": ([9, 1, 4], "float32")}
    found = {node.name: node for node in costs(model_of([scan], inputs, ["last"], [("w", zeros(4, 6))]))}

    assert found["p"].macs == 9 * 4 * 6
    assert found["n"].other_ops == 9 * 6


def test_unknown_operators_are_unknown_and_the_rest_is_counted() -> None:
    nodes = [
        helper.make_node("Magic", ["x"], ["m"], domain="my.own", name="magic"),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
        helper.make_node("MatMul", ["m", "w"], ["z"], name="lost"),
    ]
    found = {
        node.name: node for node in costs(model_of(nodes, {"x": ([2, 4], "float32")}, ["y", "z"], [("w", zeros(4, 4))]))
    }

    assert {name: (node.known, node.macs) for name, node in found.items()} == {
        "magic": (False, 0),
        "product": (True, 32),
        "lost": (False, 0),
    }
