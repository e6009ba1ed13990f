"""PyTorch's quantization of an exported program (PT2E, by torchao): static, of 8 bits, for x86 processors."""

from __future__ import annotations

from typing import Any

from bench.api import Task
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import torch
from bench.plugins.engines.calibration import calibration_feeds
from bench.plugins.engines.pytorch.exporter import exported


def quantized(model: torch.nn.Module, example: tuple[torch.Tensor, ...], task: Task) -> Any:
    """The exported program of a model in which convolutions and linear layers compute in 8 bits, as a module.

    Raises:
        RefusedError: the model has none of these.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer

    config = x86_inductor_quantizer.get_default_x86_inductor_quantization_config()
    quantizer = x86_inductor_quantizer.X86InductorQuantizer().set_global(config)
    prepared = prepare_pt2e(exported(model, example, task).module(), quantizer)
    for feeds in calibration_feeds(task):
        prepared(*(torch.from_numpy(feeds[spec.name]) for spec in task.inputs))
    converted = convert_pt2e(prepared)
    if not any("quantize_per" in str(node.target) for node in converted.graph.nodes):
        raise RefusedError("the model has no convolution and no linear layer that PT2E quantizes")
    return converted
