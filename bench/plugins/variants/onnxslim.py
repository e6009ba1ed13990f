"""onnxslim: folds constants, fuses patterns and removes repetitions until nothing changes."""

import sys
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx, onnxruntime
from bench.onnxfile.edits.opset import state_own_set

_TIED_BELOW = {"": 1000, "tied": sys.maxsize}
"""Number of elements from which equal constants are not merged, by option; 1000 is the package's default."""


class OnnxSlim(Variant):
    """The slimmed graph; `tied` merges equal weights of any size.

    Folding turns every Identity of a weight into a constant, one for each layer that shares the weight, and by default
    only constants of less than 1,000 elements are merged again. PyTorch's older exporter ties weights by Identities:
    an ALBERT-base of 47 MB grows to 358 MB (onnxslim 0.1.98). With `tied`, or when a `dedup` follows, it takes 47 MB.
    Files whose nodes read weights directly, such as those of the newer exporter, stay as small either way.
    """

    portable = True
    requires = ("onnxslim", "onnxruntime", "onnx")
    options = ("", "tied")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnxslim
        from onnxslim.core.optimization import weight_tying

        onnxruntime.disable_telemetry_events()  # onnxslim folds by running sessions
        # onnxslim reads the limit from $ONNXSLIM_THRESHOLD at import; `slim` has no argument for it.
        weight_tying.THRESHOLD = _TIED_BELOW[option]
        model = onnx.load(source)
        state_own_set(model)
        onnx.save(onnxslim.slim(model), target)
        return {"tied_below": _TIED_BELOW[option]}
