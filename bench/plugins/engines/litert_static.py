"""A TFLite file with the sizes of one request in it, for an engine that takes files of fixed sizes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.errors import ArtifactError
from bench.plugins.engines import litert


def write(path: Path, sizes: Mapping[str, Sequence[int]], target: Path) -> None:
    """Write a copy of a file in which each tensor has the size that LiteRT's interpreter gives it.

    Args:
        path: the file.
        sizes: shapes of the inputs, by the names of the file's signature.
        target: the copy.

    Raises:
        ArtifactError: it has no such input, or no such sizes.
    """
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Without the delegate, which would put one node in the place of several, and leave the sizes between these open.
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=plain)
    inputs, _ = litert.ports(interpreter)
    try:
        for name, size in sizes.items():
            # Sizes that the file fixes it would change, too, and compute something else.
            interpreter.resize_tensor_input(inputs[name]["index"], list(size), strict=True)
        interpreter.allocate_tensors()
    except (KeyError, ValueError, RuntimeError) as error:
        raise ArtifactError(f"the file cannot have the sizes {dict(sizes)}: {error}") from error
    shapes = {each["index"]: [int(dim) for dim in each["shape"]] for each in interpreter.get_tensor_details()}
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    for index, tensor in enumerate(model.subgraphs[0].tensors):
        tensor.shapeSignature = None
        tensor.shape = shapes.get(index, tensor.shape)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(builder.Output())
