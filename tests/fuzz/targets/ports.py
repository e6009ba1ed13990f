"""TFLite and OpenVINO files: the names and the places of their tensors, up to the first run."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from bench.tasks import tflite_names
from bench.tasks.formats import openvino as openvino_format
from fuzz import mutations, workplace

INSTRUMENTED = ("bench.tasks.tflite_names", "bench.tasks.tflite_calls", "bench.tasks.formats.openvino")
WEIGHTS = bytes(128)
VALUE = re.compile(rb'="([^"]*)"|>([^<>]+)<')
VALUES = (
    *(
        b"",
        b"-1",
        b"0",
        b"4611686018427387904",
        b"18446744073709551616",
        b"?",
        b"x",
        b"f32",
        b"string",
        b"u4",
        b"boolean",
    ),
    *(b"&#xd800;", b"\xff\xfe", b"&#27;[31m", b"&lt;script&gt;", b"a" * 300, b"1,?,3", b"..3", b"../../etc/passwd"),
)
XML = b"""<?xml version="1.0"?>
<net name="model" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,8" element_type="f32"/>
<output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>8</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1">
<data element_type="f32" shape="8,4" offset="0" size="128"/>
<output><port id="0" precision="FP32"><dim>8</dim><dim>4</dim></port></output></layer>
<layer id="2" name="m" type="MatMul" version="opset1"><data transpose_a="false" transpose_b="false"/>
<input><port id="0" precision="FP32"><dim>-1</dim><dim>8</dim></port>
<port id="1" precision="FP32"><dim>8</dim><dim>4</dim></port></input>
<output><port id="2" precision="FP32" names="y,z"><dim>-1</dim><dim>4</dim></port></output></layer>
<layer id="3" name="y" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>-1</dim><dim>4</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>
"""


def seeds() -> Iterator[bytes]:
    yield XML
    yield _tflite()


def _tflite() -> bytes:
    """A model of one operator, with a signature."""
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema

    model, graph, operator, code = schema.ModelT(), schema.SubGraphT(), schema.OperatorT(), schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.RELU
    code.version = 1
    tensors = []
    for name in (b"x", b"y"):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.shapeSignature, tensor.buffer = name, [1, 4], [-1, 4], 0
        tensors.append(tensor)
    operator.inputs, operator.outputs, operator.opcodeIndex = [0], [1], 0
    graph.tensors, graph.inputs, graph.outputs, graph.operators = tensors, [0], [1], [operator]
    graph.name = b"main"
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
    sides = []
    for name, place in ((b"first", 0), (b"second", 1)):
        side = schema.TensorMapT()
        side.name, side.tensorIndex = name, place
        sides.append(side)
    signature.inputs, signature.outputs = sides[:1], sides[1:]
    model.version, model.subgraphs, model.operatorCodes, model.signatureDefs = 3, [graph], [code], [signature]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def check(content: bytes) -> None:
    with workplace.folder() as path:
        if b"<net" in content:
            _check_openvino(content, path / "model.xml")
        else:
            _check_tflite(content, path / "model.tflite")


def _check_openvino(content: bytes, path: Path) -> None:
    import openvino

    path.write_bytes(content)
    path.with_suffix(".bin").write_bytes(WEIGHTS)
    openvino_format.read(openvino.Core(), path)


def _check_tflite(content: bytes, path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    from bench.plugins.engines.litert import ports

    path.write_bytes(content)
    tflite_names.check(path)
    try:
        interpreter = Interpreter(str(path), num_threads=1)
    except (ValueError, RuntimeError):  # LiteRT refuses the file
        return
    ports(interpreter)


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    if b"<net" not in content:
        return _with_bytes(content, chance)
    for _ in range(chance.choice((1, 1, 2, 3))):
        found = list(VALUE.finditer(content))
        if not found:
            return b""
        match = chance.choice(found)
        side = 1 if match[1] is not None else 2
        content = content[: match.start(side)] + chance.choice(VALUES) + content[match.end(side) :]
    return content if len(content) <= most_bytes else b""


def _with_bytes(content: bytes, chance: random.Random) -> bytes:
    """A TFLite file with a few other bytes; others than small numbers and the bytes of names seldom stay readable."""
    made = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(made)) if made else 0
        made[at : at + 1] = bytes([chance.choice((0, 1, 2, 3, 4, 127, 128, 255, chance.randrange(256)))])
    return bytes(made)


def smaller(content: bytes) -> Iterator[bytes]:
    yield from mutations.smaller_bytes(content)
