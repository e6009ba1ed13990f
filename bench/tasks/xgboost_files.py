"""Checks XGBoost's own file of a model before XGBoost opens it, which trusts every count and place in the file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import files
from bench.api.errors import InputError
from bench.api.messages import shortened
from bench.onnxfile.deferred import np
from bench.tasks import trees, ubjson
from bench.tasks.pretrained_folder import shown

_PER_NODE = (
    *("left_children", "right_children", "parents", "split_indices", "split_conditions", "default_left"),
    *("loss_changes", "sum_hessian"),
)
_ROOTS = (-1, 2**31 - 1)
"""What XGBoost writes for the parent of the root."""
_MOST_CATEGORY = 2**24
_MOST_BITS = 2**28
"""In the tables of categories of all nodes."""
_CATEGORICAL = "c"
"""The type of a column of categories."""
SOFTMAX = "softmax_multiclass_param"
LINEAR, DROPPING, TREES = "gblinear", "dart", "gbtree"
_Object = Mapping[str, Any]


def check(path: Path) -> None:
    """Refuse a file whose counts do not fit one another, or whose places are outside of what they point to.

    Raises:
        InputError: the message names the tree and the field.
    """
    content = files.read_bytes(path)
    learner = _object(_stored(content), "learner", "")
    model = _object(learner, "learner_model_param", "learner")
    columns = _count(model, "num_feature", "learner_model_param")
    trees.check_columns(columns, len(content), "its num_feature says that it has columns:")
    for key in ("feature_names", "feature_types"):
        names = learner.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"its {key} has {shown(names)}; a list of texts is allowed")
        if names and len(names) != columns:
            raise InputError(f"its {key} has {len(names):,} items, and num_feature says {columns:,}")
    classes = _count(model, "num_class", "learner_model_param")
    targets = _count(model, "num_target", "learner_model_param") if "num_target" in model else 1
    groups = max(classes, 1) * max(targets, 1)
    booster = _object(learner, "gradient_booster", "learner")
    rounds = _check_booster(booster, columns, groups, learner.get("feature_types", []))
    _check_best(learner.get("attributes", {}), rounds)
    objective = _object(learner, "objective", "learner")
    class_count = (
        _count(_object(objective, SOFTMAX, "objective"), "num_class", SOFTMAX) if SOFTMAX in objective else classes
    )
    if class_count != classes:
        raise InputError(f"its objective is of {class_count:,} classes, and its num_class is {classes:,}")


def _stored(content: bytes) -> _Object:
    """The object that a file holds in JSON or UBJSON, as XGBoost tells them apart.

    Raises:
        InputError: it holds none.
    """
    if content[:1] != b"{":
        raise InputError(f"it holds no object of JSON or UBJSON, which begins with {{: it begins with {content[:4]!r}")
    try:
        is_binary = content[1:2].isalpha()
        stored = ubjson.read(content) if is_binary else json.loads(content, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its JSON cannot be read: {shortened(' '.join(str(error).split()), 120)}") from error
    assert isinstance(stored, dict)
    return stored


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is there twice")
    return members


def _check_best(attributes: Any, rounds: int) -> None:
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise InputError(f"its attributes has {shown(attributes)}; an object of texts is allowed")
    best = attributes.get("best_iteration")
    if best is not None and not (best.isdecimal() and len(best) < 10 and int(best) < max(rounds, 1)):
        raise InputError(f"its best_iteration is {shown(best)}, and it has {rounds:,} rounds")


def _check_booster(booster: _Object, columns: int, groups: int, kinds: Sequence[str]) -> int:
    """Check what was boosted; returns the number of rounds."""
    name = booster.get("name")
    if name == DROPPING:
        inner = _object(booster, TREES, "gradient_booster")
        rounds = _check_booster({**inner, "name": TREES}, columns, groups, kinds)
        dropped = _numbers(booster, "weight_drop", "gradient_booster")
        count = len(_list(_object(inner, "model", TREES), "trees", "model"))
        if len(dropped) != count:
            raise InputError(f"its weight_drop has {len(dropped):,} numbers, and it has {count:,} trees")
        return rounds
    model = _object(booster, "model", "gradient_booster")
    if name == LINEAR:
        count = len(_numbers(model, "weights", "model"))
        if count != (columns + 1) * groups:
            raise InputError(
                f"its weights has {count:,} numbers; {columns:,} columns and {groups:,} outputs need more or fewer"
            )
        rounds = model.get("boosted_rounds", 1)
        return int(rounds) if isinstance(rounds, int) and 0 <= rounds < 2**31 else 1
    if name != TREES:
        raise InputError(f"its gradient_booster has {shown(name)} for name; {TREES}, {DROPPING} or {LINEAR} is allowed")
    return _check_trees(model, columns, groups, kinds)


def _check_trees(model: _Object, columns: int, groups: int, kinds: Sequence[str]) -> int:
    parameters = _object(model, "gbtree_model_param", "model")
    stored_trees = _list(model, "trees", "model")
    count = _count(parameters, "num_trees", "gbtree_model_param")
    if count != len(stored_trees):
        raise InputError(f"its num_trees is {count:,}, and its trees are {len(stored_trees):,}")
    if groups > max(count, trees.FREE_GROUPS if not count else 1) and not _is_vector(stored_trees):
        raise InputError(f"it has {groups:,} outputs by num_class and num_target, and {count:,} trees")
    of_group = _whole(model, "tree_info", "model")
    if len(of_group) != count:
        raise InputError(f"its tree_info has {len(of_group):,} numbers, and it has {count:,} trees")
    trees.check_places(of_group, groups, "its tree_info names output")
    parallel = _count(parameters, "num_parallel_tree", "gbtree_model_param") if "num_parallel_tree" in parameters else 1
    if parallel > max(count, 1):
        raise InputError(f"its num_parallel_tree is {parallel:,}, and it has {count:,} trees")
    bits = 0
    for at, tree in enumerate(stored_trees):
        if not isinstance(tree, dict):
            raise InputError(f"its tree {at} is {shown(tree)}; an object is allowed")
        bits += _check_tree(tree, f"its tree {at}", columns, groups, kinds)
    if bits > _MOST_BITS:
        raise InputError(f"its nodes compare with up to {bits:,} categories; up to {_MOST_BITS:,} are opened")
    _check_values(model.get("cats"), columns)
    rounds = count // (max(parallel, 1) * (1 if _is_vector(stored_trees) else groups))
    if "iteration_indptr" not in model:
        return rounds
    ends = _whole(model, "iteration_indptr", "model")
    if not len(ends) or ends[0] != 0 or ends[-1] != count or (np.diff(ends) < 0).any():
        raise InputError(f"its iteration_indptr does not go from 0 up to its {count:,} trees")
    return len(ends) - 1


def _is_vector(stored_trees: list[Any]) -> bool:
    """Whether leaves hold a number for each output."""
    parameters = stored_trees[0].get("tree_param") if stored_trees and isinstance(stored_trees[0], dict) else None
    return isinstance(parameters, dict) and str(parameters.get("size_leaf_vector", "1")) not in ("0", "1")


def _check_tree(tree: _Object, what: str, columns: int, groups: int, kinds: Sequence[str]) -> int:
    """Check a tree; returns the number of categories of its tables."""
    parameters = _object(tree, "tree_param", what)
    count = _count(parameters, "num_nodes", f"tree_param of {what}")
    width = _count(parameters, "size_leaf_vector", f"tree_param of {what}") if "size_leaf_vector" in parameters else 1
    if width > 1 and width != groups:
        raise InputError(f"size_leaf_vector of {what} is {width:,}, and it has {groups:,} outputs")
    if count < 1:
        raise InputError(f"{what} has no nodes")
    if _count(parameters, "num_feature", f"tree_param of {what}") > columns:
        raise InputError(f"num_feature of {what} is larger than that of the model, {columns:,}")
    left, right, parents = (_whole(tree, key, what) for key in ("left_children", "right_children", "parents"))
    columns_of = _whole(tree, "split_indices", what)
    for key in _PER_NODE:
        if (size := len(_numbers(tree, key, what))) != count:
            raise InputError(f"{key} of {what} has {size:,} numbers, and num_nodes says {count:,}")
    if (size := len(_numbers(tree, "base_weights", what))) != count * max(width, 1):
        raise InputError(f"base_weights of {what} has {size:,} numbers, and {count * max(width, 1):,} are needed")
    if width > 1:  # the right child of a leaf is the place of its numbers
        trees.check_places(right[left == -1], int((left == -1).sum()), f"right_children of {what} names leaf")
        right = np.where(left == -1, -1, right)
    for key, side in (("left_children", left), ("right_children", right)):
        trees.check_places(side[side != -1], count, f"{key} of {what} names node")
    if (odd := np.flatnonzero((left < 0) != (right < 0))).size:
        raise InputError(f"{what} has node {odd[0]} with one child alone")
    inside = trees.check_tree(left, right, what)
    if parents[0] not in _ROOTS:
        raise InputError(f"parents of {what} names {parents[0]} for the root")
    inner = np.flatnonzero(inside & (left >= 0))
    for side in (left, right):
        if (odd := inner[parents[side[inner]] != inner]).size:
            raise InputError(f"parents of {what} does not fit the children of node {odd[0]}")
    outside = ~inside & ~np.isin(parents, _ROOTS)
    if outside.any() and not _count(parameters, "num_deleted", f"tree_param of {what}"):
        raise InputError(f"{what} has node {np.flatnonzero(outside)[0]}, which is below no other")
    trees.check_places(columns_of[inner], columns, f"{what} compares column")
    if width > 1 and "leaf_weights" in tree:
        leaves = int((left < 0).sum())
        if (size := len(_numbers(tree, "leaf_weights", what))) != leaves * width:
            raise InputError(f"leaf_weights of {what} has {size:,} numbers, and {leaves * width:,} are needed")
    compared = np.zeros(count, np.int64)
    compared[inner] = [int(kinds[column] == _CATEGORICAL) for column in columns_of[inner]] if kinds else -1
    return _check_categories(tree, inner, count, compared, what)


def _check_categories(tree: _Object, inner: np.ndarray, count: int, compared: np.ndarray, what: str) -> int:
    """Check the categories of a tree, where it compares any; returns how many its tables hold.

    Args:
        tree: the tree.
        inner: its nodes that are no leaves.
        count: its nodes in all.
        compared: for each node, whether it compares a column of categories; -1 where the file does not tell.
        what: the tree in messages.
    """
    kinds = _whole(tree, "split_type", what) if "split_type" in tree else np.zeros(count, np.int64)
    if len(kinds) != count:
        raise InputError(f"split_type of {what} has {len(kinds):,} numbers, and num_nodes says {count:,}")
    trees.check_places(kinds, 2, f"split_type of {what} is")
    if (odd := inner[(compared[inner] >= 0) & (kinds[inner] != compared[inner])]).size:
        raise InputError(
            f"split_type of {what} is {kinds[odd[0]]} at node {odd[0]}; by feature_types it must be {compared[odd[0]]}"
        )
    if "split_type" not in tree:
        return 0
    keys = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    values, nodes, begins, sizes = (_whole(tree, key, what) for key in keys)
    if not len(nodes) == len(begins) == len(sizes):
        raise InputError(f"categories_nodes, _segments and _sizes of {what} are not as many")
    trees.check_places(values, _MOST_CATEGORY, f"categories of {what} holds")
    trees.check_places(sizes, len(values) + 1, f"categories_sizes of {what} is")
    trees.check_places(begins, len(values) + 1, f"categories_segments of {what} is")
    if len(nodes) and ((begins + sizes).max() > len(values) or (np.diff(nodes) <= 0).any()):
        raise InputError(
            f"categories_segments or categories_nodes of {what} go beyond the {len(values):,} categories, or back"
        )
    trees.check_places(nodes, count, f"categories_nodes of {what} names node")
    if not np.array_equal(nodes, inner[kinds[inner] == 1]):
        raise InputError(f"categories_nodes of {what} are not the nodes that split_type says")
    tables = (values[begin : begin + size] for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True))
    return sum(int(table.max()) + 1 for table in tables if table.size)


def _check_values(cats: Any, columns: int) -> None:
    """Check the table of the values of categories, where a model has one; those of an empty table are lists."""
    if cats is None:
        return
    if not isinstance(cats, dict):
        raise InputError(f"its cats has {shown(cats)}; an object is allowed")
    ends, order = _whole(cats, "feature_segments", "cats"), _whole(cats, "sorted_idx", "cats")
    stored = _list(cats, "enc", "cats")
    if not len(ends) and not len(order) and not stored:
        return
    if len(ends) != columns + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(order):
        raise InputError(
            f"its feature_segments does not go from 0 up to its {len(order):,} categories in {columns:,} steps"
        )
    trees.check_places(order, len(order), "its sorted_idx names category")
    if len(stored) != columns:
        raise InputError(f"its enc has {len(stored):,} items, and num_feature says {columns:,}")
    for at, (column, size) in enumerate(zip(stored, np.diff(ends).tolist(), strict=True)):
        if not isinstance(column, dict):
            raise InputError(f"item {at} of its enc is {shown(column)}; an object is allowed")
        if "offsets" in column:
            places = _whole(column, "offsets", f"item {at} of enc")
            values = _numbers(column, "values", f"item {at} of enc")
            is_fitting = len(places) in (0, size + 1) and not (np.diff(places) < 0).any()
            if not is_fitting or (len(places) and (places[0] != 0 or places[-1] != len(values))):
                raise InputError(f"offsets of item {at} of its enc do not fit its values, or its {size:,} categories")
        elif len(_numbers(column, "values", f"item {at} of enc")) != size:
            raise InputError(f"values of item {at} of its enc are not as many as its {size:,} categories")
    if any((np.sort(order[low:high]) != np.arange(high - low)).any() for low, high in itertools.pairwise(ends)):
        raise InputError("its sorted_idx does not name each category of a column once")


def _object(stored: _Object, key: str, where: str) -> _Object:
    value = stored.get(key)
    if not isinstance(value, dict):
        raise InputError(f"its {key}{f' in {where}' if where else ''} is {shown(value)}; an object is allowed")
    return value


def _list(stored: _Object, key: str, where: str) -> list[Any]:
    value = stored.get(key)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, list):
        raise InputError(f"its {key} in {where} is {shown(value)}; a list is allowed")
    return value


def _count(stored: _Object, key: str, where: str) -> int:
    """A whole number, which XGBoost writes as a text."""
    value = stored.get(key)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 2**31):
        raise InputError(f"{key} of {where} is {shown(value)}; a whole number from 0 is allowed")
    return int(text)


def _numbers(stored: _Object, key: str, where: str) -> np.ndarray:
    value = stored.get(key)
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, list) or not all(isinstance(number, int | float) for number in value):
        raise InputError(f"{key} of {where} is {shown(value)}; a list of numbers is allowed")
    try:
        return np.array(value, np.float64)
    except OverflowError as error:
        raise InputError(f"{key} of {where} holds a number beyond what floats hold") from error


def _whole(stored: _Object, key: str, where: str) -> np.ndarray:
    numbers = _numbers(stored, key, where)
    wrong = ~(np.abs(numbers.astype(np.float64)) < 2**31) | (numbers != np.floor(numbers))
    if wrong.any():
        raise InputError(f"{key} of {where} holds {numbers[wrong][0]:g}; whole numbers are allowed")
    return numbers.astype(np.int64)
