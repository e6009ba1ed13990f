"""Super-resolution: luma of a photograph made three times as high and wide by ESPCN.

The photographs have different sizes, so each is padded at its right and lower edges to one size, and quality is
measured on the part that is not padding.

Shapes: N samples, C channels (1), H height and W width in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Points, Samples, Task, TensorSpec
from bench.api.errors import InputError
from bench.api.loading import find, load_module

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    Arrays = Mapping[str, np.ndarray]

SCALE = 3
SIZE = 224
"""Height and width of every low-resolution sample, padding included."""
BORDER = 3
"""Pixels left out of the metrics on each side, as is usual at scale 3: no method can know what lies outside."""


class SuperResolution(Task):
    """ESPCN x3 on the luma of photographs."""

    sources = ("torch", "tf")
    inputs = (TensorSpec(name="lr", dtype="float32", shape=("batch", 1, "height", "width")),)
    outputs = (TensorSpec(name="hr", dtype="float32", shape=("batch", 1, "hr_height", "hr_width")),)
    one_input = True  # convolutions alone
    dataset = "photographs"
    packages = ("numpy", "PIL", "safetensors")
    metric_name = "psnr_db"
    close = 1e-4
    metric_loss_unit = "dB"
    max_metric_loss = 1.0  # about what the network gains over bicubic interpolation

    def build(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model").build(weights)

    def samples(self, split: str) -> Samples:
        """Low-resolution images (N, 1, 224, 224) in [0, 1] as inputs, the uint8 originals (H, W) as targets."""
        import numpy as np

        # A calibration crop is smaller than the sample: mirrored, it fills the padding with texture, not with stripes.
        mode = "edge" if split == "test" else "symmetric"
        photographs = self.photographs()
        images = photographs.load(split)
        padded = [_pad(photographs.downscale(hr_HW), SIZE, mode) for _, hr_HW in images]
        return Samples(
            inputs={"lr": np.stack(padded)[:, None].astype(np.float32) / 255},
            targets=[hr_HW for _, hr_HW in images],
            names=tuple(name for name, _ in images),
        )

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Mean squared error on the scale 0 to 1, of the outputs as they are over all pixels that are not padding."""
        import numpy as np

        losses = []
        for hr_HW, target_HW in _unpadded(outputs, targets):
            losses.append(np.mean((hr_HW.astype(np.float64) - target_HW / 255.0) ** 2))
        return float(np.mean(losses))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """PSNR in dB and SSIM, each the mean over photographs, of outputs clamped and rounded to 0 to 255."""
        import numpy as np

        quality = self.module("image_quality")
        ssim = [quality.ssim(*pair) for pair in _judged(outputs, targets)]
        return {"psnr_db": self.metric(outputs, targets), "ssim": float(np.mean(ssim))}

    def metric(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """PSNR in dB: the similarity takes twenty times as long."""
        import numpy as np

        return float(np.mean(self._psnr_db(outputs, targets)))

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """The PSNR of each photograph, in dB: a sample is a photograph, for parts of one depend on each other.

        A photograph is taken to lose at most `max_metric_loss`, about what the network gains over bicubic interpolation
        on half of the photographs, unless one lost more.
        """
        import numpy as np

        values = np.array(self._psnr_db(outputs, targets))
        most = self.max_metric_loss
        return Points(
            values=values, score=1.0, most=most, convention=f"a photograph is taken to lose at most {most:g} dB"
        )

    def _psnr_db(self, outputs: Arrays, targets: Sequence[Any]) -> list[float]:
        quality = self.module("image_quality")
        return [quality.psnr_db(*pair) for pair in _judged(outputs, targets)]

    def bicubic(self, split: str) -> Arrays:
        """What bicubic interpolation makes of a split, in the form of the network's outputs: the baseline to beat."""
        import numpy as np

        photographs = self.photographs()
        images = [photographs.upscale_bicubic(photographs.downscale(hr_HW)) for _, hr_HW in photographs.load(split)]
        hr_NCHW = np.stack([_pad(hr_HW, SCALE * SIZE, "edge") for hr_HW in images])[:, None]
        return {"hr": hr_NCHW.astype(np.float32) / 255}

    def photographs(self) -> ModuleType:
        """The module of the data set."""
        found = find("datasets")
        if self.dataset not in found:
            raise InputError(f"{self.name} needs the folder datasets/{self.dataset}, which is not there")
        return load_module(found[self.dataset])


def _pad(image_HW: np.ndarray, size: int, mode: Any) -> np.ndarray:
    import numpy as np

    height, width = image_HW.shape
    return np.pad(image_HW, ((0, size - height), (0, size - width)), mode=mode)


def _judged(outputs: Arrays, targets: Sequence[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of an image, clamped and rounded to 0 to 255, and its original, both (H, W) without their borders."""
    import numpy as np

    inner = slice(BORDER, -BORDER)
    for hr_HW, target_HW in _unpadded(outputs, targets):
        # Rounded but not cast to uint8: a NaN has to stay one.
        image_HW = np.round(np.clip(hr_HW.astype(np.float64), 0, 1) * 255)
        yield image_HW[inner, inner], target_HW[inner, inner]


def _unpadded(outputs: Arrays, targets: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a float image and its uint8 original, both (H, W)."""
    pairs = zip(outputs["hr"][:, 0], targets, strict=True)
    return [(hr_HW[: target_HW.shape[0], : target_HW.shape[1]], target_HW) for hr_HW, target_HW in pairs]
