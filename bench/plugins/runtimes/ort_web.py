"""onnxruntime-web in a page: WebAssembly with SIMD, on one thread or several."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime, Task
from bench.plugins.engines.browser import deployed
from bench.plugins.engines.browser.runtime import BrowserRuntime


class OrtWeb(BrowserRuntime):
    """Opens ONNX files by their bytes."""

    title = "ONNX Runtime Web"
    requires = ("npm:onnxruntime-web",)
    formats = ("onnx",)
    inspects_with = ("onnxruntime",)
    engine = "ort"

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision in which Python's ONNX Runtime multiplies; JavaScript's, another version, does not tell."""
        from bench.plugins.engines.onnxruntime import precision

        return {"precision": precision.multiplies_in(artifact)}

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        """By the profiler of onnxruntime-web; which tensors a node reads it does not tell."""
        from bench.plugins.engines.onnxruntime import profile

        page, outputs = self._page(threads), [spec.name for spec in task.outputs]
        how = {"session": 0, "artifact": str(artifact), "outputs": outputs, "num_runs": profile.WARM_UPS + num_runs}
        events = json.loads(str(page.ask("profile", how, feeds).fields["trace"]))
        mean = statistics.fmean  # the page's clock ticks every 5 us, and most nodes take less
        return profile.node_times(events, warm_ups=profile.WARM_UPS, num_runs=num_runs, average=mean)

    def page(self, artifact: str, outputs: Sequence[str], *, threads: int) -> Mapping[str, str | Path]:
        return deployed.of_ort(artifact, outputs, provider=self.provider, threads=threads, title=self.title)
