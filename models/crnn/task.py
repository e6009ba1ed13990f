"""Text-line recognition: a form-field line of 45 characters read by a convolutional recurrent network.

Shapes: N samples, C channels (1), H = 32 rows and W = 400 columns of the image, T = 50 steps, K = 46 classes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Points, Samples, Task, TensorSpec
from bench.api.errors import InputError
from bench.api.loading import dataset_path, load_module

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    Arrays = Mapping[str, np.ndarray]

HEIGHT, WIDTH = 32, 400
NUM_STEPS, NUM_CLASSES = 50, 46
NUM_CONFIRMING = 6_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """What a line says, as classes (1 to 45) and as text, and whether its font was kept out of training."""

    labels: tuple[int, ...]
    text: str
    is_new_font: bool


class TextLines(Task):
    """CRNN on generated form-field lines."""

    sources = ("torch", "tf")
    inputs = (
        TensorSpec(name="image", dtype="float32", shape=("batch", 1, HEIGHT, WIDTH)),
        TensorSpec(name="flag", dtype="float32", shape=("batch", NUM_STEPS, 2)),
    )
    outputs = (TensorSpec(name="probabilities", dtype="float32", shape=("batch", NUM_STEPS, NUM_CLASSES)),)
    dataset = "form_lines"
    packages = ("numpy", "PIL", "safetensors")
    metric_name = "line_cer"
    higher_is_better = False
    is_error_rate = True
    close = 1e-4
    max_metric_loss = 0.02  # one character in 50 more: of lines of 11 characters about every fifth is then wrong

    def build(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model").build(weights)

    def samples(self, split: str) -> Samples:
        """Images (N, 1, 32, 400) from 0 to 1, and at each step the field's kind, one-hot: words, numbers (N, 50, 2)."""
        return self._samples(self.form_lines().load(split))

    def confirmation(self) -> Samples:
        """6,000 lines in fonts of the training set, of which the first 1,500 are those of the test split."""
        return self._samples(self.form_lines().more(NUM_CONFIRMING))

    def _samples(self, lines: Sequence[Any]) -> Samples:
        import numpy as np

        form_lines = self.form_lines()
        class_of = {character: number for number, character in enumerate(form_lines.ALPHABET, start=1)}
        image_NCHW = np.stack([line.image for line in lines])[:, None].astype(np.float32) / 255
        flag_NTC = np.zeros((len(lines), NUM_STEPS, 2), np.float32)
        for row, line in enumerate(lines):
            flag_NTC[row, :, int(line.is_numeric)] = 1
        targets = [
            Target(labels=tuple(class_of[character] for character in line.text), text=line.text,
                   is_new_font=line.is_new_font)
            for line in lines
        ]  # fmt: skip
        names = tuple(f"{row:04} {line.text}" for row, line in enumerate(lines))
        return Samples(inputs={"image": image_NCHW, "flag": flag_NTC}, targets=targets, names=names)

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """CTC loss a line: minus the logarithm of the probability that the network gives to the right text."""
        ctc = self.module("ctc")
        losses_N = ctc.negative_log_likelihood(outputs["probabilities"], [target.labels for target in targets])
        return float(losses_N.mean())

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """Of lines in fonts of the training set, and of lines in new fonts: three figures each, NaN without a line.

        Returns:
            `line_cer` and `line_cer_new_fonts`: the mean over lines of the edits that mend a line as it is read, over
            the characters that it holds, at most 1; `cer` and `cer_new_fonts`: all edits over all characters;
            `lines_right` and `lines_right_new_fonts`: the share of lines without an error. NaN for the lines of a kind
            if an output of theirs is.
        """
        import numpy as np

        probabilities_NTK = outputs["probabilities"]
        edits_N = np.array(self._edits(probabilities_NTK, targets), np.float64)
        edits_N[np.isnan(probabilities_NTK).any(axis=(1, 2))] = math.nan
        figures = {}
        for suffix, is_new_font in (("", False), ("_new_fonts", True)):
            rows = [row for row, target in enumerate(targets) if target.is_new_font == is_new_font]
            wrong, lengths = edits_N[rows], _lengths([targets[row] for row in rows])
            right = np.where(np.isnan(wrong), math.nan, wrong == 0)
            figures[f"line_cer{suffix}"] = float(np.minimum(wrong / lengths, 1).mean()) if rows else math.nan
            figures[f"cer{suffix}"] = float(wrong.sum() / lengths.sum()) if rows else math.nan
            figures[f"lines_right{suffix}"] = float(right.mean()) if rows else math.nan
        return figures

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """Of each line in a font of the training set, the share of its characters that need no edit."""
        import numpy as np

        rows = [row for row, target in enumerate(targets) if not target.is_new_font]
        kept = [targets[row] for row in rows]
        edits_N = np.array(self._edits(outputs["probabilities"][rows], kept), np.float64)
        values = 1 - np.minimum(edits_N / _lengths(kept), 1)
        return Points(values=values, score=float(values.mean()), most=1.0, rows=rows)

    def _edits(self, probabilities_NTK: np.ndarray, targets: Sequence[Any]) -> list[float]:
        decoding = self.module("decoding")
        return [
            decoding.edit_distance(labels, target.labels)
            for labels, target in zip(decoding.greedy_labels(probabilities_NTK), targets, strict=True)
        ]

    def form_lines(self) -> ModuleType:
        """The module of the data set."""
        assert self.dataset is not None
        return load_module(dataset_path(self.dataset))


def _lengths(targets: Sequence[Target]) -> np.ndarray:
    """Characters of each line, float64 (N)."""
    import numpy as np

    return np.array([len(target.labels) for target in targets], np.float64)
