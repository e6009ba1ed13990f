"""ONNX files that ONNX Runtime refuses although they are valid: by its optimizations, their IR version or operators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Task
from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.onnxfile import sessions
from bench.onnxfile.file.dtypes import type_name
from bench.onnxfile.file.newer import narrow_types, restate_ir_version, too_new
from bench.onnxfile.file.ports import widen_ports
from bench.onnxfile.sessions import newest_ir_version, newest_opset
from bench.pipeline import sweeps
from bench.plugins import catalog
from bench.tasks import adopt
from bench.tasks.examine import examine
from bench.tasks.formats import onnx as onnx_file

FLOAT, BFLOAT16 = TensorProto.FLOAT, TensorProto.BFLOAT16
Examined = Callable[..., tuple[Task, list[str]]]
RNG = np.random.default_rng(3)
WEIGHT = RNG.normal(0, 1, (8, 4)).astype(np.float32)
STD = RNG.uniform(0.5, 2, 8).astype(np.float32)
ONE = np.float32(1)
ON = f"with the graph optimizations of ONNX Runtime {onnxruntime.__version__} on,"
CRASHED = f"{ON} the process that examined the file was killed by SIGSEGV; with them off,"


def model_of(
    nodes: list[Any],
    weights: dict[str, Any],
    *,
    opset: int = 17,
    ir_version: int = 9,
    kinds: tuple[int, int] = (FLOAT, FLOAT),
) -> onnx.ModelProto:
    """A model from `x` (N, 8) to `y` (N, 4)."""
    x, y = (
        helper.make_tensor_value_info(name, kind, ["N", size])
        for name, kind, size in zip("xy", kinds, (8, 4), strict=True)
    )
    tensors = [
        value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def plain(**more: Any) -> onnx.ModelProto:
    return model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": WEIGHT}, **more)


def divided(
    operator: str, *, by: str = "std", turned: bool = False, again: bool = False, **attributes: Any
) -> onnx.ModelProto:
    """A node that leaves `x` as it is, times 1 / std or 1 / exp(x), times a matrix: microsoft/onnxruntime#32416.

    Args:
        turned: whether the factors stand the other way around.
        again: whether what the node makes is added to the product, too.
    """
    nodes = [
        helper.make_node(operator, ["x"], ["mid"], "as_it_is", **attributes),
        *([helper.make_node("Exp", ["x"], ["exp"], "exp")] if by == "exp" else []),
        helper.make_node("Div", ["one", by], ["inverse"], "inverse"),
        helper.make_node("Mul", ["inverse", "mid"] if turned else ["mid", "inverse"], ["scaled"], "scale"),
        *([helper.make_node("Add", ["scaled", "mid"], ["sum"], "sum")] if again else []),
        helper.make_node("MatMul", ["sum" if again else "scaled", "w"], ["y"], "dense"),
    ]
    return model_of(nodes, {"one": ONE, "w": WEIGHT, **({"std": STD} if by == "std" else {})})


@pytest.fixture
def examined(plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examined:
    """Examines a model in this process, and gives its task and the lines that are told."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(model: onnx.ModelProto) -> tuple[Task, list[str]]:
        path = tmp_path / "own.onnx"
        path.write_bytes(model.SerializeToString())
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        asked: dict[str, Any] = {"data": None, "dims": (), "shapes": (), "trust": False}
        found = examine(module="onnx", path=str(path), folder=str(folder), **asked)
        catalog.forget()
        return catalog.task("mine"), list(found["notes"])

    return run


def runtimes_of(task: str = "mine") -> set[str]:
    return {str(cell.runtime) for cell in sweeps.cells_of((task,), variants=("raw",)) if cell.source == "onnx"}


def outputs_of(model: onnx.ModelProto | Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The output of a model without ONNX Runtime's optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (output,) = session.run(["y"], feeds)
    return np.asarray(output)


BROKEN = {
    "cast": divided("Cast", to=FLOAT),
    "identity": divided("Identity"),
    "dropout": divided("Dropout", turned=True),
    "data": divided("Identity", by="exp"),
    "twice": divided("Identity", again=True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_optimizations_break_is_measured_without_them(name: str, examined: Examined) -> None:
    model = BROKEN[name]
    onnx.checker.check_model(model, full_check=True)
    with pytest.raises(Exception, match="is not a graph input, initializer, or output of a previous node"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    task, notes = examined(model)
    assert (task.sources, task.unoptimized) == (("onnx",), True)  # type: ignore[attr-defined]
    assert [(spec.dtype, spec.shape) for spec in task.outputs] == [("float32", ("N", 4))]
    (told,) = notes
    assert told.startswith(f"{ON} it is refused (InvalidArgument: ")
    assert told.endswith("); with them off, it opened and ran: it is measured like that, too")
    assert task.native_path("onnx").read_bytes() == model.SerializeToString(), "the file is measured as it is"
    assert runtimes_of() >= {"onnxruntime", "onnxruntime_unoptimized"}
    usual = Cell.from_path("mine/onnx/native/raw/onnxruntime/cpu/b1t1")
    assert str(sweeps.in_place_of(usual)[0].runtime) == "onnxruntime_unoptimized"


def test_a_model_that_loads_needs_no_way_out(examined: Examined) -> None:
    task, notes = examined(plain())
    assert notes == []
    assert not hasattr(task, "unoptimized")
    assert "onnxruntime_unoptimized" not in runtimes_of()


@pytest.mark.parametrize("name", ["cast", "data"])
def test_the_way_out_gives_the_right_outputs(name: str, examined: Examined) -> None:
    task, _ = examined(BROKEN[name])
    runtime, path = catalog.runtime("onnxruntime_unoptimized"), task.native_path("onnx")
    x = RNG.normal(0, 1, (3, 8)).astype(np.float32)
    expected = (x / (np.exp(x) if name == "data" else STD)) @ WEIGHT
    for threads in (1, 2):
        with runtime.open(path, task=task, source="onnx", provider="cpu", threads=threads) as session:
            (made,) = session.run({"x": x})
            np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
    assert runtime.inspect(path, provider="cpu", shapes={"x": (1, 8)}) == {"precision": "float32"}
    namespace: dict[str, Any] = {}
    code = runtime.code(provider="cpu", threads=1)
    assert code is not None
    exec(code, namespace)
    np.testing.assert_allclose(namespace["load"](path, ["y"])({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fails", ["run", "open"])
def test_a_model_that_fails_only_when_it_runs_with_optimizations(
    fails: str, examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the fused kernel takes no such shape")

    def session_of(model: Any, *, optimized: bool = False, **more: Any) -> Any:
        if optimized and fails == "open":
            failing()
        made = sessions.cpu_session(model, optimized=optimized, **more)
        return SimpleNamespace(run=failing) if optimized else made

    monkeypatch.setattr(onnx_file, "cpu_session", session_of)
    task, notes = examined(plain())
    assert task.unoptimized is True  # type: ignore[attr-defined]
    (told,) = notes
    seen = "it is refused (" if fails == "open" else "it does not run with N=1: "
    assert told.startswith(f"{ON} {seen}RuntimeError: the fused kernel takes no such shape")
    assert told.endswith("; with them off, it opened and ran: it is measured like that, too")


def test_a_model_that_runs_neither_way_has_the_first_reason(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "_outputs", lambda *_, **__: 1 / 0)
    task, notes = examined(plain())
    assert not hasattr(task, "unoptimized")
    assert [note for note in notes if "no run has checked the sizes of its inputs: it does not run" in note]


KILLED = "killed by SIGSEGV"


def adopt_after_crashes(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num: int = 1
) -> tuple[Task, list[str]]:
    """The task of a model whose first examinations were killed, and the lines that are told."""
    asked: list[Any] = []
    (tmp_path / "mine.onnx").write_bytes(model.SerializeToString())

    def ask(operation: Callable[..., Any], *, timeout_s: float, memory_bytes: int, modules: Any, **request: Any) -> Any:
        asked.append(request["crashed"])
        if len(asked) <= num:
            Path(request["folder"], "model.onnx").write_text("half of a file")
            raise ChildError("signal", KILLED)
        return operation(**request)

    monkeypatch.setattr(adopt, "ask_once", ask)
    adopted = adopt.adopt(tmp_path / "mine.onnx")
    assert asked == [[KILLED] * number for number in range(num + 1)]
    return catalog.task(adopted.name), list(adopted.notes)


def test_after_a_crash_a_model_is_tried_without_optimizations_and_the_crash_is_told_as_it_was_seen(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may have ended for another reason than the optimizations, so they are not blamed."""
    task, notes = adopt_after_crashes(plain(), tmp_path, monkeypatch)
    assert task.unoptimized is True  # type: ignore[attr-defined]
    assert notes == [f"{CRASHED} it opened and ran: it is measured like that, too"]


def test_after_a_crash_a_model_that_opens_and_does_not_run_is_not_said_to_run(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "_outputs", lambda *_, **__: 1 / 0)
    task, notes = adopt_after_crashes(plain(), tmp_path, monkeypatch)
    assert task.unoptimized is True  # type: ignore[attr-defined]
    assert f"{CRASHED} it opened: it is measured like that, too" in notes
    assert [note for note in notes if note.startswith("no run has checked the sizes of its inputs: it does not run")]


def test_after_a_crash_a_model_that_does_not_open_has_both_reasons(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, notes = adopt_after_crashes(narrow(BFLOAT16), tmp_path, monkeypatch)
    assert not hasattr(task, "unoptimized")
    (told,) = notes
    refused = f"ONNX Runtime {onnxruntime.__version__} cannot open it: NotImplemented"
    assert told.startswith(f"no run has checked the sizes of its inputs: {CRASHED} {refused}")


def test_a_model_on_which_a_package_crashes_both_ways_is_taken_as_it_states_itself(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another runtime may run it, and the rows of the one that crashes say so."""
    monkeypatch.setattr(onnx_file, "cpu_session", lambda *_, **__: pytest.fail("ONNX Runtime is tried once more"))
    task, notes = adopt_after_crashes(plain(), tmp_path, monkeypatch, num=2)
    assert not hasattr(task, "unoptimized")
    assert notes == [f"no run has checked the sizes of its inputs: {CRASHED} it was {KILLED}"]
    specs = [(spec.name, spec.dtype, spec.shape) for spec in (*task.inputs, *task.outputs)]
    assert specs == [("x", "float32", ("N", 8)), ("y", "float32", ("N", 4))]


def test_a_file_on_which_a_package_crashes_three_times_is_refused(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.onnx").write_bytes(plain().SerializeToString())

    def ask(*_: Any, **request: Any) -> Any:
        raise ChildError("signal", "killed by SIGABRT" if request["crashed"] else KILLED)

    monkeypatch.setattr(adopt, "ask_once", ask)
    with pytest.raises(InputError, match="the process that opened it was killed by SIGSEGV; the file may be damaged"):
        adopt.adopt(tmp_path / "mine.onnx")


def test_what_is_refused_after_a_crash_is_said(
    tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.onnx").write_bytes(plain().SerializeToString())

    def ask(*_: Any, **request: Any) -> Any:
        if request.get("crashed"):
            raise ChildError("error", "it has no dimension rows")
        raise ChildError("signal", "killed by SIGSEGV")

    monkeypatch.setattr(adopt, "ask_once", ask)
    with pytest.raises(InputError, match=r"mine\.onnx: it has no dimension rows$"):
        adopt.adopt(tmp_path / "mine.onnx")


@pytest.mark.parametrize("stated", [20, 99, 2**40])
def test_a_newer_ir_version_is_mended_in_a_copy(stated: int, examined: Examined) -> None:
    model = plain()
    model.ir_version = stated
    task, notes = examined(model)
    newest = newest_ir_version()
    assert 9 <= newest < 20
    assert task.sources == ("onnx", "as_is")
    assert onnx.load(task.native_path("onnx")).ir_version == newest
    assert onnx.load(task.native_path("as_is")).ir_version == stated
    (told,) = [note for note in notes if "mended copy" in note]
    assert f"set model.ir_version = {newest}" in told
    assert f"its IR version is {newest}, not {stated}; ONNX Runtime {onnxruntime.__version__} reads {newest} at" in told
    assert "faile" not in told.replace("failed", "")
    x = RNG.normal(0, 1, (3, 8)).astype(np.float32)
    np.testing.assert_allclose(outputs_of(task.native_path("onnx"), {"x": x}), x @ WEIGHT, rtol=1e-5)
    assert "onnxruntime_unoptimized" not in runtimes_of()


def test_a_newer_ir_version_of_a_file_with_other_faults_is_mended_with_them(examined: Examined) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["h"]),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Mul", ["m", "h"], ["y"]),
    ]
    model = model_of(nodes, {"w": WEIGHT})
    model.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.INT64, [1, 1]))
    model.ir_version = 40
    task, notes = examined(model)
    assert task.sources == ("onnx", "as_is")
    (told,) = [note for note in notes if "mended copy" in note]
    assert f"its IR version is {newest_ir_version()}, not 40" in told
    assert told.endswith("and were dropped: 'h' is int64 of 1x1, not float of 1x1")


def test_integers_of_four_bits_stay_as_they_are_in_a_mended_copy(examined: Examined) -> None:
    codes = helper.make_tensor("codes", TensorProto.INT4, [8, 4], [number % 16 - 8 for number in range(32)])
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    task, _ = examined(model_of(nodes, {"codes": codes, "scale": np.float32(0.5)}, opset=21, ir_version=77))
    assert task.sources == ("onnx", "as_is")
    x = np.ones((1, 8), np.float32)
    expected = 0.5 * np.array([[number % 16 - 8 for number in range(32)]]).reshape(8, 4).sum(0, keepdims=True)
    np.testing.assert_allclose(outputs_of(task.native_path("onnx"), {"x": x}), expected)


def test_a_new_ir_version_with_a_new_operator_set_is_not_mended(examined: Examined) -> None:
    task, notes = examined(plain(opset=99, ir_version=99))
    assert task.sources == ("onnx",)
    (told,) = [note for note in notes if "no run has checked" in note]
    assert f"its operator set 99 is newer than {newest_opset()}, the newest that ONNX Runtime" in told
    assert told.endswith(f"export the model with opset_version={newest_opset()} or less")


def test_a_field_that_no_package_knows_may_need_the_newer_version() -> None:
    model = plain(ir_version=40)
    assert restate_ir_version(onnx.ModelProto.FromString(model.SerializeToString())) is not None
    unknown = model.SerializeToString() + bytes((0xFA, 0x7D, 1, 65))  # field 2015, of one byte
    changed = onnx.ModelProto.FromString(unknown)
    assert restate_ir_version(changed) is None
    assert changed.ir_version == 40


@pytest.mark.parametrize("ir_version", [3, 8, 10])
def test_versions_that_are_read_stay(ir_version: int) -> None:
    model = plain(ir_version=ir_version)
    assert restate_ir_version(model) is None
    assert model.ir_version == ir_version
    assert too_new(model) is None
    assert narrow_types(model) is None


def narrow(kind: int, opset: int = 21, *, ports: bool = False) -> onnx.ModelProto:
    """The product in another type, with a cast of the input and of the output, or with such an input and output."""
    weight = helper.make_tensor("w", kind, [8, 4], WEIGHT.reshape(-1).tolist())
    if ports:
        return model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weight}, opset=opset, kinds=(kind, kind))
    nodes = [
        helper.make_node("Cast", ["x"], ["low"], to=kind),
        helper.make_node("MatMul", ["low", "w"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=FLOAT),
    ]
    return model_of(nodes, {"w": weight}, opset=opset, ir_version=10)


@pytest.mark.parametrize("ports", [False, True])
def test_a_model_in_bfloat16_is_taken_with_the_reason_of_the_runtime(ports: bool, examined: Examined) -> None:
    task, notes = examined(narrow(BFLOAT16, ports=ports))
    assert [(spec.dtype, spec.shape) for spec in (*task.inputs, *task.outputs)] == [
        ("float32", ("N", 8)),
        ("float32", ("N", 4)),
    ]
    (told,) = [note for note in notes if "no run has checked" in note]
    assert f"ONNX Runtime {onnxruntime.__version__} cannot open it: NotImplemented" in told
    assert "it computes in bfloat16, which few operators of ONNX Runtime take on a processor" in told
    if ports:
        assert notes[:2] == [
            "input 'x' is bfloat16: it is fed as float32, cast",
            "output 'y' is bfloat16: it is given as float32",
        ]


def test_the_evaluator_of_onnx_is_the_last_that_says_what_is_right(examined: Examined) -> None:
    """It is no row, for it would take seconds where others take milliseconds."""
    task, _ = examined(narrow(BFLOAT16))
    assert runtimes_of() & {"onnx_reference", "onnxruntime_unoptimized"} == set()
    usual = Cell.from_path("mine/onnx/native/raw/onnxruntime/cpu/b1t1")
    others = [str(cell.runtime) for cell in sweeps.in_place_of(usual)]
    assert others == ["openvino", "tract", "onnx_reference", "onnxruntime_unoptimized"]
    x = RNG.normal(0, 1, (3, 8)).astype(np.float32)
    path = task.native_path("onnx")
    with catalog.runtime("onnx_reference").open(path, task=task, source="onnx", provider="cpu", threads=1) as session:
        (made,) = session.run({"x": x})
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, x @ WEIGHT, atol=0.1)
    assert np.abs(made - x @ WEIGHT).max() > 1e-4, "it rounds to bfloat16"


@pytest.mark.parametrize("kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_a_cast_to_eight_bits_is_told_where_the_runtime_lacks_the_product(kind: int, examined: Examined) -> None:
    _, notes = examined(narrow(kind))
    (told,) = [note for note in notes if "no run has checked" in note]
    assert f"it computes in {type_name(kind)}, which few operators of ONNX Runtime take on a processor" in told


def test_casts_stand_between_the_graph_and_ports_of_types_that_numpy_lacks() -> None:
    """The branches of an If read the input, too, and another node reads the output."""
    branches = {}
    for name, operator in (("then_branch", "Neg"), ("else_branch", "Identity")):
        made = helper.make_node(operator, ["x"], [f"{name}_y"])
        value = helper.make_tensor_value_info(f"{name}_y", BFLOAT16, ["N", 4])
        branches[name] = helper.make_graph([made], name, [], [value])
    nodes = [
        helper.make_node("If", ["yes"], ["y"], **branches),
        helper.make_node("Neg", ["y"], ["z"]),
    ]
    x, y, z = (helper.make_tensor_value_info(name, BFLOAT16, ["N", 4]) for name in "xyz")
    yes = numpy_helper.from_array(np.array(True), "yes")
    graph = helper.make_graph(nodes, "graph", [x], [y, z], [yes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert len(widen_ports(model)) == 3
    onnx.checker.check_model(model, full_check=True)
    feeds = {"x": np.array([[1.0, -2.0, 0.5, 3.140625]], np.float32)}
    first, second = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(first, -feeds["x"])
    np.testing.assert_array_equal(second, feeds["x"])
    assert widen_ports(model) == [], "twice is as good as once"


@pytest.mark.parametrize(
    ("kind", "fed"),
    [(TensorProto.INT4, "int8"), (TensorProto.UINT4, "uint8"), (TensorProto.FLOAT8E4M3FN, "float32")],
)
def test_narrower_ports_are_cast(kind: int, fed: str) -> None:
    x = helper.make_tensor_value_info("x", kind, ["N", 4])
    y = helper.make_tensor_value_info("y", kind, ["N", 4])
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert len(widen_ports(model)) == 2
    onnx.checker.check_model(model, full_check=True)
    feeds = {"x": np.array([[0, 1, 2, 4]], fed)}
    (made,) = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    assert made.dtype == fed
    np.testing.assert_array_equal(made, feeds["x"])


def with_outputs(*outputs: str, kind: int = BFLOAT16, default: bool = False) -> onnx.ModelProto:
    """`y` is `x` and `z` is exp(x); `w` is a weight, which may be listed as an input, too, whose default it is."""
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
        helper.make_node("Exp", ["wide"], ["exp"]),
        helper.make_node("Cast", ["exp"], ["z"], to=kind),
    ]
    weight = helper.make_tensor("w", kind, [1, 4], [1, 2, 3, 4])
    values = {name: helper.make_tensor_value_info(name, kind, ["N", 4]) for name in "xyz"}
    values["w"] = helper.make_tensor_value_info("w", kind, [1, 4])
    inputs = [values["x"], *([values["w"]] if default else [])]
    graph = helper.make_graph(nodes, "graph", inputs, [values[name] for name in outputs], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("outputs", ["y", "z", "x", "w", "xz", "zx", "xyzw"])
def test_an_output_in_bfloat16_may_be_an_input_or_a_weight(outputs: str, examined: Examined) -> None:
    task, notes = examined(with_outputs(*outputs))
    assert notes[: len(outputs) + 1] == [
        "input 'x' is bfloat16: it is fed as float32, cast",
        *(f"output {name!r} is bfloat16: it is given as float32" for name in outputs),
    ]
    assert [(spec.name, spec.dtype) for spec in task.outputs] == [(name, "float32") for name in outputs]
    model = onnx.load(task.native_path("onnx"))
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[0.5, -2.0, 1.0, 3.140625]], np.float32)
    right = {"x": x, "y": x, "z": np.exp(x), "w": np.array([[1, 2, 3, 4]], np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, made in zip(outputs, session.run(list(outputs), {"x": x}), strict=True):
        np.testing.assert_allclose(made, right[name], rtol=2**-8, err_msg=name)
    assert widen_ports(model) == [], "twice is as good as once"


def test_a_weight_in_bfloat16_that_is_an_input_and_an_output_stays_the_default() -> None:
    model = with_outputs("w", "z", default=True)
    assert len(widen_ports(model)) == 3
    onnx.checker.check_model(model, full_check=True)
    made, _ = onnx.reference.ReferenceEvaluator(model).run(None, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(made, np.array([[1, 2, 3, 4]], np.float32))


def test_an_output_in_bfloat16_that_is_listed_twice_has_one_cast() -> None:
    model = with_outputs("z", "z")
    assert len(widen_ports(model)) == 3
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node].count("Cast") == 4


def test_an_input_that_is_an_output_at_once_stays_as_it_is_where_numpy_has_its_type(examined: Examined) -> None:
    task, notes = examined(with_outputs("x", "z", kind=FLOAT))
    assert notes == []
    assert [(spec.name, spec.dtype, spec.shape) for spec in task.outputs] == [
        ("x", "float32", ("N", 4)),
        ("z", "float32", ("N", 4)),
    ]
