"""onnxruntime-web in a page, on the graphics card by WebGPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.plugins.engines.browser import deployed
from bench.plugins.engines.browser.runtime import BrowserRuntime

_DEVICES = ("dri/renderD*", "nvidia[0-9]*")
"""Files in `/dev` of graphics cards. Where there is none, SwiftShader imitates an adapter, to verify the outputs."""
_IMITATED = ("--use-webgpu-adapter=swiftshader",)


_ELSEWHERE = "where its nodes run cannot be told: operators that WebGPU has not run in WebAssembly"


def _cards() -> list[str]:
    """The graphics cards of this machine, such as `8086:9a49`; of NVIDIA's own driver, `nvidia0`."""
    if not any(any(Path("/dev").glob(pattern)) for pattern in _DEVICES):
        return []
    cards = []
    for device in sorted(Path("/sys/class/drm").glob("renderD*/device")):
        numbers = [device / name for name in ("vendor", "device")]
        if all(path.is_file() for path in numbers):
            cards.append(":".join(path.read_text().strip().removeprefix("0x") for path in numbers))
    return cards or sorted(path.name for path in Path("/dev").glob(_DEVICES[-1]))


class OrtWebGpu(BrowserRuntime):
    """Opens ONNX files by their bytes; operators that WebGPU has not run in WebAssembly."""

    title = "ONNX Runtime Web on WebGPU"
    requires = ("npm:onnxruntime-web",)
    formats = ("onnx",)
    engine = "ort"
    provider = "webgpu"

    def providers(self) -> tuple[str, ...]:
        return ("webgpu",)

    def one_thread_only(self) -> bool:
        """What is on the graphics card has no threads to choose."""
        return True

    def command(self) -> list[str]:
        is_there = any(any(Path("/dev").glob(pattern)) for pattern in _DEVICES)
        return [*super().command(), "--enable-unsafe-webgpu", *(() if is_there else _IMITATED)]

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """`float32` of a file that has no other products; what WebGPU makes of others it does not tell."""
        from bench.plugins.engines.onnxruntime import precision

        return {"precision": "float32" if precision.is_plain(artifact) else None, "warning": _ELSEWHERE}

    def program_versions(self) -> dict[str, str]:
        """Those of every page, and the graphics cards, by the numbers of their makers and models."""
        return {**super().program_versions(), "graphics": ", ".join(_cards()) or "imitated"}

    def page(self, artifact: str, outputs: Sequence[str], *, threads: int) -> Mapping[str, str | Path]:
        return deployed.of_ort(artifact, outputs, provider=self.provider, threads=threads, title=self.title)
