"""OpenVINO's intermediate representation: an `.xml` file with the `.bin` file of its weights. It holds data alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays
from bench.api.errors import InputError
from bench.plugins.engines.openvino import ir
from bench.tasks import probe, sizes, tf_models, tf_training
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask


def parts(name: str, names: Collection[str], trust: bool) -> list[str]:
    """The file and that of its weights; empty where these are not there."""
    weights = str(Path(name).with_suffix(".bin"))
    return [name, weights] if weights in names else []


FORMAT = Format(described="an OpenVINO .xml file", suffixes=(".xml",), parts=parts)


class OpenVinoTask(OwnTask):
    """An OpenVINO model as it is, with its weights in one archive."""

    sources = ("openvino",)
    requires = ("openvino",)
    extra = "openvino"
    weights = "model.openvino"


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Read the two files, run the model once to learn its outputs, and archive it with plain names.

    Raises:
        InputError: the files hold no model of OpenVINO, an input has no rank, or the model does not run.
    """
    openvino = ir.import_openvino()
    if not path.with_suffix(".bin").is_file():
        raise InputError(f"its weights, {path.with_suffix('.bin').name}, are not beside it")
    core = openvino.Core()
    model, fields = read(core, path)
    with refused("OpenVINO cannot write it again"):
        ir.save(model, folder / OpenVinoTask.weights)
    with refused("OpenVINO cannot compile it"):
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(feeds: Arrays) -> Arrays:
        arrays = compiled(dict(feeds))
        return {port.any_name: arrays[port] for port in compiled.outputs}

    operators = [(node.get_type_name(), node.get_friendly_name()) for node in model.get_ops()]
    facts = sizes.choose(OpenVinoTask, run, probe.specs_of(fields), options)
    return facts.telling(tf_training.of_operators(operators))


def read(core: Any, path: Path) -> tuple[Any, list[tuple[str, str, list[int | None]]]]:
    """The model of a file with plain names, and the name, the type and the sizes of each of its inputs.

    Args:
        core: an `openvino.Core`.
        path: the `.xml` file.

    Raises:
        InputError: the files hold no model of OpenVINO, a name is no text, or an input has no rank.
    """
    with refused("OpenVINO cannot read it"):
        model = core.read_model(path)
        return model, _named(model)


def _named(model: Any) -> list[tuple[str, str, list[int | None]]]:
    """The name, the type and the sizes of each input of a model, which gets plain names; None for an open size.

    Raises:
        InputError: a name is no text, or an input has no rank.
    """
    fields: list[tuple[str, str, list[int | None]]] = []
    for kind, ports in (("input", model.inputs), ("output", model.outputs)):
        names = tf_models.unique([_name(port, f"{kind}_{at}") for at, port in enumerate(ports)])
        for name, port in zip(names, ports, strict=True):
            port.get_tensor().set_names({name})
    for port in model.inputs:
        if port.partial_shape.rank.is_dynamic:
            raise InputError(f"input {port.any_name!r} has no shape")
        shape = [None if dim.is_dynamic else dim.get_length() for dim in port.partial_shape]
        with refused(f"input {port.any_name!r} holds {port.element_type}, which cannot be fed"):
            fields.append((port.any_name, port.element_type.to_dtype().name, shape))
    return fields


def _name(port: Any, otherwise: str) -> str:
    """The name of an input or an output, or another one for those without.

    Raises:
        InputError: the name is no text.
    """
    try:
        return str(port.any_name) if port.names else otherwise
    except UnicodeDecodeError as error:
        raise InputError(f"the name of its {otherwise.replace('_', ' ')} is no text in UTF-8") from error


def write_graph(weights: Path, target: Path, shapes: Mapping[str, Sequence[int]]) -> None:
    """Write the operations of an archived model as nodes of an ONNX file, with inputs of these shapes.

    Raises:
        InputError: the shapes do not fit the model, or ONNX does not have a type of its elements.
    """
    from bench.plugins.engines.openvino import graph

    graph.of_archive(weights, target, shapes)
