"""From probabilities to labels, and how far labels are from the truth.

Shapes: N samples, T steps, K classes (0 is blank).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLANK = 0


def greedy_labels(probabilities_NTK: np.ndarray) -> list[list[int]]:
    """The best class of each step, repeats merged and then blanks dropped: a double letter needs a blank in between.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006, section 3.2, best path decoding.
    """
    best_NT = probabilities_NTK.argmax(axis=2)
    changes_NT = np.ones(best_NT.shape, bool)
    changes_NT[:, 1:] = best_NT[:, 1:] != best_NT[:, :-1]
    keep_NT = changes_NT & (best_NT != BLANK)
    return [best_T[keep_T].tolist() for best_T, keep_T in zip(best_NT, keep_NT, strict=True)]


def edit_distance(found: Sequence[int], expected: Sequence[int]) -> int:
    """The fewest insertions, deletions and substitutions that make one the other.

    Source: Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals", 1966, by the usual
    dynamic programme, a row at a time.
    """
    previous = list(range(len(expected) + 1))
    for row, label in enumerate(found, start=1):
        current = [row]
        for column, other in enumerate(expected, start=1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (label != other)))
        previous = current
    return previous[-1]
