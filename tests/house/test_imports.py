"""The house: what each room of `bench/` may import, read from the imports themselves."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench
from bench.api import loading

PACKAGE = Path(bench.__file__).parent
ROOMS = ("api", "measure", "onnxfile", "plugins", "records", "tasks", "pipeline", "decisions", "report", "cli")
"""From the ground up: a room imports itself and the rooms before it, and no feature."""
FEATURES = "features"
"""The room of features, each of which imports itself and all rooms."""
FACES = ("bench", "bench.testing")
"""The public faces of the package stand above all rooms."""
PROCESSES = ("subprocess", "multiprocessing", "concurrent", "os.fork", "bench.measure.process", "bench.measure.worker")
KINDS = ("exporters", "variants", "runtimes")


def module_of(path: Path) -> str:
    parts = ("bench", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at its top or inside a function, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                assert alias.name != "*", f"{path}:{node.lineno} imports every name"
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in FILES else str(node.module)), node.lineno


@functools.cache
def imports() -> dict[str, list[tuple[str, int]]]:
    """What every module imports, with the lines."""
    return {module: sorted(set(imports_of(path))) for module, path in FILES.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_every_module_has_a_room() -> None:
    assert {room_of(module) for module in FILES if module not in FACES} == {*ROOMS, FEATURES}


def test_no_feature_imports_another() -> None:
    """A feature imports the core, which imports no feature: so that the rest works without its folder."""
    others = [
        f"{module}:{line} imports {name}"
        for module, found in imports().items()
        if module not in FACES and room_of(module) == FEATURES
        for name, line in found
        if name in FACES or (name.startswith(f"bench.{FEATURES}.") and name.split(".")[2] != module.split(".")[2])
    ]
    assert others == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_upward(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    upward = [
        f"{module}:{line} imports {name}"
        for module, found in imports().items()
        if module not in FACES and room_of(module) == room
        for name, line in found
        if name == "bench" or (name.startswith("bench.") and (name in FACES or room_of(name) not in allowed))
    ]
    assert upward == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    # A package's `__init__` is where its modules are named from outside: only imports that it makes itself count.
    graph = {module: {name for name, _ in found if name in FILES} - {module} for module, found in imports().items()}
    list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the circle


@pytest.mark.parametrize("room", ["decisions", "report"])
def test_processes_are_started_by_the_pipeline(room: str) -> None:
    direct = [
        f"{module}:{line} imports {name}"
        for module, found in imports().items()
        if module not in FACES and room_of(module) == room
        for name, line in found
        if f"{name}.".startswith(tuple(f"{process}." for process in PROCESSES))
    ]
    assert direct == []


@pytest.mark.parametrize("room", ["decisions", "report"])
def test_measuring_is_begun_by_the_pipeline(room: str) -> None:
    """They may name the types of `measure/`, but not its functions that start workers."""
    starting = {"run_block", "ask_once", "Child"}
    named = [
        f"{path.name}:{node.lineno}"
        for module, path in FILES.items()
        if module not in FACES and room_of(module) == room
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Name) and node.id in starting)
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("measure", "run_block")
            and ast.unparse(node) in ("rounds.measure", "block.run_block")
        )
    ]
    assert named == []


def test_no_file_lists_plugins() -> None:
    """A list of plugins goes stale: a new plugin is one new file, which alone may list the packages it imports."""
    names = {path.stem for kind in KINDS for path in (loading.PLUGINS / kind).glob("*.py")}
    lists = []
    for path in (path for path in FILES.values() if path.parent.name not in KINDS):
        text = path.read_text(encoding="utf-8")
        if sum(f'"{name}"' in text or f"'{name}'" in text for name in names) < 2:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
                items = node.keys if isinstance(node, ast.Dict) else node.elts
                texts = {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
                if len(texts & names) > 1:
                    lists.append(f"{path.relative_to(PACKAGE)}:{node.lineno} names {sorted(texts & names)}")
    assert lists == []


def test_no_plugin_is_imported_by_name() -> None:
    """Plugins are found by the catalog; only another plugin's own tests may import the file of one."""
    kinds = tuple(f"bench.plugins.{kind}." for kind in KINDS)
    assert [
        f"{module}:{line}" for module, found in imports().items() for name, line in found if name.startswith(kinds)
    ] == []


TESTS = Path(__file__).parents[1]


def features_at_the_top(path: Path) -> set[str]:
    """The features that a file of the tests imports where it is loaded, itself or by `support`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom():
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            case _:
                continue
        for module in modules:
            parts = module.split(".")
            if parts[:2] == ["bench", FEATURES] and len(parts) > 2:
                names.add(parts[2])
            elif parts[0] == "support" and (other := TESTS.joinpath(*parts[:2]).with_suffix(".py")).is_file():
                names |= features_at_the_top(other)
    return names


@pytest.mark.parametrize("room", ["core", "onnxfile", "tasks", "features", "house", "contract", "end_to_end"])
def test_tests_can_be_loaded_without_the_features_of_others(room: str) -> None:
    """A test that takes another feature for granted imports it within, and is marked with `needs`."""
    wrong = []
    for path in sorted((TESTS / room).rglob("*.py")):
        own = path.relative_to(TESTS / room).parts[0] if room == "features" else None
        is_guarded = "allow_module_level=True" in path.read_text(encoding="utf-8")
        wrong += [f"{path.relative_to(TESTS)}: {name}" for name in features_at_the_top(path) - {own} if not is_guarded]
    assert wrong == []
