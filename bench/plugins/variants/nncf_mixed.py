"""A precision for each operator with weights of an OpenVINO model, as the option spells it: `nncf_mixed-5s2f1s`.

`f` leaves an operator as it is; `s` gives it 8-bit weights and activations, with ranges measured on training samples.
Operators without weights go on in 8 bits where they read only what such operators make, or each other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

from bench.api import Info, Part, Task, Variant, mixture
from bench.api.errors import RefusedError
from bench.plugins.engines.calibration import tuning_feeds
from bench.plugins.engines.openvino import ir

OPERATORS = (
    "Convolution", "GroupConvolution", "ConvolutionBackpropData", "MatMul", "LSTMSequence", "GRUSequence", "Gather",
)  # fmt: skip
"""OpenVINO's operators whose weights and activations NNCF quantizes."""
_DATA = ("Parameter", "Constant", "Result")
FLOAT, STATIC = "f", "s"


class NncfMixed(Variant):
    """NNCF's quantization of the chosen operators, with a scale for each channel of a weight."""

    portable = True
    requires = ("nncf", "openvino")
    extra = "nncf"
    formats = ("openvino",)
    options = ()
    letters = {FLOAT: "as it is", STATIC: "int8, activations rounded by ranges measured before"}
    lossy = True

    def parts(self, source: Path, *, task: Task) -> Sequence[Part]:
        openvino = ir.import_openvino()
        model, _weights = ir.read(openvino.Core(), source)
        return list(_parts(model))

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        openvino = ir.import_openvino()  # first: without its telemetry NNCF sends nothing either
        import nncf

        nncf.set_log_level(logging.ERROR)
        model, weights = ir.read(openvino.Core(), source)
        parts = list(_parts(model))
        chosen = mixture.chosen(option, parts)
        if STATIC not in chosen:
            raise RefusedError("every operator stays as it is")
        quantized = {*chosen[STATIC], *_going_on(model, chosen[STATIC], {part.name for part in parts})}
        left = [node.get_friendly_name() for node in model.get_ordered_ops() if node.get_type_name() not in _DATA]
        feeds = tuning_feeds(task)
        model = nncf.quantize(
            model,
            nncf.Dataset(feeds),
            preset=nncf.QuantizationPreset.MIXED,
            target_device=nncf.TargetDevice.CPU,
            subset_size=len(feeds),
            ignored_scope=nncf.IgnoredScope(names=[name for name in left if name not in quantized], validate=False),
        )
        ir.save(model, target)
        del weights  # the model read that memory until now
        return {f"num_{letter}": len(names) for letter, names in chosen.items()}


def _going_on(model: Any, names: Sequence[str], weighted: Set[str]) -> list[str]:
    """Names of the operators without weights that read nothing but constants and what some operators make."""
    inside, followers = {*names}, []
    for node in model.get_ordered_ops():
        read = [port.get_source_output().get_node() for port in node.inputs()]
        sources = [other.get_friendly_name() for other in read if other.get_type_name() != "Constant"]
        name = node.get_friendly_name()
        if sources and node.get_type_name() not in _DATA and name not in weighted and inside.issuperset(sources):
            inside.add(name)
            followers.append(name)
    return followers


def _parts(model: Any) -> Iterator[Part]:
    for node in model.get_ordered_ops():
        if node.get_type_name() not in OPERATORS:
            continue
        shapes = [
            shape for port in node.inputs() if (shape := _stored(port.get_source_output().get_node())) is not None
        ]
        if shapes:
            yield Part(
                name=node.get_friendly_name(),
                operator=node.get_type_name(),
                alike=f"{node.get_type_name()} {' '.join('x'.join(map(str, shape)) for shape in shapes)}",
                letters=FLOAT + STATIC,
                num_weights=sum(map(math.prod, shapes)),
            )


def _stored(node: Any) -> tuple[int, ...] | None:
    """The shape of a stored weight, which may be converted before it is read; None for anything else."""
    if node.get_type_name() == "Convert":
        node = node.input(0).get_source_output().get_node()
    if node.get_type_name() != "Constant":
        return None
    shape = tuple(node.output(0).get_shape())
    return shape if len(shape) > 1 and node.output(0).get_element_type().is_real() else None
