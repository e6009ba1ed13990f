"""NNCF's quantization of OpenVINO models: 8-bit weights and activations, with ranges measured on training samples."""

import logging
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.plugins.engines.calibration import calibration_feeds
from bench.plugins.engines.openvino import ir


class NncfInt8(Variant):
    """Quantizes the convolutions, products and LSTMs that NNCF chooses, with a scale for each channel of a weight."""

    portable = True
    requires = ("nncf", "openvino")
    extra = "nncf"
    formats = ("openvino",)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        openvino = ir.import_openvino()  # first: without its telemetry NNCF sends nothing either
        import nncf

        nncf.set_log_level(logging.ERROR)
        model, weights = ir.read(openvino.Core(), source)
        feeds = calibration_feeds(task)
        model = nncf.quantize(
            model,
            nncf.Dataset(feeds),
            preset=nncf.QuantizationPreset.MIXED,
            target_device=nncf.TargetDevice.CPU,
            subset_size=len(feeds),
        )
        num_quantized = sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())
        if not num_quantized:
            raise RefusedError("the file has no operator that NNCF quantizes")
        ir.save(model, target)
        del weights  # the model read that memory until now
        return {"num_fake_quantize": num_quantized, "num_samples": len(feeds)}
