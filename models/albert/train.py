"""Trains the tokenizer and ALBERT on the interface strings and writes both: `python models/albert/train.py`.

The same seed and the same number of threads on the same versions give the same files, bit for bit; with another
number of threads sums are rounded otherwise. Needs `pip install 'inferometer[train]'`.

Shapes: N batch, T tokens, L labels, V vocabulary, E embedding size.
"""

from __future__ import annotations

import argparse
import collections
import io
import math
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Read when torch is imported: a thread that waits for another must not take the core that the other one needs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import sentencepiece
import torch
from safetensors.torch import save_file
from torch import nn

from bench.api import loading
from bench.plugins import catalog

BATCH = 32
LEARNING_RATE = 1e-3
WARMUP_STEPS = 200
AVERAGE = 0.999
"""Share of the old weights in the moving average that is kept, a step."""
ALPHA = 0.2
"""How flat the drawn segmentations are; see `augment.Segmenter`."""
PIECE_LENGTH = 5
"""Characters in the longest piece: longer ones would be whole words of the training texts, which others lack."""
DEPTHS = ((0.55, 1), (0.65, 2), (0.75, 3), (1.0, 6))
"""Up to which share of the steps how many layers are run: few at first, which is several times as fast. All are one
layer, so what it learns is kept when it is run more often."""

Text = tuple[str, int]
"""A text and its label."""


def train_tokenizer(texts: list[str], vocabulary: int) -> bytes:
    """A SentencePiece unigram model; with one thread the same texts give the same bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocabulary,
        max_sentencepiece_length=PIECE_LENGTH,
        character_coverage=1.0,
        num_threads=1,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]"],
        minloglevel=2,
    )
    return model.getvalue()


def start_embeddings(model: nn.Module, texts: list[Text], segmenter: Any) -> None:
    """Begin with what counting says: how much likelier each piece is in a language than in all, one dimension a label.

    From random embeddings the rare pieces are learnt last, which takes several times as long.
    """
    weight_VE = model.albert.embeddings.word_embeddings.weight
    num_labels = model.config.num_labels
    count_VL = np.zeros((len(weight_VE), num_labels))
    for text, label in texts:
        np.add.at(count_VL, (segmenter.all_pieces(text), label), 1)
    share_L = count_VL.sum(axis=0) / count_VL.sum()
    # As if each piece had been seen three times more, over the languages as they come.
    share_VL = (count_VL + 3 * share_L) / (count_VL.sum(axis=1, keepdims=True) + 3)
    log_odds_VL = np.log(share_VL / share_L).clip(-4, 4)
    with torch.no_grad():
        model.albert.embeddings.position_embeddings.weight.normal_(std=0.05)
        weight_VE.normal_(std=0.1)
        weight_VE[:, :num_labels] += torch.from_numpy(log_odds_VL).float() / 2


def draw_batches(texts: list[Text], task: Any, segmenter: Any, generator: random.Random) -> Iterator[tuple[Any, ...]]:
    """All texts once, each made into another one: input_ids (N, T), attention_mask (N, T) and labels (N).

    Texts of about one length come together, so that there is little padding.
    """
    module = loading.load_module(task.path)
    mixer = task.module("augment").TextMixer(by_label(texts))
    examples = []
    for text, label in generator.sample(texts, len(texts)):
        tokens = segmenter.draw(mixer.draw(text, label, generator), generator)
        examples.append(([module.CLS, *tokens[: module.NUM_TOKENS - 2], module.SEP], label))
    batches = []
    for start in range(0, len(examples), 20 * BATCH):
        alike = sorted(examples[start : start + 20 * BATCH], key=lambda example: len(example[0]))
        batches += [alike[at : at + BATCH] for at in range(0, len(alike) - BATCH + 1, BATCH)]
    generator.shuffle(batches)
    for batch in batches:
        input_ids_NT = np.full((BATCH, max(len(tokens) for tokens, _ in batch)), module.PAD, np.int64)
        for row_T, (tokens, _) in zip(input_ids_NT, batch, strict=True):
            row_T[: len(tokens)] = tokens
        ids_NT = torch.from_numpy(input_ids_NT)
        yield ids_NT, (ids_NT != module.PAD).long(), torch.tensor([label for _, label in batch])


def by_label(texts: list[Text]) -> list[list[str]]:
    """Texts in a list for each label."""
    labels = range(1 + max(label for _, label in texts))
    return [[text for text, own in texts if own == label] for label in labels]


def learning_rate(progress: float) -> float:
    """Half a cosine that falls to almost nothing."""
    return LEARNING_RATE * max(0.01, 0.5 + 0.5 * math.cos(math.pi * progress))


def train(model: nn.Module, texts: list[Text], task: Any, segmenter: Any, epochs: int, seed: int) -> dict[str, Any]:
    """AdamW on the cross-entropy, with more and more layers. Returns the moving average of the weights."""
    generator = random.Random(seed)
    start_embeddings(model, texts, segmenter)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    average = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    full_depth, steps, step = model.config.num_hidden_layers, epochs * (len(texts) // BATCH), 0
    start, cpu_start = time.monotonic(), time.process_time()
    model.train()
    for epoch in range(epochs):
        losses = []
        for input_ids_NT, attention_mask_NT, labels_N in draw_batches(texts, task, segmenter, generator):
            progress = step / steps
            model.config.num_hidden_layers = next(depth for until, depth in DEPTHS if progress < until)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(progress) * min(1, (step + 1) / WARMUP_STEPS)
            loss = nn.functional.cross_entropy(model(input_ids_NT, attention_mask_NT), labels_N)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            losses.append(loss.item())
            with torch.no_grad():
                for name, tensor in model.state_dict().items():
                    average[name].lerp_(tensor, 1 - min(AVERAGE, step / (step + 10)))
        print(
            f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, {model.config.num_hidden_layers} layers, "
            f"{time.monotonic() - start:.0f} s, {time.process_time() - cpu_start:.0f} s of CPU",
            flush=True,
        )
    model.config.num_hidden_layers = full_depth
    return average


def save(weights: dict[str, torch.Tensor], path: Path) -> None:
    """Write the weights whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, unfinished)
    unfinished.replace(path)


def print_quality(name: str, model: nn.Module, samples: Any, task: Any) -> None:
    """Loss and metrics on some samples, and which languages are most often taken for which."""
    inputs = [torch.from_numpy(samples.inputs[spec.name]) for spec in task.inputs]
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(*batch) for batch in zip(*(array.split(64) for array in inputs), strict=True)])
    outputs = {"logits": logits.numpy()}
    metrics = task.metrics(outputs, samples.targets)
    print(
        f"{name}: {samples.num_samples} strings, loss {task.loss(outputs, samples.targets):.4f}, "
        + ", ".join(f"{metric} {value:.4f}" for metric, value in metrics.items()),
        flush=True,
    )
    languages, answers = list(task.strings().LANGUAGES), outputs["logits"].argmax(axis=1)
    wrong = collections.Counter(
        f"{languages[label]} as {languages[answer]}"
        for label, answer in zip(samples.targets, answers, strict=True)
        if answer != label
    )
    print("most often wrong: " + ", ".join(f"{pair} {count}" for pair, count in wrong.most_common(8)), flush=True)


def main() -> None:
    """Parse the command line, train, save, and print the figures."""
    task: Any = catalog.task("albert")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--out", type=Path, default=task.weights_path, help="file to write; the tokenizer goes beside it"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold-out", action="store_true", help="train on 7/8 of the messages, measure on the others")
    options = parser.parse_args()
    if options.hold_out and options.out == task.weights_path:
        parser.error("--hold-out needs --out: what it trains is not to replace the weights")

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    data = task.strings()
    labels = {language: number for number, language in enumerate(data.LANGUAGES)}
    held_out, texts = [], []
    for string in data.load("train"):
        if options.hold_out and int(string.message, 16) // 5 % 8 == 0:  # the split itself goes by the remainder of 5
            held_out.append(string)
        else:
            texts.append((string.text, labels[string.language]))

    model = task.module("torch_model").network()
    tokenizer_path = options.out.with_name("tokenizer.model")
    tokenizer_path.write_bytes(train_tokenizer([text for text, _ in texts], model.config.vocab_size))
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer_path))
    segmenter = task.module("augment").Segmenter(tokenizer, ALPHA)
    average = train(model, texts, task, segmenter, options.epochs, options.seed)
    model.load_state_dict(average)
    save(average, options.out)
    if options.hold_out:
        print_quality("held-out messages", model, task.encode(held_out, tokenizer), task)
        return
    print_quality("the whole test split", model, task.encode(data.load("test"), tokenizer), task)
    print_quality("the task's part of it", model, task.samples("test"), task)


if __name__ == "__main__":
    main()
