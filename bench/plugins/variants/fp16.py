"""float16 weights and arithmetic; inputs and outputs stay float32."""

from __future__ import annotations

import collections
import math
from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import state_own_set
from bench.onnxfile.edits.order import replace_nodes
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.operators import NCHWC
from bench.onnxfile.shapes.inference import infer


class Fp16(Variant):
    """The conversion of `onnxruntime.transformers.float16`, with workarounds for its limits.

    It is chosen over onnxconverter-common, from which it was copied, because onnxconverter-common (1.16.0) leaves every
    Cast to float32 as it is, so that models from tf2onnx do not load after it. Weights beyond 65,504 are clamped to
    65,504, so a mask of -1e9 still works.

    Three kinds of nodes stay float32: operators that have no float16 form in the file's operator set; integers that are
    floats for a while, such as sizes (float16 cannot hold every integer above 2,048); and nodes that ONNX Runtime
    cannot load in float16.
    """

    portable = True
    requires = ("onnxruntime", "onnx", "onnx_ir")
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from onnxruntime.transformers import float16

        model = settle(onnx.load(source))  # the converter takes the names of nodes to leave alone
        state_own_set(model)  # such as trees alone: the converter adds Casts
        if any(node.domain == NCHWC for node in all_nodes(model)):
            raise RefusedError(
                f"ONNX Runtime has its operators of {NCHWC} in float32 only; convert before they are made"
            )
        floats = _without_float16(model) - float16.ALWAYS_FLOAT_INPUTS.keys()  # the converter keeps these inputs
        _refuse_in_subgraphs(model, {*float16.DEFAULT_OP_BLOCK_LIST, *float16.ALWAYS_FLOAT_INPUTS, *floats})
        float32_names = _counting(model.graph, _state_types(model)) | _crashing(model.graph)
        float32_names |= {node.name for node in model.graph.node if node.op_type in floats}
        model = float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=sorted(float32_names))
        _join_casts(model)
        # The converter casts a weight once for each node that stays float32 and reads it, under one name.
        replace_nodes(model, list({tuple(node.output): node for node in model.graph.node}.values()))
        for graph in all_graphs(model):
            graph.ClearField("value_info")
        if (reason := _refusal(model)) and not _refusal(onnx.load(source)):
            raise ArtifactError(f"the float16 model is not valid: {reason}")
        onnx.save(model, target)
        return {"num_kept": len(float32_names)}


def _refusal(model: onnx.ModelProto) -> str | None:
    """Why onnx refuses a model, or None.

    It refuses those, too, that ONNX Runtime wrote with its own operators among those of onnx.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return None


def _without_float16(model: onnx.ModelProto) -> set[str]:
    """Operators of the model that take or make float32, but not float16, such as DynamicQuantizeLinear."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    used = {(node.domain, node.op_type) for node in all_nodes(model)}
    schemas: dict[tuple[str, str], Any] = {}
    for schema in state.get_all_operator_schema():
        key = (schema.domain, schema.name)
        newest = schemas[key].since_version if key in schemas else 0
        if key in used and newest < schema.since_version <= versions.get(schema.domain, 0):
            schemas[key] = schema
    num_read: dict[tuple[str, str], int] = collections.defaultdict(int)
    for node in all_nodes(model):
        key = (node.domain, node.op_type)
        num_read[key] = max(num_read[key], len(node.input))
    return {name for (_, name), schema in schemas.items() if _stays(schema, num_read[schema.domain, schema.name])}


def _stays(schema: Any, num_read: int) -> bool:
    """Whether an operator takes float32 and not float16, or makes float32 of strings as TfIdfVectorizer does.

    Args:
        num_read: inputs that the nodes have at most; others of the operator do not count.
    """
    inputs = schema.inputs[:num_read]
    takes_strings = any("tensor(string)" in parameter.types for parameter in inputs)
    return any(map(_is_float_alone, (*inputs, *(schema.outputs if takes_strings else ()))))


def _is_float_alone(parameter: Any) -> bool:
    """Whether an input or output of an operator may be float32, but not float16."""
    return "tensor(float)" in parameter.types and "tensor(float16)" not in parameter.types


def _refuse_in_subgraphs(model: onnx.ModelProto, operators: set[str]) -> None:
    """Refuse operators in subgraphs that must stay float32: the converter puts every Cast into the main graph."""
    inner = {node.op_type for graph in list(all_graphs(model))[1:] for node in graph.node}
    if names := sorted(inner & operators):
        raise RefusedError(f"a Loop, If or Scan holds {', '.join(names)}, which would have to stay float32 in there")


def _state_types(model: onnx.ModelProto) -> set[str]:
    """State which values are float32: the converter casts only values whose type it knows.

    onnx infers no type behind operators of other domains, such as those of ONNX Runtime.

    Returns:
        Names of the float32 values of the main graph.
    """
    graph = model.graph
    values = infer(Stored(model=model, path=None), {}).values
    floats = {name for name, value in values.items() if value.dtype == onnx.TensorProto.FLOAT}
    unstated = floats - {value.name for value in (*graph.value_info, *graph.output)}
    for name in dict.fromkeys(name for node in graph.node for name in node.output):
        if name in unstated:
            graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return floats


def _counting(graph: onnx.GraphProto, floats: set[str]) -> set[str]:
    """Names of the nodes in which integers are floats for a while: from a Cast to the nodes that make integers."""
    scalars = {tensor.name for tensor in graph.initializer if math.prod(tensor.dims) == 1}
    constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
    scalars |= {name for name, node in constants.items() if math.prod(node.attribute[0].t.dims) == 1}
    counted: set[str] = set()
    counting = []
    for node in graph.node:
        read = floats.intersection(node.input)
        starts = node.op_type == "Cast" and not read and node.output[0] in floats
        if starts or (counted & read and read <= counted | scalars):
            counting.append(node)
            counted |= floats.intersection(node.output)
    needed: set[str] = set()
    names = set()
    for node in reversed(counting):
        if floats.isdisjoint(node.output) or needed.intersection(node.output):
            names.add(node.name)
            needed |= floats.intersection(node.input)
    return names | {constants[name].name for name in needed & constants.keys()}


def _crashing(graph: onnx.GraphProto) -> set[str]:
    """Names of the Transposes that take the first of three or more axes elsewhere, right before a MatMul.

    ONNX Runtime follows a null pointer when it loads a float16 one on an x86 processor (microsoft/onnxruntime#28392, in
    1.31.1 as before).
    """
    read_by_matmul = {name for node in graph.node if node.op_type == "MatMul" for name in node.input}
    orders = {
        node.name: list(attribute.ints)
        for node in graph.node
        if node.op_type == "Transpose" and node.output[0] in read_by_matmul
        for attribute in node.attribute
    }
    return {name for name, order in orders.items() if len(order) > 2 and order[0] != 0}


def _join_casts(model: onnx.ModelProto) -> None:
    """Let nodes that stay float32 read one another directly: the converter rounds to float16 between them."""

    def casts(to: int) -> list[onnx.NodeProto]:
        cast_nodes = [node for node in model.graph.node if node.op_type == "Cast"]
        return [node for node in cast_nodes if any(item.name == "to" and item.i == to for item in node.attribute)]

    # The converter gives this name to the output of a node that stays float32.
    narrowing = [node for node in casts(onnx.TensorProto.FLOAT16) if node.input[0] == f"{node.output[0]}_cast_to_fp16"]
    before = {node.output[0]: node.input[0] for node in narrowing}
    widening = [node for node in casts(onnx.TensorProto.FLOAT) if node.input[0] in before]
    direct = {node.output[0]: before[node.input[0]] for node in widening}
    for node in all_nodes(model):
        node.input[:] = [direct.get(name, name) for name in node.input]
