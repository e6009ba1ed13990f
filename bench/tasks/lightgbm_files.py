"""Checks LightGBM's text file of a model before LightGBM opens it, which trusts every count and place in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import files
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import trees

HEADER = b"tree\n"
END = b"end of trees"
_PARAMETERS = (b"\nparameters:", b"\nend of parameters\n")
"""The lines around the parameters of the training, which follow the trees."""
_BARE = ("", "tree", "average_output")
"""Lines that are no fields with a value."""
_PARAMETER = re.compile(rb"\[[^:\]]*:.*\]")
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_DECIMAL = re.compile(r"[+-]?([0-9.]+([eE][+-]?[0-9]+)?|nan|inf)")
"""How LightGBM writes numbers. Of a whole number, it reads no further than to the first character that is no digit."""
_FEATURE = re.compile(rf"none|\[{_DECIMAL.pattern}:{_DECIMAL.pattern}\]|{_NUMBER.pattern}(:{_NUMBER.pattern})*")
"""What the header tells of the values of a column: nothing, its least and largest, or its categories."""
_LINE_ENDS = (b"\r", b"\0")
"""Characters that end a line for LightGBM, which writes neither."""
_PER_NODE = ("split_feature", "threshold", "left_child", "right_child")
"""Fields of a tree that have a number for each of its inner nodes; of the others, those that are there do."""
_PER_NODE_OPTIONAL = ("split_gain", "decision_type", "internal_value", "internal_weight", "internal_count")
_PER_LEAF_OPTIONAL = ("leaf_weight", "leaf_count")
_WHOLE = (
    *("split_feature", "left_child", "right_child", "decision_type", "internal_count", "leaf_count"),
    *("cat_boundaries", "cat_threshold", "num_features", "leaf_features"),
)
"""Fields of a tree that LightGBM reads as whole numbers."""
_CATEGORICAL = 1
"""The bit of a decision that compares categories."""
_MISSING = 0b1100
"""The bits that say which values are missing; the largest of the four kinds is none."""
_Fields = Mapping[str, str]


def check(path: Path) -> None:
    """Refuse a file whose counts do not fit one another, or whose places are outside of what they point to.

    Raises:
        InputError: the message names the tree and the field.
    """
    content = files.read_bytes(path)
    if not content.startswith(HEADER):
        raise InputError("it does not begin with the line 'tree'")
    for sign in _LINE_ENDS:
        if sign in content:
            raise InputError(f"it holds the character {sign.decode()!r}, at which LightGBM ends a line; it writes none")
    begin = content.find(b"\nTree=")
    end = content.find(b"\n" + END)
    if end < 0:
        raise InputError(f"it ends early: it has no line {END.decode()!r}")
    if b"\nTree=" in content[end:] or b"\n" + END in content[end + 1 :]:
        raise InputError(f"it has trees behind the line {END.decode()!r}")
    _check_parameters(content, end)
    head = _fields(content[: begin if 0 <= begin < end else end], "its header")
    columns = _count(head, "max_feature_idx", "its header", least=0) + 1
    trees.check_columns(columns, len(content), "its max_feature_idx says that it has columns:")
    for key in ("feature_names", "feature_infos"):
        if (num_items := len(_words(_text(head, key, "its header")))) != columns:
            raise InputError(f"its {key} has {num_items:,} items, and max_feature_idx says {columns:,}")
    for item in _words(head["feature_infos"]):
        if not _FEATURE.fullmatch(item):
            raise InputError(
                f"its feature_infos have the item {item[:40]!r}; none, [low:high] or categories are allowed"
            )
    blocks = _blocks(content, head, begin + 1 if 0 <= begin < end else end + 1, end + 1)
    _check_groups(head, len(blocks))
    for at, block in enumerate(blocks):
        whole, _, rest = block.partition(b"\n\n")  # LightGBM reads no further than to an empty line
        if rest.strip():
            raise InputError(f"its tree {at} has an empty line before its end, where LightGBM writes none")
        _check_tree(_fields(whole, f"tree {at}", bare=()), f"its tree {at}", columns)


def _check_parameters(content: bytes, end: int) -> None:
    """Check the parameters of the training, where there are any, of which LightGBM reads each line as `[key: value]`.

    Raises:
        InputError: they are elsewhere than behind the trees, do not end, or are of another form.
    """
    begin = content.find(_PARAMETERS[0])
    if begin < 0:
        return
    lines, mark, _ = content[begin + len(_PARAMETERS[0]) :].partition(_PARAMETERS[1])
    if begin < end or not mark:
        raise InputError(f"it ends early: it has no line {_PARAMETERS[1].decode().strip()!r} behind its trees")
    for line in lines.split(b"\n"):
        if line and not _PARAMETER.fullmatch(line):
            raise InputError(
                f"its parameters have the line {line[:40].decode(errors='replace')!r}; [key: value] is allowed"
            )


def _blocks(content: bytes, head: _Fields, begin: int, end: int) -> list[bytes]:
    """The texts of the trees: of the sizes that the header says, where it says any.

    Raises:
        InputError: the sizes do not fit the trees.
    """
    if "tree_sizes" not in head:
        return [] if begin == end else re.split(rb"(?m)(?=^Tree=)", content[begin:end])[1:]
    sizes_field = "tree_sizes of its header"
    sizes = _whole(_parsed(_words(head["tree_sizes"]), _NUMBER, sizes_field), sizes_field)
    if (sizes <= 0).any() or int(sizes.sum()) != end - begin:
        raise InputError(
            f"its tree_sizes say that its trees have {int(sizes.sum()):,} bytes, and they have {end - begin:,}"
        )
    blocks = []
    for at, size in enumerate(sizes.tolist()):
        blocks.append(content[begin : begin + size])
        if not blocks[-1].startswith(b"Tree=%d\n" % at):
            raise InputError(f"its tree_sizes do not fit its trees: no tree {at} begins where they say")
        begin += size
    return blocks


def _check_groups(head: _Fields, num_trees: int) -> None:
    classes = _count(head, "num_class", "its header", least=1)
    groups = _count(head, "num_tree_per_iteration", "its header", least=1)
    most = num_trees or trees.FREE_GROUPS
    for key, count in (("num_class", classes), ("num_tree_per_iteration", groups)):
        if count > most:
            raise InputError(f"its {key} is {count:,}, and it has {num_trees:,} trees; up to {most:,} are allowed")
    if num_trees % groups or groups not in (1, classes):
        raise InputError(
            f"its {num_trees:,} trees are no rounds of num_tree_per_iteration {groups:,} for {classes:,} classes"
        )
    for class_count in re.findall(r"num_class:([^ ]+)", head.get("objective", "")):  # LightGBM takes the last of them
        if class_count != str(classes):
            raise InputError(f"its objective is of {class_count[:40]} classes, and its num_class is {classes:,}")


def _check_tree(tree: _Fields, what: str, columns: int) -> None:
    leaves = _count(tree, "num_leaves", what, least=1)
    linear = _count(tree, "is_linear", what, least=0) if "is_linear" in tree else 0
    _numbers(tree, "leaf_value", leaves, what)
    if "shrinkage" in tree:
        _numbers(tree, "shrinkage", 1, what)
    if linear:
        _check_linear(tree, leaves, what, columns)
    if leaves == 1:
        return
    numbers = {key: _numbers(tree, key, leaves - 1, what) for key in _PER_NODE}
    numbers |= {key: _numbers(tree, key, leaves - 1, what) for key in _PER_NODE_OPTIONAL if key in tree}
    for key in _PER_LEAF_OPTIONAL:
        if key in tree:
            _numbers(tree, key, leaves, what)
    left, right = (_whole(numbers[key], f"{key} of {what}") for key in ("left_child", "right_child"))
    for key, side in (("left_child", left), ("right_child", right)):
        trees.check_places(side[side >= 0], leaves - 1, f"{key} of {what} names node")
        trees.check_places(~side[side < 0], leaves, f"{key} of {what} names leaf")
    inside = trees.check_tree(left, right, what)
    if not inside.all():
        raise InputError(f"{what} has node {np.flatnonzero(~inside)[0]}, which is below no other")
    at_leaves = np.sort(~np.concatenate([left[left < 0], right[right < 0]]))
    if at_leaves.tolist() != list(range(leaves)):
        raise InputError(f"{what} does not have each of its {leaves:,} leaves once")
    trees.check_places(_whole(numbers["split_feature"], f"split_feature of {what}"), columns, f"{what} compares column")
    _check_categories(tree, numbers, what)


def _check_categories(tree: _Fields, numbers: Mapping[str, np.ndarray], what: str) -> None:
    count = _count(tree, "num_cat", what, least=0)
    decisions = _whole(numbers.get("decision_type", np.zeros(0)), f"decision_type of {what}")
    trees.check_places(decisions, _MISSING, f"decision_type of {what} is")
    compared = numbers["threshold"][(decisions & _CATEGORICAL) > 0] if decisions.size else numbers["threshold"][:0]
    trees.check_places(_whole(compared, f"threshold of {what}"), count, f"threshold of {what} names categories")
    if not count:
        return
    ends = _whole(_numbers(tree, "cat_boundaries", count + 1, what), f"cat_boundaries of {what}")
    if ends[0] != 0 or (np.diff(ends) < 0).any():
        raise InputError(f"cat_boundaries of {what} do not go up from 0")
    _numbers(tree, "cat_threshold", int(ends[-1]), what)


def _check_linear(tree: _Fields, leaves: int, what: str, columns: int) -> None:
    _numbers(tree, "leaf_const", leaves, what)
    counts = _whole(_numbers(tree, "num_features", leaves, what), f"num_features of {what}")
    trees.check_places(counts, columns + 1, f"num_features of {what} is")
    used = _whole(_numbers(tree, "leaf_features", int(counts.sum()), what), f"leaf_features of {what}")
    trees.check_places(used, columns, f"leaf_features of {what} names column")
    _numbers(tree, "leaf_coeff", int(counts.sum()), what)


def _fields(block: bytes, what: str, *, bare: Sequence[str] = _BARE) -> dict[str, str]:
    """The lines of the form `key=value`.

    Raises:
        InputError: they are no text, a line is of another form, or two have one key.
    """
    try:
        lines = block.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is no text in UTF-8") from error
    fields: dict[str, str] = {}
    for line in lines:
        key, sign, value = line.partition("=")
        if (not sign and line not in bare) or (sign and not key):  # LightGBM reads no further, or the value as a key
            raise InputError(f"{what} has the line {line[:40]!r}, which is no field with a value")
        if key in fields and sign:
            raise InputError(f"{what} has the field {key!r} twice")
        fields[key] = value
    return fields


def _text(fields: _Fields, key: str, what: str) -> str:
    if key not in fields:
        raise InputError(f"{what} has no {key}; it is damaged, or ends early")
    return fields[key]


def _count(fields: _Fields, key: str, what: str, *, least: int) -> int:
    text = _text(fields, key, what)
    if not _NUMBER.fullmatch(text) or not least <= int(text) < 2**31:
        raise InputError(f"{key} of {what} is {text[:40]!r}; a whole number from {least} is allowed")
    return int(text)


def _numbers(fields: _Fields, key: str, count: int, what: str) -> np.ndarray:
    """The numbers of a field, which are so many.

    Raises:
        InputError: they are not, or one is no number.
    """
    words = _words(_text(fields, key, what))
    if len(words) != count:
        raise InputError(f"{key} of {what} has {len(words):,} numbers; there must be {count:,}")
    numbers = _parsed(words, _NUMBER if key in _WHOLE else _DECIMAL, f"{key} of {what}")
    if not np.isfinite(numbers).all():
        raise InputError(f"{key} of {what} holds {numbers[~np.isfinite(numbers)][0]:g}; finite numbers are allowed")
    return numbers


def _words(text: str) -> list[str]:
    """The words of a field, which LightGBM splits at spaces alone, any number of them; a name may hold other blanks."""
    return [word for word in text.split(" ") if word]


def _parsed(words: Sequence[str], form: re.Pattern[str], what: str) -> np.ndarray:
    """The values of words, each of which Python and LightGBM read as the same number.

    Raises:
        InputError: a word is not of the form.
    """
    kinds = "whole numbers" if form is _NUMBER else "numbers"
    try:
        for word in words:
            if not form.fullmatch(word):
                raise ValueError(f"{word[:40]!r} is not written in digits, as LightGBM writes {kinds}")
        return np.array([float(word) for word in words], np.float64)
    except ValueError as error:
        raise InputError(f"{what} holds more than {kinds}: {error}") from error


def _whole(numbers: np.ndarray, what: str) -> np.ndarray:
    """The numbers as integers.

    Raises:
        InputError: one is no whole number of 32 bits.
    """
    wrong = ~(np.abs(numbers) < 2**31) | (numbers != np.floor(numbers))
    if wrong.any():
        raise InputError(f"{what} holds {numbers[wrong][0]:g}; whole numbers are allowed")
    return numbers.astype(np.int64)
