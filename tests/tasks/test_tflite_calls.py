"""TFLite files whose operators name subgraphs: LiteRT would follow them in a circle until its stack ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from bench.api.errors import InputError
from bench.tasks import tflite_calls, tflite_names
from bench.tasks.formats import module_of
from bench.tasks.options import Asked

pytestmark = pytest.mark.framework("litert")


def tensor(name: str, kind: int, buffer: int = 0) -> Any:
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name, [1], kind, buffer
    return made


def graph(operators: Sequence[Any] = (), output: int = 0) -> Any:
    """A subgraph of one input, which it gives back where no operator makes another output."""
    made = schema.SubGraphT()
    made.tensors = [
        tensor("x", schema.TensorType.FLOAT32),
        tensor("y", schema.TensorType.FLOAT32),
        tensor("never", schema.TensorType.BOOL, buffer=1),
    ]
    made.inputs, made.outputs, made.operators, made.name = [0], [output], list(operators), "main"
    return made


def calling(**fields: Any) -> Any:
    """The only operator of a subgraph, with its options."""
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = 0, [0], [1]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def loop(condition: int, body: int) -> Any:
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = condition, body
    return graph([calling(builtinOptionsType=schema.BuiltinOptions.WhileOptions, builtinOptions=options)], output=1)


def written(folder: Path, graphs: Sequence[Any], kind: str = "WHILE") -> Path:
    model, code = schema.ModelT(), schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, kind)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
    false = schema.BufferT()
    false.data = [0]
    model.version, model.subgraphs, model.operatorCodes = 3, list(graphs), [code]
    model.buffers = [schema.BufferT(), false]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    (folder / "model.tflite").write_bytes(bytes(builder.Output()))
    return folder / "model.tflite"


def test_a_loop_that_names_other_subgraphs_runs(tmp_path: Path) -> None:
    """Also one within another, and as many as are allowed."""
    for bodies in (1, 2, tflite_calls.MOST_NESTED - 1):
        graphs = [loop(bodies + 1, at + 1) for at in range(bodies)] + [graph(), graph(output=2)]
        found = module_of("tflite").examine(written(tmp_path, graphs), tmp_path, Asked())
        assert [spec.name for spec in found.outputs] == ["y"]


@pytest.mark.parametrize(
    ("graphs", "says"),
    [
        ([loop(1, 0), graph(output=2)], "its subgraph 0 names itself, or is named by one that it names"),
        (
            [*(loop(at + 1, at + 1) for at in range(30)), graph()],
            "its subgraph 12 names others 524,286 times, counted",
        ),
        ([loop(0, 1), graph()], "its subgraph 0 names itself, or is named by one that it names"),
        ([loop(2, 1), loop(2, 0), graph(output=2)], "its subgraph 0 names itself, or is named by one that it names"),
        ([loop(3, 1), loop(3, 2), loop(3, 1), graph(output=2)], "its subgraph 1 names itself, or is named by one"),
        (
            [loop(1, 7), graph(output=2)],
            "BodySubgraphIndex of operator 0 of its subgraph 0 is subgraph 7, and there are",
        ),
        ([loop(-1, 1), graph()], "CondSubgraphIndex of operator 0 of its subgraph 0 is subgraph -1, and there are 2"),
        (
            [graph([calling()]), graph()],
            "operator 0 of its subgraph 0 is WHILE and has no WhileOptions, which name its",
        ),
        ([*(loop(201, at + 1) for at in range(200)), graph(), graph()], "its subgraph 0 names others more than 100 de"),
    ],
    ids=["self", "twice", "own condition", "each other", "below", "beyond", "negative", "no options", "deep"],
)
def test_a_loop_that_would_end_the_process_is_refused(graphs: Sequence[Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        module_of("tflite").examine(written(tmp_path, graphs), tmp_path, Asked())


@pytest.mark.parametrize("kind", tflite_calls.CALLING)
def test_each_operator_that_names_subgraphs_is_looked_up(kind: str, tmp_path: Path) -> None:
    wanted, fields = tflite_calls.CALLING[kind]
    for field in fields:
        for place, says in (
            (0, "its subgraph 0 names itself"),
            (9, f"{field} of operator 0 of its subgraph 0 is subgr"),
        ):
            options = getattr(schema, f"{wanted}T")()
            for other in fields:
                number = place if other == field else 1
                setattr(options, other[0].lower() + other[1:], [number] if field.endswith("Indices") else number)
            side = "builtinOptions2" if hasattr(schema.BuiltinOptions2, wanted) else "builtinOptions"
            types = schema.BuiltinOptions2 if side[-1] == "2" else schema.BuiltinOptions
            operator = calling(**{side: options, f"{side}Type": getattr(types, wanted)})
            with pytest.raises(InputError, match=says):
                tflite_names.check(written(tmp_path, [graph([operator]), graph()], kind))


def test_all_options_that_name_subgraphs_are_known() -> None:
    """None of the schema's options has another field of subgraphs."""
    known = {wanted: list(fields) for wanted, fields in tflite_calls.CALLING.values()}
    for name in {*vars(schema.BuiltinOptions), *vars(schema.BuiltinOptions2)}:
        fields = [field for field in dir(getattr(schema, name, None)) if "subgraph" in field.lower()]
        assert sorted(fields) == sorted(
            other for field in known.get(name, []) for other in fields if other.startswith(field)
        )
        assert bool(fields) == (name in known)
