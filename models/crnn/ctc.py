"""Connectionist temporal classification: the loss of a labelling, in numpy alone, the same for every runtime.

Shapes: N samples, T steps, K classes (0 is blank), L labels of a target, S = 2L + 1 states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLANK = 0


def negative_log_likelihood(probabilities_NTK: np.ndarray, targets: Sequence[Sequence[int]]) -> np.ndarray:
    """Minus the logarithm of the probability of each target: that all steps spell it, repeats merged, blanks dropped.

    The probabilities are taken as they are: they are those of a softmax, and a second one would flatten them. One too
    small for float32 counts as the smallest normal float32, so that a runtime that flushes to zero has a finite loss.

    Args:
        probabilities_NTK: of each class at each step.
        targets: N sequences of classes, without blanks, repeats included.

    Returns:
        (N,) float64; infinite where T steps cannot hold a target, NaN where a probability is NaN.

    Source: Graves, Fernandez, Gomez, Schmidhuber, "Connectionist Temporal Classification: Labelling Unsegmented
    Sequence Data with Recurrent Neural Networks", ICML 2006: the forward variables of section 4.1, as logarithms.
    """
    smallest = float(np.finfo(np.float32).tiny)
    log_NTK = np.log(np.maximum(probabilities_NTK.astype(np.float64), smallest))
    lengths_N = np.array([len(target) for target in targets])
    # A state for each label, with a blank before, between and after; shorter targets are filled up with blanks, which
    # their own last states never see.
    states_NS = np.full((len(targets), 2 * int(lengths_N.max(initial=0)) + 1), BLANK)
    for row, target in enumerate(targets):
        states_NS[row, 1 : 2 * len(target) : 2] = target
    # A step may pass over a blank only between two different labels: equal ones would merge.
    may_skip_NS = np.zeros(states_NS.shape, bool)
    may_skip_NS[:, 2:] = (states_NS[:, 2:] != BLANK) & (states_NS[:, 2:] != states_NS[:, :-2])

    # Before the first step all probability is in the first blank: from there a step leads to it or to the first label.
    forward_NS = np.full(states_NS.shape, -np.inf)
    forward_NS[:, 0] = 0
    for log_NK in log_NTK.swapaxes(0, 1):
        skipped_NS = np.where(may_skip_NS, _shift(forward_NS, 2), -np.inf)
        arrived_NS = np.logaddexp(np.logaddexp(forward_NS, _shift(forward_NS, 1)), skipped_NS)
        forward_NS = arrived_NS + np.take_along_axis(log_NK, states_NS, axis=1)
    rows, last_N = np.arange(len(targets)), 2 * lengths_N
    # It may end in the last blank or, if the target has any, in the last label.
    label_N = np.where(lengths_N > 0, forward_NS[rows, last_N - 1], -np.inf)
    loss_N = -np.logaddexp(forward_NS[rows, last_N], label_N)
    loss_N[np.isnan(log_NTK).any(axis=(1, 2))] = np.nan  # also where only a class that is not asked for is NaN
    return loss_N


def _shift(forward_NS: np.ndarray, states: int) -> np.ndarray:
    """What comes to each state from that many states before it."""
    shifted_NS = np.full(forward_NS.shape, -np.inf)
    shifted_NS[:, states:] = forward_NS[:, :-states]
    return shifted_NS
