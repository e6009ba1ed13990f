"""Put back what an ONNX file states of its outputs where a tool states something else that does not follow either."""

from __future__ import annotations

from pathlib import Path

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import inferred_outputs
from bench.onnxfile.file.lazy import read
from bench.onnxfile.file.stale import contradict, text


def restate(path: Path, source: Path) -> str | None:
    """Give outputs of a file, in place, the shapes that the file before it states, where onnx infers none.

    Tools infer with rules of their own, which may guess: onnxslim lets a Squeeze without axes keep every open size
    (0.1.98). What the file computes is compared when it runs.

    Args:
        path: the file that a tool made of `source`.

    Returns:
        A sentence that says what was put back; None if nothing was.
    """
    before = {value.name: value for value in read(source).model.graph.output}
    model = onnx.load(path, load_external_data=False)
    others = [value for value in model.graph.output if value.name in before and contradict(value, before[value.name])]
    if not others:
        return None
    inferred = inferred_outputs(onnx.ModelProto.FromString(model.SerializeToString()))
    follows = {value.name for value in inferred if value.type.tensor_type.HasField("shape")}
    put_back = [value for value in others if value.name not in follows]
    clauses = []
    for value in put_back:
        clauses.append(
            f"output {value.name!r} is stated as {text(before[value.name])}, as before, not as {text(value)}"
        )
        value.type.tensor_type.shape.CopyFrom(before[value.name].type.tensor_type.shape)
    if not put_back:
        return None
    onnx.save(model, path)
    return f"{'; '.join(clauses)}: its shape does not follow from the nodes"
