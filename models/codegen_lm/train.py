"""Trains the tokenizer and the decoder on Python's standard library: `python models/codegen_lm/train.py`.

It keeps its state every few minutes, beside the weights with the suffix `.training.pt`; the same command goes on from
there. The same seed and number of threads on the same versions give the same files. Needs `pip install
'inferometer[train]'`.

Shapes: N batch, T tokens.
"""

from __future__ import annotations

import argparse
import hashlib
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

from bench.plugins import catalog

TOKENS_A_STEP = 4096
LENGTHS = ((0.6, 256), (0.85, 512), (1.0, 1024))
"""Up to which share of the steps how long the texts are: short ones take less time, long ones teach long contexts."""
MATRIX_RATE = 0.02
OTHER_RATE = 0.003
WARMUP_STEPS = 50
FALL = 0.4
"""Share of the steps, the last ones, over which the learning rate falls to zero."""
KEEP_EVERY_S = 180.0
HELD_OUT = 16
"""One module in so many is measured and not trained on, with `--hold-out`."""


def stream(texts: list[list[int]], generator: np.random.Generator) -> torch.Tensor:
    """All texts once, one after the other in an order drawn by lot."""
    return torch.tensor([token for number in generator.permutation(len(texts)) for token in texts[number]])


class Batches:
    """Windows of the texts, drawn by lot, by the number of the step: so training can go on at any of them."""

    def __init__(self, texts: list[list[int]], seed: int) -> None:
        self._texts, self._seed = texts, seed
        self._pass, self._stream = -1, torch.empty(0)

    def draw(self, step: int, length: int) -> torch.Tensor:
        """int64 (N, T + 1), which hold `TOKENS_A_STEP` tokens and the one that follows each window.

        A pass over all texts is cut into windows of one length at another offset each time. Steps with other lengths
        go on in the same pass.
        """
        total = sum(map(len, self._texts))
        steps_a_pass = (total - 2048) // TOKENS_A_STEP
        number, within = divmod(step, steps_a_pass)
        if number != self._pass:
            generator = np.random.default_rng((self._seed, number))
            self._pass, self._stream = number, stream(self._texts, generator)
            self._offset = int(generator.integers(1024))
            self._order = generator.permutation(steps_a_pass * TOKENS_A_STEP // 1024)
        # Blocks of 1,024 tokens in an order drawn by lot: a batch has windows of several places.
        blocks = self._order[within * (TOKENS_A_STEP // 1024) : (within + 1) * (TOKENS_A_STEP // 1024)]
        starts = [self._offset + 1024 * int(block) + inner for block in blocks for inner in range(0, 1024, length)]
        return torch.stack([self._stream[start : start + length + 1] for start in starts])


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embeddings and the scales.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """
    matrices = [weight for name, weight in model.named_parameters() if ".layers." in name and weight.ndim == 2]
    others = [weight for name, weight in model.named_parameters() if ".layers." not in name or weight.ndim != 2]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.1, momentum=0.95),
        torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def rate(step: int, steps: int) -> float:
    """The learning rate over its highest: it rises, stays, and falls in a straight line."""
    return min(1.0, (step + 1) / WARMUP_STEPS, (1 - step / steps) / FALL)


def train(model: nn.Module, texts: list[list[int]], *, steps: int, seed: int, kept: Path, until: int) -> None:
    """Train up to the step `until`, from the kept state if there is any."""
    batches, chosen = Batches(texts, seed), optimizers(model)
    highest = [optimizer.param_groups[0]["lr"] for optimizer in chosen]
    step, spent_s = 0, 0.0
    digest = hashlib.sha256(repr(texts).encode()).hexdigest()
    asked = {"steps": steps, "seed": seed, "texts": digest}
    if kept.is_file():
        state = torch.load(kept, weights_only=True)
        assert {key: state[key] for key in asked} == asked, f"{kept} is of another training; remove it"
        model.load_state_dict(state["model"])
        for optimizer, own in zip(chosen, state["optimizers"], strict=True):
            optimizer.load_state_dict(own)
        step, spent_s = state["step"], state["spent_s"]
        print(f"goes on at step {step} of {steps}, after {spent_s / 60:.1f} minutes of CPU", flush=True)
    cpu_start, last_kept, losses = time.process_time() - spent_s, time.monotonic(), []

    def keep() -> None:
        state = {
            "model": model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in chosen],
            **asked,
            "step": step,
            "spent_s": time.process_time() - cpu_start,
        }
        unfinished = kept.with_suffix(".unfinished")
        torch.save(state, unfinished)
        unfinished.replace(kept)

    model.train()
    while step < until:
        length = next(length for share, length in LENGTHS if step / steps < share)
        windows = batches.draw(step, length)
        for optimizer, most in zip(chosen, highest, strict=True):
            optimizer.param_groups[0]["lr"] = most * rate(step, steps)
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(windows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in chosen:
            optimizer.step()
        step += 1
        losses.append(loss.item())
        if step % 25 == 0 or step == until:
            minutes = (time.process_time() - cpu_start) / 60
            print(f"step {step}: {np.mean(losses):.4f} nats a token, {minutes:.1f} minutes of CPU", flush=True)
            losses.clear()
        if time.monotonic() - last_kept > KEEP_EVERY_S or step == until:
            keep()
            last_kept = time.monotonic()


def save(model: nn.Module, path: Path) -> None:
    """Write the weights in bfloat16, whole or not at all; the output layer's are the embedding's."""
    unfinished = path.with_suffix(".unfinished")
    tensors = {name: tensor.bfloat16().contiguous() for name, tensor in model.state_dict().items()}
    del tensors["lm_head.weight"]
    save_file(tensors, unfinished, metadata={"format": "pt"})
    unfinished.replace(path)


def bits_per_byte(model: nn.Module, texts: list[list[int]], num_bytes: Any, length: int) -> float:
    """Bits for each byte of the texts, which are cut into windows of one length; each begins with no context."""
    model.eval()
    nats, total = 0.0, 0
    with torch.no_grad():
        for text in texts:
            for start in range(1, len(text), length):
                targets = torch.tensor(text[start : start + length])
                logits = model(torch.tensor([[0, *targets[:-1].tolist()]]))
                nats += float(nn.functional.cross_entropy(logits[0].double(), targets, reduction="sum"))
                total += int(num_bytes[targets.numpy()].sum())
    return nats / np.log(2) / total


def main() -> None:
    """Parse the command line, train, save, and print the figures."""
    task: Any = catalog.task("codegen_lm")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--until", type=int, help="stop after this step, and write nothing but the state to go on from")
    parser.add_argument(
        "--out", type=Path, default=task.weights_path, help="file to write; the tokenizer goes beside it"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold-out", action="store_true", help="measure on a sixteenth of the training modules")
    options = parser.parse_args()
    if options.hold_out and options.out.absolute().parent == task.folder:
        parser.error("--hold-out needs --out in another folder: what it trains is not to replace the weights")

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    modules = task.sources_of_python().load("train")
    held_out = modules[::HELD_OUT] if options.hold_out else []
    texts = [module.text for module in modules if module not in held_out]

    tokens = task.module("tokens")
    model = task.module("torch_model").network()
    tokenizer = tokens.train(texts, model.config.vocab_size)
    ids = list(tokens.encode(tokenizer, texts))
    num_bytes = tokens.num_bytes(tokenizer)
    print(
        f"{len(texts)} modules, {sum(map(len, ids))} tokens of {sum(len(text.encode()) for text in texts)} bytes; "
        f"{sum(weight.numel() for weight in model.parameters())} parameters",
        flush=True,
    )
    until = options.steps if options.until is None else options.until
    kept = options.out.with_suffix(".training.pt")
    train(model, ids, steps=options.steps, seed=options.seed, kept=kept, until=until)
    if until < options.steps:
        return
    tokenizer.save(str(options.out.with_name("tokenizer.json")))
    save(model, options.out)
    model = task.module("torch_model").build(options.out)
    measured = held_out or task.sources_of_python().load("test")
    own = list(tokens.encode(tokenizer, [module.text for module in measured]))
    for length in (256, 1024):
        print(f"{bits_per_byte(model, own, num_bytes, length):.4f} bits a byte in windows of {length}", flush=True)


if __name__ == "__main__":
    main()
