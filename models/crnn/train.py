"""Trains the CRNN on generated form lines and writes its weights: `python models/crnn/train.py`.

The same seed and the same number of threads on the same versions and kind of processor give the same weights, bit for
bit; otherwise sums are rounded in another order. Needs `pip install 'inferometer[torch]'`.

Shapes: N batch, C channels (1), H = 32 rows and W columns of the image (400 or fewer), T = W / 8 steps, K = 46 classes.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any

# Read when torch is imported: a thread that waits for another must not take the core that the other one needs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from bench.api import Task, loading
from bench.plugins import catalog

BATCH = 16
LEARNING_RATE = 2e-3
WARMUP_STEPS = 300
WEIGHT_DECAY = 1e-2
LARGEST_GRADIENT = 5.0
COLUMNS_PER_STEP = 8
FULL_WIDTH = 400
WIDTHS = (208, 304, FULL_WIDTH)
"""Columns that lines are cropped to, each to the first where it fits, in all but the last epoch: two thirds of the
work. The last one is at the full width, that of every later use."""
SPARE = 16
"""Columns of a crop that the drawn part of a line leaves free, at least."""
QUICK_LINES = 500
"""Validation lines that are read after each epoch; all of them at the end."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """A split with its labels as classes. `lines` is what `datasets/form_lines/generate.py` gives."""

    lines: Any
    labels: list[np.ndarray]

    def first(self, count: int) -> Data:
        """The same with only its first lines."""
        lines = self.lines
        cut = {field.name: getattr(lines, field.name)[:count] for field in dataclasses.fields(lines)}
        return Data(lines=dataclasses.replace(lines, **cut), labels=self.labels[:count])


def make_data(generate: Any, split: str) -> Data:
    """Generate a split and prove it to be the recorded one."""
    lines = generate.generate_checked(split)
    class_of = {character: number for number, character in enumerate(generate.lexicon.ALPHABET, start=1)}
    return Data(lines=lines, labels=[np.array([class_of[character] for character in text]) for text in lines.texts])


def image_tensor(images_NHW: np.ndarray) -> torch.Tensor:
    """Grey levels (N, 1, H, W) from 0 to 1, channels last, which is faster on a CPU."""
    image_NCHW = torch.from_numpy(np.ascontiguousarray(images_NHW)).float().div_(255).unsqueeze(1)
    return image_NCHW.to(memory_format=torch.channels_last)


def flag_tensor(is_numeric_N: np.ndarray, steps: int) -> torch.Tensor:
    """The field flag (N, T, 2), one-hot: words, numbers."""
    kind_N = torch.from_numpy(is_numeric_N.astype(np.int64))
    return nn.functional.one_hot(kind_N, 2).float()[:, None].expand(-1, steps, -1).contiguous()


def fitting_widths(data: Data) -> np.ndarray:
    """The width (N,) to crop each line to: its text fits, and so do its labels with a blank in each double letter."""
    steps_N = np.array([len(labels) + int((labels[1:] == labels[:-1]).sum()) for labels in data.labels])
    needed_N = np.maximum(data.lines.widths + SPARE, steps_N * COLUMNS_PER_STEP)
    return np.array(WIDTHS)[np.searchsorted(WIDTHS[:-1], needed_N)]


def draw_batches(width_N: np.ndarray, random: np.random.RandomState) -> list[tuple[np.ndarray, int]]:
    """An epoch: full batches of line numbers with the width of their images, in random order."""
    order = random.permutation(len(width_N))
    batches = []
    for width in WIDTHS:
        group = order[width_N[order] == width]
        batches += [(group[start : start + BATCH], width) for start in range(0, len(group) - BATCH + 1, BATCH)]
    return [batches[place] for place in random.permutation(len(batches))]


def crop(lines: Any, rows: np.ndarray, width: int, random: np.random.RandomState) -> np.ndarray:
    """Images (N, H, `width`) cut at a random place that keeps all of what was drawn."""
    images = []
    for row in rows:
        image_HW, left, drawn = lines.images[row], lines.lefts[row], lines.widths[row]
        start = random.randint(max(0, left + drawn - width), min(left, FULL_WIDTH - width) + 1)
        images.append(image_HW[:, start : start + width])
    return np.stack(images)


def vary_light(image_NCHW: torch.Tensor, random: np.random.RandomState) -> torch.Tensor:
    """Another contrast and brightness for each image."""
    gain, offset = (
        torch.from_numpy(random.uniform(low, high, (len(image_NCHW), 1, 1, 1)).astype(np.float32))
        for low, high in ((0.85, 1.1), (-0.06, 0.06))
    )
    return (image_NCHW * gain + offset).clamp_(0, 1)


def ctc_loss(logits_NTK: torch.Tensor, labels: list[np.ndarray]) -> torch.Tensor:
    """Mean CTC loss a line."""
    num_lines, num_steps = logits_NTK.shape[:2]
    total = nn.functional.ctc_loss(
        logits_NTK.log_softmax(2).transpose(0, 1),
        torch.from_numpy(np.concatenate(labels)),
        torch.full((num_lines,), num_steps),
        torch.tensor([len(label) for label in labels]),
        reduction="sum",
    )
    return total / num_lines


def learning_rate(step: int, steps: int) -> float:
    """A linear warm-up, then half a cosine that falls to almost nothing."""
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return LEARNING_RATE * (0.5 + 0.5 * math.cos(math.pi * done)) + 1e-6


def train(model: Any, data: Data, validation: Data, task: Task, options: argparse.Namespace) -> None:
    """AdamW on the CTC loss; weights are written after each epoch, the last ones stay."""
    random = np.random.RandomState(options.seed)
    width_N = fitting_widths(data)
    plan = [draw_batches(width_N, random) for _ in range(options.epochs - 1)]
    plan.append(draw_batches(np.full(width_N.shape, FULL_WIDTH), random))
    steps = sum(len(batches) for batches in plan)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=WEIGHT_DECAY)
    step, start = 0, time.monotonic()
    for epoch, batches in enumerate(plan, start=1):
        losses = []
        for rows, width in batches:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps)
            image_NCHW = vary_light(image_tensor(crop(data.lines, rows, width, random)), random)
            flag_NTC = flag_tensor(data.lines.is_numeric[rows], width // COLUMNS_PER_STEP)
            loss = ctc_loss(model.logits(image_NCHW, flag_NTC), [data.labels[row] for row in rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
            optimizer.step()
            losses.append(loss.item())
            step += 1
            if step % 100 == 0:
                took = time.monotonic() - start
                print(f"step {step} of {steps}: loss {np.mean(losses[-100:]):.4f}, {took:.0f} s", flush=True)
            if step == options.steps:
                return
        save(model, options.out)
        print(f"epoch {epoch}: {measure(model, validation.first(QUICK_LINES), task)}", flush=True)
        model.train()


def save(model: nn.Module, path: Path) -> None:
    """Write the weights whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, unfinished)
    unfinished.replace(path)


def measure(model: Any, data: Data, task: Task, *, wrong_flag: bool = False) -> str:
    """Character error rate, share of lines without an error, and CTC loss a line, in words."""
    ctc, decoding = task.module("ctc"), task.module("decoding")
    lines = data.lines
    flag_NTC = flag_tensor(lines.is_numeric ^ wrong_flag, FULL_WIDTH // COLUMNS_PER_STEP)
    model.eval()
    with torch.no_grad():
        parts = [
            model(image_tensor(lines.images[start : start + 50]), flag_NTC[start : start + 50]).numpy()
            for start in range(0, len(data.labels), 50)
        ]
    probabilities_NTK = np.concatenate(parts)
    found = decoding.greedy_labels(probabilities_NTK)
    expected = [labels.tolist() for labels in data.labels]
    edits = [decoding.edit_distance(*pair) for pair in zip(found, expected, strict=True)]
    cer, right = sum(edits) / sum(map(len, expected)), edits.count(0) / len(edits)
    loss = ctc.negative_log_likelihood(probabilities_NTK, expected).mean()
    return f"CER {cer:.5f}, lines right {right:.4f}, CTC loss {loss:.4f} ({len(edits)} lines)"


def main() -> None:
    """Parse the command line, train, save, and print the figures."""
    task = catalog.task("crnn")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, help="stop after so many steps, without figures: to try it out")
    parser.add_argument("--out", type=Path, default=task.weights_path, help="safetensors file to write")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.steps is not None and options.out == task.weights_path:
        parser.error("--steps needs --out: what it trains is not to replace the weights")

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    generate = loading.load_module(loading.dataset_path("form_lines").with_name("generate.py"))
    train_data, validation = make_data(generate, "train"), make_data(generate, "validation")
    model = task.module("torch_model").Crnn().to(memory_format=torch.channels_last)
    train(model, train_data, validation, task, options)
    save(model, options.out)
    if options.steps is None:
        print(f"validation: {measure(model, validation, task)}")
        print(f"validation with the wrong flag: {measure(model, validation, task, wrong_flag=True)}")
        print(f"new fonts: {measure(model, make_data(generate, 'new_fonts'), task)}")


if __name__ == "__main__":
    main()
