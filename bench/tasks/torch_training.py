"""Operators of PyTorch programs that are in training mode or draw random numbers, see `bench.onnxfile.file.training`.

Both kinds of programs name operators whose schemas tell: an argument `train` or `training`, a probability of dropout,
and whether random numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.onnxfile.deferred import torch
from bench.onnxfile.file.training import BY_BATCH, DRAWS, DROPS, NORMALIZES, WRITES, Unsettled

_MODES = ("train", "training")
"""Names of arguments that tell of training mode."""
_SHARES = ("dropout", "dropout_p", "p")
"""Names of arguments that tell which share of values is dropped."""
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""Buffers that a normalization in training mode writes."""
_UPDATES = "_batch_norm_with_update"
"""Part of the names of operators that normalize in training mode without an argument for it."""


def of_program(program: Any) -> Iterator[Unsettled]:
    """Such operators of a `torch.export.ExportedProgram`, those of its branches included, and buffers it writes."""
    signature = program.graph_signature
    buffers = dict(signature.inputs_to_buffers)
    written = list(signature.buffers_to_mutate.values())
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes if node.op == "call_function"):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        schema = node.target._schema
        values = {
            argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()
        }
        values |= dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)) | node.kwargs
        is_random = torch.Tag.nondeterministic_seeded in node.target.tags
        operator = schema.name.partition("::")[2]
        if (effect := _effect(operator, values, is_random=is_random)) is not None:
            kind, name = _module_of(node) or (operator, node.name)
            yield Unsettled(kind=kind, name=name, effect=effect)
        for argument in schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.append(buffers.get(getattr(values.get(argument.name), "name", ""), ""))
    for name in written:
        if name and not name.endswith(_STATISTICS):
            yield Unsettled(kind="buffer", name=name, effect=WRITES)


def _effect(operator: str, values: Mapping[str, Any], *, is_random: bool) -> str | None:
    """What an operator does with these values of its arguments, by name; None where its outputs are settled."""
    is_norm = "batch_norm" in operator
    in_training = any(values.get(name) is True for name in _MODES) or _UPDATES in operator
    if is_norm:
        has_statistics = values.get("running_mean") is not None
        if operator == "batch_norm" and not has_statistics:
            return BY_BATCH if in_training else None
        return NORMALIZES if in_training and has_statistics else None
    if not is_random or any(values.get(name) is False for name in _MODES):
        return None
    shares = [values[name] for name in _SHARES if name in values]
    if not shares:
        return DRAWS
    return None if any(share == 0 for share in shares) else DRAWS if operator == "bernoulli" else DROPS


def _module_of(node: Any) -> tuple[str, str] | None:
    """The class and the path of the module that an operator of a program comes from; None for the whole model."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack or not stack[-1][0]:
        return None
    path, kind = stack[-1]
    return str(getattr(kind, "__name__", kind)).rpartition(".")[2], path


def of_script(model: Any) -> Iterator[Unsettled]:
    """Such operators of a `torch.jit.ScriptModule`, whose mode is a constant: of others, loading sets the mode."""
    for node in _nodes(model.inlined_graph):
        if node.schema() == "(no schema)":
            continue
        arguments = torch._C.parse_schema(node.schema()).arguments
        named_inputs = zip((argument.name for argument in arguments), node.inputs(), strict=False)
        values = {name: _value(value) for name, value in named_inputs}
        operator = node.kind().partition("::")[2]
        # An operator whose mode is decided at each run is in inference, as the module is.
        is_decided = any(name in values and not isinstance(values[name], bool) for name in _MODES)
        effect = None if is_decided else _effect(operator, values, is_random=node.isNondeterministic())
        if effect is not None:
            yield Unsettled(kind=operator, name=_path_of(node), effect=effect)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _value(value: Any) -> Any:
    """The constant that a value of a graph is; the value itself where it is none."""
    return value.toIValue() if value.node().kind() == "prim::Constant" else value


def _path_of(node: Any) -> str:
    """The path of the module whose weights an operator reads, or of its scope; empty where neither is known."""
    for value in node.inputs():
        names, maker = [], value.node()
        while maker.kind() == "prim::GetAttr":
            names.append(maker.s("name"))
            maker = next(maker.inputs()).node()
        if len(names) > 1:
            return ".".join(reversed(names[1:]))
    return str(node.scopeName()).rpartition("/")[2].removeprefix("__module").lstrip(".")
