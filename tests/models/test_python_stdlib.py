"""The sources of Python's standard library: the committed files, and how modules are chosen."""

import ast

import pytest

from bench.api.errors import InputError
from bench.api.loading import load_module
from bench.plugins.catalog import find

DATASET = find("datasets")["python_stdlib"]
python_stdlib = load_module(DATASET)
make = load_module(DATASET.with_name("make.py"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(python_stdlib, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("split", "count", "size"), [("train", 445, 8_623_344), ("test", 58, 970_128)])
def test_splits_have_their_modules(split, count, size):
    modules = python_stdlib.load(split)

    assert len(modules) == count
    assert sum(len(module.text.encode()) for module in modules) == size
    assert [module.path for module in modules] == sorted(module.path for module in modules)
    assert {make.is_test(module.path) for module in modules} == {split == "test"}


def test_modules_are_python():
    for module in python_stdlib.load("test"):
        ast.parse(module.text)


def test_no_package_is_in_both_splits():
    names = [{module.path.partition("/")[0] for module in python_stdlib.load(split)} for split in ("train", "test")]
    train, test = names

    assert not train & test
    assert {"asyncio", "weakref.py"} <= test


def test_no_module_of_the_test_split_is_nearly_one_of_the_training_split():
    def telling(modules):
        return [{line.strip() for line in module.text.splitlines() if len(line.strip()) >= 20} for module in modules]

    test = set().union(*telling(python_stdlib.load("test")))
    shares = [len(lines & test) / len(lines) for lines in telling(python_stdlib.load("train"))]

    assert max(shares) <= 0.3


def test_near_duplicates_are_left_out_and_the_test_split_is_kept():
    body = [f"value_{number} = compute({number}, 'some text')" for number in range(10)]
    other = [f"def function_{number}(argument): pass" for number in range(10)]
    train, partly, nearly = [f"m{number}.py" for number in range(60) if not make.is_test(f"m{number}.py")][:3]
    test = next(f"m{number}.py" for number in range(60) if make.is_test(f"m{number}.py"))
    modules = {
        train: "\n".join([*body, "x"]),  # longer, and yet it goes: the test split comes first
        test: "\n".join(body),
        partly: "\n".join(body[:3] + other),  # 3 of 13 lines are known
        nearly: "\n".join(body[:4] + other[5:]),  # 4 of 9 are
    }
    assert make.distinct(modules) == {test: modules[test], partly: modules[partly]}


def test_a_module_for_one_in_c_is_in_the_split_of_that_one():
    for own, other in (("_pyio.py", "io.py"), ("_pydecimal.py", "decimal.py"), ("_strptime.py", "strptime.py")):
        assert make.is_test(own) == make.is_test(other)


def test_what_is_not_source_is_left_out(tmp_path):
    for path, content in {
        "json/decoder.py": b"a_name_that_tells = 1\r\n",
        "json/empty.py": b"",
        "json/short.py": b"a = 1\n",
        "test/test_json.py": b"a = 1",
        "json/tests/x.py": b"a = 1",
        "latin.py": b"a = '\xe9'",
        "data.txt": b"a = 1",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)

    assert make.read(tmp_path) == {"json/decoder.py": "a_name_that_tells = 1\n"}


def test_an_unknown_split_lists_the_known_ones():
    with pytest.raises(InputError, match="train, test"):
        python_stdlib.load("validation")


def test_a_missing_file_says_where_it_comes_from(folder):
    with pytest.raises(InputError, match=r"missing: .*test.jsonl.xz.*git checkout -- datasets/python_stdlib/test"):
        python_stdlib.load("test")


def test_a_changed_file_is_refused(folder):
    (folder / "train.jsonl.xz").write_bytes(DATASET.with_name("train.jsonl.xz").read_bytes() + b"\n")
    with pytest.raises(InputError, match="does not match its SHA-256"):
        python_stdlib.load("train")
