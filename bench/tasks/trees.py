"""Checks of decision trees in files of boosters, whose packages follow any child that a file names."""

from __future__ import annotations

from bench.api.errors import InputError
from bench.onnxfile.deferred import np

_FREE_COLUMNS = 2**16
"""Columns of a table that a file of any size may ask for; a larger file may ask for one for each of its bytes."""
FREE_GROUPS = 1000
"""Outputs of a model without trees."""


def check_places(places: np.ndarray, below: int, what: str) -> None:
    """Refuse places that are none.

    Args:
        places: whole numbers.
        below: the places are 0 and more, and less than this.
        what: the field and what its numbers mean, as the message begins.

    Raises:
        InputError: the message has the first of them.
    """
    if (wrong := places[(places < 0) | (places >= below)]).size:
        raise InputError(
            f"{what} {wrong[0]}; from 0 to {below - 1} are allowed" if below else f"{what} {wrong[0]}; it has none"
        )


def check_tree(left: np.ndarray, right: np.ndarray, what: str) -> np.ndarray:
    """Check that nodes make a tree below node 0; returns which of them are in it.

    Args:
        left: the left child of each node, all of them places of nodes; negative where it is no node.
        right: the right child likewise.
        what: the tree in messages.

    Raises:
        InputError: a node is a child twice, or node 0 is one.
    """
    children = np.concatenate([left[left >= 0], right[right >= 0]])
    counts = np.bincount(children, minlength=len(left) or 1)
    if counts.size and counts[0]:
        raise InputError(f"{what} has node 0, its root, as a child")
    if (twice := np.flatnonzero(counts > 1)).size:
        raise InputError(f"{what} has node {twice[0]} as a child {counts[twice[0]]} times")
    inside = np.zeros(len(left), bool)
    level = np.zeros(min(len(left), 1), np.int64)
    while level.size:  # no node is a child twice, so none comes twice
        inside[level] = True
        level = np.concatenate([side[level][side[level] >= 0] for side in (left, right)])
    return inside


def check_columns(count: int, size_bytes: int, what: str) -> None:
    """Refuse a number of columns that no table here has.

    Raises:
        InputError: the message has the figures.
    """
    most = max(_FREE_COLUMNS, size_bytes)
    if not 1 <= count <= most:
        raise InputError(f"{what} {count:,}; 1 to {most:,} columns are made for a file of {size_bytes:,} bytes")
