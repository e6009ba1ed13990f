"""Which nodes crash onnx's inference of types, or take memory without bounds: those of `bench.onnxfile.file.crashes`.

Each version of each operator that onnx knows is inferred in a process of its own. `types` gives its inputs no type, a
type without elements and a full type, with none, each and all of its attributes. `numbers` gives each attribute of
integers extreme ones, with inputs of several ranks. The script ends with 1 where an operator is not among those known.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from onnx import defs, helper

from bench.onnxfile.file import crashes

NUMBERS = (2**31 - 1, -(2**31), 2**62, -1, -5, 0, 100)
SHAPES: tuple[list[int] | None, ...] = ([4, 4], [2, 3, 4, 4], [], None)
OTHER_SHAPES: tuple[list[int], ...] = ([2], [4, 4], [2, 3, 4, 4], [])
MOST_INPUTS, MOST_OUTPUTS, MOST_BYTES, MOST_S = 4, 3, 1 << 30, 3.0


def value(attribute: Any, number: int = 1) -> Any:
    """A plain value of an attribute's type; None for a type that is left out."""
    tensor = helper.make_tensor("t", onnx.TensorProto.INT64, [1], [max(min(number, 2**63 - 1), -(2**63))])
    plain = {"FLOAT": 1.0, "INT": number, "STRING": "a", "FLOATS": [1.0], "INTS": [number], "STRINGS": ["a"]}
    return (plain | {"TENSOR": tensor, "GRAPH": helper.make_graph([], "g", [], [])}).get(attribute.type.name)


def model(schema: Any, attributes: dict[str, Any], inputs: Sequence[onnx.ValueInfoProto], num_outputs: int) -> bytes:
    """A model of one node."""
    outputs = [onnx.ValueInfoProto(name=f"y{at}") for at in range(num_outputs)]
    node = onnx.NodeProto(op_type=schema.name, domain=schema.domain)
    node.input.extend(each.name for each in inputs)
    node.output.extend(each.name for each in outputs)
    node.attribute.extend(helper.make_attribute(name, each) for name, each in attributes.items() if each is not None)
    opsets = {"": 20, schema.domain: schema.since_version}
    return bytes(
        helper.make_model(
            helper.make_graph([node], "g", inputs, outputs),
            opset_imports=[helper.make_opsetid(*each) for each in opsets.items()],
            ir_version=8,
        ).SerializeToString()
    )


def of_types(schema: Any) -> Iterator[bytes]:
    """Models whose inputs have no type, a type without elements, or a full type."""
    every = list(schema.attributes.values())
    required = [each for each in every if each.required]
    sets = [[], required, every, *([*required, each] for each in every if each not in required)]
    fewest = min(max(schema.min_input, 1), MOST_INPUTS)
    for chosen in sets:
        for count in {1, fewest, min(schema.max_input, fewest + 3)}:
            untyped = [onnx.ValueInfoProto(name=f"x{at}") for at in range(count)]
            empty = [onnx.ValueInfoProto(name=each.name) for each in untyped]
            for each in empty:
                each.type.sequence_type.SetInParent()
            typed = [
                helper.make_tensor_value_info(each.name, 1 + 6 * (at % 2), None) for at, each in enumerate(untyped)
            ]
            for inputs in (untyped, empty, typed):
                num_outputs = max(1, min(schema.max_output, MOST_OUTPUTS))
                yield model(schema, {each.name: value(each) for each in chosen}, inputs, num_outputs)


def of_numbers(schema: Any) -> Iterator[bytes]:
    """Models with an extreme number in one attribute."""
    required = {each.name: value(each) for each in schema.attributes.values() if each.required}
    count = min(max(schema.min_input, 1), MOST_INPUTS)
    for attribute in schema.attributes.values():
        if attribute.type.name not in ("INT", "INTS", "TENSOR"):
            continue
        for number in NUMBERS:
            for first in SHAPES:
                for other in OTHER_SHAPES if count > 1 else OTHER_SHAPES[:1]:
                    inputs = [
                        helper.make_tensor_value_info(f"x{at}", 7 if at == 1 else 1, other if at else first)
                        for at in range(count)
                    ]
                    for num_outputs in {1, max(1, min(schema.max_output, MOST_OUTPUTS))}:
                        yield model(schema, {**required, attribute.name: value(attribute, number)}, inputs, num_outputs)


def is_sound(content: bytes) -> bool:
    """Whether the inference ends in time and in bounded memory, with or without an error."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            signal.setitimer(signal.ITIMER_REAL, MOST_S)
            onnx.shape_inference.infer_shapes(content, data_prop=True)
        except MemoryError:
            code = 1
        except Exception:
            code = 0  # an answer
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def main() -> None:
    """Infer every model, and print the operators that do not end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("types", "numbers"))
    make = {"types": of_types, "numbers": of_numbers}[parser.parse_args().kind]
    num_models, hurt, unknown = 0, set(), set()
    for schema in defs.get_all_schemas_with_history():
        for content in () if schema.deprecated else make(schema):
            num_models += 1
            if not is_sound(content):
                (node,) = onnx.ModelProto.FromString(content).graph.node
                hurt.add(schema.name)
                if not (crashes.hurts(node) or crashes.is_crashing(node)):
                    unknown.add(schema.name)
    print(f"{num_models:,} models; these hurt: {', '.join(sorted(hurt))}")
    print(f"not known: {', '.join(sorted(unknown)) or 'none'}")
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
