"""Files of XGBoost and LightGBM that hurt: what their packages would follow out of the file is refused by name."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.api.errors import InputError
from bench.tasks import lightgbm_files, ubjson, xgboost_files
from bench.tasks.formats import module_of
from bench.tasks.options import Asked
from fuzz import boosters
from fuzz.targets.boosters import fitting

pytestmark = pytest.mark.framework("xgboost")
Changed = Callable[[Any], None]


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    return list(boosters.seeds())


@pytest.fixture
def text(seeds: list[bytes]) -> bytes:
    """A model of LightGBM with a column of categories."""
    return next(seed for seed in seeds if b"cat_boundaries" in seed)


@pytest.fixture
def stored(seeds: list[bytes]) -> Any:
    """A model of XGBoost with a column of categories, as JSON."""
    return json.loads(next(seed for seed in seeds if b'"feature_types":["q","q","c"]' in seed and seed[1:2] == b'"'))


def refusal(check: Callable[[Path], None], content: bytes, folder: Path) -> str:
    (folder / "model").write_bytes(content)
    begin = time.process_time()
    with pytest.raises(InputError) as raised:
        check(folder / "model")
    assert time.process_time() - begin < 2
    return str(raised.value)


def test_files_of_the_packages_pass(seeds: list[bytes], tmp_path: Path) -> None:
    for seed in seeds:
        (tmp_path / "model").write_bytes(seed)
        (lightgbm_files if seed.startswith(b"tree") else xgboost_files).check(tmp_path / "model")


def test_values_of_categories_pass(tmp_path: Path) -> None:
    import pandas as pd
    import xgboost

    for values in (list("abcde"), [3, 5, 7, 9, 11]):
        table = pd.DataFrame({"x": range(60), "kind": pd.Categorical(values * 12)})
        data = xgboost.DMatrix(table, table.kind.cat.codes * 2 % 3 + table.x % 2, enable_categorical=True)
        booster = xgboost.train({"max_depth": 2, "tree_method": "hist", "verbosity": 0}, data, 2)
        for format in ("json", "ubj"):
            (tmp_path / "model").write_bytes(bytes(booster.save_raw(format)))
            xgboost_files.check(tmp_path / "model")
        changed = json.loads(bytes(booster.save_raw("json")))
        changed["learner"]["gradient_booster"]["model"]["cats"]["feature_segments"][-1] = 99
        said = refusal(xgboost_files.check, dumped(changed), tmp_path)
        assert "its feature_segments does not go from 0 up to its 5 categories" in said


def test_trees_of_several_outputs_pass(tmp_path: Path) -> None:
    import numpy as np
    import xgboost

    features = np.random.default_rng(0).standard_normal((60, 3))
    data = xgboost.DMatrix(features, features[:, :2])
    parameters = {"max_depth": 2, "tree_method": "hist", "multi_strategy": "multi_output_tree", "verbosity": 0}
    (tmp_path / "model").write_bytes(bytes(xgboost.train(parameters, data, 2).save_raw("json")))
    xgboost_files.check(tmp_path / "model")
    changed = json.loads((tmp_path / "model").read_bytes())
    changed["learner"]["gradient_booster"]["model"]["trees"][0]["right_children"][-1] = 99
    assert "right_children of its tree 0 names leaf 99" in refusal(xgboost_files.check, dumped(changed), tmp_path)


def dumped(stored: Any) -> bytes:
    return json.dumps(stored).encode()


@pytest.mark.parametrize("format", ["lightgbm", "xgboost"])
def test_every_file_that_ends_early_is_refused_in_a_sentence(format: str, seeds: list[bytes], tmp_path: Path) -> None:
    """No package opens it: cut anywhere before its end, the check finds what is missing."""
    check = (lightgbm_files if format == "lightgbm" else xgboost_files).check
    for seed in seeds:
        if seed.startswith(b"tree") != (format == "lightgbm"):
            continue
        end = seed.index(b"\nend of parameters") if format == "lightgbm" else len(seed) - 1
        for size in range(0, end, 37):
            if format == "lightgbm" and boosters.TREES in seed[:size] and b"\nparameters:" not in seed[:size]:
                continue  # the trees are whole, and no parameters follow
            assert refusal(check, seed[:size], tmp_path)


@pytest.mark.parametrize(
    ("pattern", "put", "says"),
    [
        (rb"num_leaves=\d+", b"num_leaves=2147483647", "leaf_value of its tree 0 has .* numbers; there must be 2,147,"),
        (rb"num_leaves=\d+", b"num_leaves=-1", "num_leaves of its tree 0 is '-1'; a whole number from 1 is allowed"),
        (rb"left_child=\S+", b"left_child=99", "left_child of its tree 0 names node 99; from 0 to"),
        (rb"right_child=\S+", b"right_child=-99", "right_child of its tree 0 names leaf 98; from 0 to"),
        (rb"left_child=\S+", b"left_child=0", "its tree 0 has node 0, its root, as a child"),
        (rb"split_feature=\S+", b"split_feature=7", "its tree 0 compares column 7; from 0 to 2 are allowed"),
        (rb"threshold=\S+", b"threshold=", "threshold of its tree 0 has . numbers; there must be"),
        (rb"threshold=\S+", b"threshold=x", "threshold of its tree 0 holds more than numbers"),
        (rb"leaf_value=\S+", b"leaf_value=nan", "leaf_value of its tree 0 holds nan; finite numbers are allowed"),
        (rb"cat_boundaries=0 \d+", b"cat_boundaries=0 900", "cat_threshold of its tree 0 has . numbers|do not go up f"),
        (rb"num_cat=\d", b"num_cat=0", "threshold of its tree 0 names categories .; it has none"),
        (rb"\nleaf_value=", b"\n\nleaf_value=", "its tree 0 has an empty line before its end"),
        (rb"leaf_count=", b"leaf_count", "tree 0 has the line 'leaf_count.*', which is no field with a value"),
        (rb"max_feature_idx=2", b"max_feature_idx=2147483646", "it has columns: 2,147,483,647; 1 to 65,536 columns ar"),
        (rb"max_feature_idx=2", b"max_feature_idx=1", "its feature_names has 3 items, and max_feature_idx says 2"),
        (rb"num_class=1", b"num_class=1000000", "its num_class is 1,000,000, and it has 2 trees; up to 2 are allowed"),
        (rb"num_tree_per_iteration=1", b"num_tree_per_iteration=0", "num_tree_per_iteration of its header is '0'"),
        (rb"objective=\S+", b"objective=multiclass num_class:3", "its objective is of 3 classes, and its num_class is"),
        (
            rb"objective=\S+",
            b"objective=multiclass num_class:1 num_class:3",
            "its objective is of 3 classes, and its n",
        ),
        (rb"num_class=1", b"num_class=1\n=num_class=3", "its header has the line '=num_class=3', which is no field"),
        (rb"(num_class=1)", rb"\1\rmax_feature_idx=9", r"it holds the character '\\r', at which LightGBM ends a line"),
        (rb"(num_class=1)", b"\\1\0", r"it holds the character '\\x00', at which LightGBM ends a line"),
    ],
)
def test_a_field_of_lightgbm_that_does_not_fit_is_named(
    pattern: bytes, put: bytes, says: str, text: bytes, tmp_path: Path
) -> None:
    changed = fitting(re.sub(pattern, put, text, count=1))
    assert changed != text
    assert re.search(says, refusal(lightgbm_files.check, changed, tmp_path))


def first(pattern: bytes, put: bytes, text: bytes) -> bytes:
    """A model whose first number of a field is written otherwise, with the same value for Python's float()."""
    found = re.search(rb"\n" + pattern + rb"=(\d+)", text)
    assert found is not None
    value = int(found[1])
    told = put.replace(b"TIMES", b"%d" % (value * 10**8)).replace(b"VALUE", b"%d" % value)
    return fitting(text[: found.start(1)] + told + text[found.end(1) :])


@pytest.mark.parametrize("field", ["left_child", "split_feature", "decision_type", "cat_boundaries", "cat_threshold"])
@pytest.mark.parametrize("put", ["TIMESe-8", "0VALUE.0", "VALUE.", "+VALUE", "VALUE\t", "\u00a0VALUE", "\u0663", "0_0"])
def test_a_whole_number_that_lightgbm_reads_otherwise_is_refused(
    field: str, put: str, text: bytes, tmp_path: Path
) -> None:
    says = refusal(lightgbm_files.check, first(field.encode(), put.encode(), text), tmp_path)
    assert says.startswith(f"{field} of its tree 0 holds more than whole numbers: "), says


@pytest.mark.parametrize(
    ("pattern", "put", "says"),
    [
        (
            rb"\nsplit_feature=\d+",
            b"\nsplit_feature=3000000000e-9",
            "split_feature of its tree 0 holds more than whole",
        ),
        (
            rb"\nnum_leaves=(\d+)",
            "\nnum_leaves=\u0664".encode(),
            "num_leaves of its tree 0 is '\u0664'; a whole number",
        ),
        (
            rb"max_feature_idx=2",
            "max_feature_idx=\u0662".encode(),
            "max_feature_idx of its header is '\u0662'; a whole",
        ),
        (rb"\nnum_leaves=\d+", b"\nnum_leaves=4294967300", "num_leaves of its tree 0 is '4294967300'; a whole number"),
        (rb"\nleft_child=(\S+) ", b"\nleft_child=\\1\t", "left_child of its tree 0 has . numbers; there must be"),
        (rb"\nthreshold=\S+", b"\nthreshold=1_0", "threshold of its tree 0 holds more than numbers: '1_0' is not writ"),
        (rb"\nleaf_value=\S+", "\nleaf_value=\u0661".encode(), "leaf_value of its tree 0 holds more than numbers: "),
        (rb"\ntree_sizes=(\d+)", b"\ntree_sizes=\\1e0", "tree_sizes of its header holds more than whole numbers: '"),
    ],
)
def test_a_number_in_a_form_that_lightgbm_does_not_write_is_refused(
    pattern: bytes, put: bytes, says: str, text: bytes, tmp_path: Path
) -> None:
    changed = re.sub(pattern, put, text, count=1)
    changed = changed if b"tree_sizes" in pattern else fitting(changed)
    assert re.search(says, refusal(lightgbm_files.check, changed, tmp_path))


@pytest.mark.parametrize("name", ["a\u3000b", "a\u00a0b", "a\u2028b", "plain"])
def test_names_of_columns_with_other_blanks_than_a_space_pass(name: str, tmp_path: Path) -> None:
    import lightgbm
    import numpy as np

    features = np.random.default_rng(0).standard_normal((60, 3))
    data = lightgbm.Dataset(features, features[:, 0], feature_name=[name, "c", "d"])
    booster = lightgbm.train({"num_leaves": 4, "verbose": -1, "num_threads": 1}, data, 2)
    booster.save_model(tmp_path / "model")
    lightgbm_files.check(tmp_path / "model")
    lightgbm.Booster(model_file=tmp_path / "model")


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "regression"},
        {"objective": "regression_l1"},
        {"objective": "binary"},
        {"objective": "multiclass", "num_class": 3},
        {"objective": "multiclassova", "num_class": 3},
        {"objective": "regression", "linear_tree": True},
        {"objective": "regression", "boosting": "dart", "drop_rate": 0.9},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"objective": "poisson", "min_data_per_group": 1, "cat_smooth": 0.0},
    ],
)
def test_models_of_each_kind_pass(parameters: dict[str, Any], tmp_path: Path) -> None:
    import lightgbm
    import numpy as np

    chance = np.random.default_rng(0)
    features = chance.standard_normal((200, 3)) * [1e-9, 1e12, 1]
    features[:, 2] = chance.integers(0, 40, 200)
    features[::7, 1] = np.nan
    classes = parameters.get("num_class", 2)
    target = (features[:, 2] + chance.integers(0, 2, 200)) % classes
    own = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "num_leaves": 15}
    categories = [2] if "min_data_per_group" in parameters else []
    data = lightgbm.Dataset(features, target, categorical_feature=categories, params={"verbose": -1})
    booster = lightgbm.train(own | parameters, data, 5)
    assert ("num_cat=0" in booster.model_to_string()) != bool(categories)
    booster.save_model(tmp_path / "model")
    lightgbm_files.check(tmp_path / "model")


@pytest.mark.parametrize("item", [b"[-1.9", b"[1:", b"[:]", b"[0:1", b"]", b"[", b":", b"0:1e300", b"[0:1]:2", b"x"])
def test_values_of_a_column_in_another_form_are_refused(item: bytes, text: bytes, tmp_path: Path) -> None:
    changed = re.sub(rb"feature_infos=[^ \n]+", b"feature_infos=" + item, text)
    assert "its feature_infos have the item" in refusal(lightgbm_files.check, changed, tmp_path)


@pytest.mark.parametrize("item", [b"none", b"[-1.5e-9:inf]", b"[1:1]", b"3", b"-1:0:17"])
def test_values_of_a_column_as_lightgbm_writes_them_pass(item: bytes, text: bytes, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(re.sub(rb"feature_infos=[^ \n]+", b"feature_infos=" + item, text))
    lightgbm_files.check(tmp_path / "model")


@pytest.mark.parametrize("line", [b"x", b"shrinkage=0.1", b"[key]", b"[key: value", b"key: value]"])
def test_parameters_of_another_form_are_refused(line: bytes, text: bytes, tmp_path: Path) -> None:
    changed = text.replace(b"\nparameters:\n", b"\nparameters:\n[seed: 0]\n" + line + b"\n")
    assert "its parameters have the line" in refusal(lightgbm_files.check, changed, tmp_path)
    (tmp_path / "model").write_bytes(text.replace(b"\nparameters:\n", b"\nparameters:\n[seed: 0]\n[data: ]\n"))
    lightgbm_files.check(tmp_path / "model")


def test_sizes_of_trees_that_do_not_fit_are_refused(text: bytes, tmp_path: Path) -> None:
    for sizes in (b"1 1", b"99999999 99999999", b"-5 5", b"x", b"1e300", b""):
        changed = re.sub(rb"tree_sizes=[^\n]*", b"tree_sizes=" + sizes, text)
        assert "tree_sizes" in refusal(lightgbm_files.check, changed, tmp_path)


def tree(stored: Any) -> Any:
    return stored["learner"]["gradient_booster"]["model"]["trees"][0]


def model(stored: Any) -> Any:
    return stored["learner"]["learner_model_param"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: model(s).update(num_feature="2147483647"), "it has columns: 2,147,483,647; 1 to 65,536 columns"),
        (lambda s: model(s).update(num_feature="1"), "its feature_types has 3 items, and num_feature says 1"),
        (lambda s: model(s).update(num_class="1000000000"), "it has 1,000,000,000 outputs by num_class and num_target"),
        (lambda s: model(s).update(num_class=-1), "num_class of learner_model_param is -1; a whole number from 0"),
        (lambda s: model(s).update(num_target="x"), "num_target of learner_model_param is 'x'"),
        (lambda s: tree(s)["tree_param"].update(num_nodes="2147483647"), "has . numbers, and num_nodes says 2,147,483"),
        (lambda s: tree(s)["left_children"].__setitem__(0, 99), "left_children of its tree 0 names node 99; from 0 to"),
        (lambda s: tree(s)["left_children"].__setitem__(0, 0), "its tree 0 has node 0, its root, as a child"),
        (lambda s: tree(s)["left_children"].__setitem__(0, -5), "left_children of its tree 0 names node -5"),
        (lambda s: tree(s)["left_children"].__setitem__(0, 2), "its tree 0 has node 2 as a child 2 times"),
        (lambda s: tree(s)["left_children"].__setitem__(0, -1), "its tree 0 has node 0 with one child alone"),
        (lambda s: tree(s)["parents"].__setitem__(1, 2), "parents of its tree 0 does not fit the children of node 0"),
        (lambda s: tree(s)["split_indices"].__setitem__(0, 7), "its tree 0 compares column 7; from 0 to 2 are allowed"),
        (lambda s: tree(s)["split_conditions"].pop(), "split_conditions of its tree 0 has . numbers, and num_nodes sa"),
        (lambda s: tree(s)["categories"].append(2**30), "categories of its tree 0 holds 1073741824; from 0 to"),
        (lambda s: tree(s)["categories_sizes"].__setitem__(0, 99), "categories_sizes of its tree 0 is 99"),
        (lambda s: tree(s)["categories_nodes"].__setitem__(0, 99), "categories_nodes of its tree 0 (names|go)"),
        (
            lambda s: tree(s)["split_type"].__setitem__(0, 1 - tree(s)["split_type"][0]),
            r"split_type of its tree 0 is 0 at node 0; by feature_types it must be 1",
        ),
        (lambda s: tree(s).update(split_type=[0]), "split_type of its tree 0 has 1 numbers, and num_nodes says"),
        (lambda s: s["learner"]["gradient_booster"].update(name="x"), "its gradient_booster has 'x' for name; gbtree,"),
        (lambda s: s["learner"]["gradient_booster"].update(model=[]), r"its model in gradient_booster is \[\]; an obj"),
        (lambda s: s["learner"]["gradient_booster"]["model"].update(tree_info=[0, 5]), "its tree_info names output 5"),
        (lambda s: s["learner"]["gradient_booster"]["model"].update(iteration_indptr=[0, 99]), "its iteration_indptr"),
        (lambda s: s["learner"].update(attributes={"best_iteration": "99"}), "its best_iteration is '99', and it has"),
        (lambda s: s["learner"].update(attributes={"best_iteration": "x"}), "its best_iteration is 'x'"),
        (lambda s: s["learner"].update(feature_names=5), "its feature_names has 5; a list of texts is allowed"),
        (lambda s: s.update(learner=None), "its learner is None; an object is allowed"),
    ],
)
def test_a_field_of_xgboost_that_does_not_fit_is_named(change: Changed, says: str, stored: Any, tmp_path: Path) -> None:
    change(stored)
    assert re.search(says, refusal(xgboost_files.check, dumped(stored), tmp_path))


def test_json_that_hurts_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for content in (b'{"a":1,"a":2}', b'{"a":' * 3000, b"{", b'{"a": 1', b"{\xff", b'{"a": ' + b"9" * 5000 + b"}"):
        assert "its JSON cannot be read: " in refusal(xgboost_files.check, content, tmp_path)
    for content in (b"[]", b"5", b"junk", b"PK\x03\x04"):
        assert "it holds no object of JSON or UBJSON" in refusal(xgboost_files.check, content, tmp_path)


def length(size: int) -> bytes:
    return b"L" + struct.pack(">q", size)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{" + length(2**62), "it ends early: 4611686018427387904 bytes are missing"),
        (b"{" + length(-1), "it ends early: -1 bytes"),
        (b"{" + length(1) + b"a[$d#" + length(2**60) + b"}", "bytes are missing"),
        (b"{" + length(1) + b"a[#" + length(2**60) + b"}", "an array has 1152921504606846976 items"),
        (b"{" + length(1) + b"a" + b"[" * 90, "nested more than 50 deep"),
        (b"{" + length(1) + b"aX}", "no value begins with 'X'"),
        (b"{" + length(1) + b"aS" + b"T}", "a length is no whole number"),
        (b"{" + length(1) + b"a[$T#" + length(9) + b"}", "an array of the type 'T' cannot be read"),
        (b"{" + length(1) + b"aT" + length(1) + b"aT}", "it has the key 'a' twice"),
        (b"{}{", "more follows at byte 2"),
    ],
)
def test_binary_json_that_hurts_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        ubjson.read(content)


def test_binary_json_holds_what_json_holds(seeds: list[bytes]) -> None:
    pairs = [seed for seed in seeds if not seed.startswith(b"tree")]
    for plain, binary in zip(pairs[::2], pairs[1::2], strict=True):
        left, right = json.loads(plain)["learner"], ubjson.read(binary)["learner"]
        assert left["learner_model_param"]["num_feature"] == right["learner_model_param"]["num_feature"]
        assert left["objective"] == right["objective"]


def test_a_file_that_hurts_is_no_model_of_its_package(text: bytes, stored: Any, tmp_path: Path) -> None:
    tree(stored)["left_children"][0] = 99
    damaged = fitting(text.replace(b"left_child=", b"left_child=99 "))
    for name, content in (("xgboost", dumped(stored)), ("lightgbm", damaged)):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.file").write_bytes(content)
        with pytest.raises(InputError, match=r"it is no model that .*'s save_model\(\) wrote: left_child"):
            module_of(name).examine(tmp_path / f"{name}.file", tmp_path / name, Asked())
