"""Trains ESPCN on eleven photographs and writes its weights: `python models/super_resolution/train.py`.

The same seed and the same number of threads on the same versions give the same weights, bit for bit; with another
number of threads sums are rounded otherwise. Needs `pip install 'inferometer[train]'`.

Shapes: N batch, C channels (1), H height and W width of the low-resolution patch or image.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from bench.api import Task
from bench.plugins import catalog

SCALE = 3
BATCH = 32
PATCH = 24
"""Side of a low-resolution patch, in pixels."""
LEARNING_RATE = 1e-3
WARMUP_STEPS = 200
PYRAMID = (1.0, 0.8, 0.6)
"""Each photograph is used at these sizes: smaller ones have sharper detail."""
FLAT = 8.0
"""Standard deviation, in grey levels, below which a patch is redrawn, twice at most."""

Pair = tuple[np.ndarray, np.ndarray]


def make_pairs(photographs: Any) -> list[Pair]:
    """Pairs of a low-resolution uint8 image (H, W) and its original (3H, 3W), several sizes of each photograph."""
    from PIL import Image

    pairs = []
    for _, image_HW in photographs.training_photographs():
        height, width = image_HW.shape
        for factor in PYRAMID:
            size = (int(width * factor) // SCALE * SCALE, int(height * factor) // SCALE * SCALE)
            hr_HW = np.asarray(Image.fromarray(image_HW).resize(size, Image.Resampling.BICUBIC))
            pairs.append((photographs.downscale(hr_HW), hr_HW))
    return pairs


def draw_patch(pairs: list[Pair], odds: np.ndarray, random: np.random.Generator) -> Pair:
    """A random patch, rather a textured one, turned and mirrored at random."""
    for _ in range(3):
        lr_HW, hr_HW = pairs[random.choice(len(pairs), p=odds)]
        top, left = (int(random.integers(0, side - PATCH + 1)) for side in lr_HW.shape)
        lr_patch = lr_HW[top : top + PATCH, left : left + PATCH]
        if lr_patch.std() > FLAT:
            break
    hr_patch = hr_HW[top * SCALE : (top + PATCH) * SCALE, left * SCALE : (left + PATCH) * SCALE]
    turns, mirrored = int(random.integers(4)), bool(random.integers(2))
    lr_patch, hr_patch = np.rot90(lr_patch, turns), np.rot90(hr_patch, turns)
    return (lr_patch[:, ::-1], hr_patch[:, ::-1]) if mirrored else (lr_patch, hr_patch)


def draw_batch(pairs: list[Pair], odds: np.ndarray, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """BATCH patches (N, 1, H, W) and their originals (N, 1, 3H, 3W), float32 in [0, 1]."""
    patches = [draw_patch(pairs, odds, random) for _ in range(BATCH)]
    lr_NCHW, hr_NCHW = (np.stack(images)[:, None].astype(np.float32) / 255 for images in zip(*patches, strict=True))
    return torch.from_numpy(lr_NCHW), torch.from_numpy(hr_NCHW)


def initialize(model: nn.Module) -> None:
    """Orthogonal weights, as in PyTorch's ONNX tutorial."""
    for name, layer in model.named_children():
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight, 1.0 if name == "conv4" else nn.init.calculate_gain("relu"))


def learning_rate(step: int, steps: int) -> float:
    """A linear warm-up under half a cosine that falls to almost nothing."""
    return LEARNING_RATE * min(1, (step + 1) / WARMUP_STEPS) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-6


def train(model: nn.Module, pairs: list[Pair], steps: int, seed: int) -> None:
    """Adam on the mean squared error."""
    random = np.random.default_rng(seed)
    # Odds by the square root of the area: large photographs weigh more, but do not drown the others.
    odds = np.sqrt([lr_HW.size for lr_HW, _ in pairs])
    odds /= odds.sum()
    optimizer = torch.optim.Adam(model.parameters())
    start = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        lr_NCHW, hr_NCHW = draw_batch(pairs, odds, random)
        loss = nn.functional.mse_loss(model(lr_NCHW.to(memory_format=torch.channels_last)), hr_NCHW)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 1000 == 0:
            print(f"step {step + 1}: loss {loss.item():.6f}, {time.monotonic() - start:.0f} s", flush=True)


def print_quality(task: Task, model: nn.Module) -> None:
    """PSNR and SSIM of bicubic interpolation and of the network, for each held-out photograph and their mean."""
    samples = task.samples("test")
    with torch.no_grad():
        espcn = model.eval()(torch.from_numpy(samples.inputs["lr"])).numpy()
    bicubic = task.bicubic("test")["hr"]  # type: ignore[attr-defined]
    rows = {name: slice(at, at + 1) for at, name in enumerate(samples.names)} | {"mean": slice(None)}
    print(f"{'':12}{'bicubic':>20}{'ESPCN':>20}")
    for name, rows_of in rows.items():
        columns = []
        for hr_NCHW in (bicubic, espcn):
            metrics = task.metrics({"hr": hr_NCHW[rows_of]}, samples.targets[rows_of])
            columns.append(f"{metrics['psnr_db']:10.2f} dB {metrics['ssim']:.4f}")
        print(f"{name:12}" + "".join(columns))


def main() -> None:
    """Parse the command line, train, save, and print the figures."""
    task = catalog.task("super_resolution")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--out", type=Path, default=task.weights_path, help="safetensors file to write")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    model = task.module("torch_model").Espcn()
    initialize(model)
    model.to(memory_format=torch.channels_last)  # faster on a CPU
    train(model, make_pairs(task.photographs()), options.steps, options.seed)  # type: ignore[attr-defined]
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, options.out)
    print_quality(task, model)


if __name__ == "__main__":
    main()
