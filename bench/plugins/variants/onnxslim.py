"""onnxslim: folds constants, fuses patterns and removes repetitions until nothing changes."""

import sys
from pathlib import Path
from typing import Any

from bench.api import Task, Variant

TIED_BELOW = {"": 1000, "tied": sys.maxsize}
"""Elements from which on equal constants are not merged, by option; 1000 is the package's own limit."""


class OnnxSlim(Variant):
    """The slimmed graph; `tied` merges equal weights of any size.

    Folding makes a constant of every Identity that hands on a weight, one for each layer that shares it, and by default
    only those of less than 1,000 elements are merged again. PyTorch's older exporter ties weights by such Identities:
    an ALBERT-base of 47 MB grows to 358 MB (onnxslim 0.1.98). With `tied`, or when a `dedup` follows, it takes 47 MB.
    What was read before without them, such as in a file of the newer exporter, stays as small either way.
    """

    requires = ("onnxslim", "onnxruntime", "onnx")
    options = ("", "tied")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx
        import onnxruntime
        import onnxslim
        from onnxslim.core.optimization import weight_tying

        onnxruntime.disable_telemetry_events()  # it folds by running sessions
        # Read from $ONNXSLIM_THRESHOLD at import, and no argument of `slim`.
        weight_tying.THRESHOLD = TIED_BELOW[option]
        onnx.save(onnxslim.slim(onnx.load(source)), target)
        return {"tied_below": TIED_BELOW[option]}
