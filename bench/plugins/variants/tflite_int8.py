"""8-bit TFLite files by Google's AI Edge Quantizer, with a scale for each channel of weights."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.plugins.engines.calibration import calibration_feeds

DYNAMIC, STATIC = "dynamic", "static"


class TfLiteInt8(Variant):
    """`dynamic` rounds activations by their range in each run, `static` by ranges measured on training samples."""

    portable = True
    requires = ("ai_edge_quantizer",)
    extra = "litert"
    formats = ("tflite",)
    options = (DYNAMIC, STATIC)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from ai_edge_quantizer import quantizer, recipe

        tool = quantizer.Quantizer(str(source))
        if option == STATIC:
            ranges, info = _calibrate(tool, source, task)
        else:
            tool.load_quantization_recipe(recipe.dynamic_wi8_afp32())
            ranges, info = None, {}
        result = tool.quantize(ranges, enable_progress_report=False)
        target.write_bytes(result.quantized_model)
        return info


def _calibrate(tool: Any, source: Path, task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load a recipe that leaves inputs and outputs in float32; return the ranges it needs and facts to keep."""
    from ai_edge_quantizer import calibrator, qtyping, recipe, recipe_manager
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.utils import qsv_utils

    manager = recipe_manager.RecipeManager()
    manager.load_quantization_recipe(recipe.static_wi8_ai8())
    for port in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
        manager.add_quantization_config(".*", port, algorithm_key=AlgorithmName.NO_QUANTIZE)
    tool.load_quantization_recipe(manager.get_quantization_recipe())
    feeds = calibration_feeds(task)
    # By default the range is a moving average of the samples' extremes, which cuts off all values beyond it.
    measure = calibrator.Calibrator(str(source), num_threads=1, qsv_update_func=qsv_utils.min_max_update)
    measure.calibrate({"serving_default": feeds}, manager)
    return measure.get_model_qsvs(), {"num_samples": len(feeds)}
