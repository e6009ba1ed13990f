"""Which cells run the same graph, and which of them give the same outputs."""

from __future__ import annotations

from bench.api.artifact import Facts
from bench.api.cell import Cell
from bench.api.names import PluginName
from bench.records.measured_cell import program_of, what_answers, what_runs


def facts(canonical: str | None) -> Facts:
    return Facts(format="onnx", sha256="bytes", size_bytes=1, canonical=canonical)


def cell(name: str, size: str = "b1t1") -> Cell:
    return Cell.from_path(f"toy/torch/{name}/{size}")


def test_equal_graphs_answer_alike_at_any_batch_and_number_of_threads() -> None:
    raw, slim = cell("torch_onnx/raw/onnxruntime/cpu"), cell("torch_onnx/onnxslim/onnxruntime/cpu", "b4t2")
    assert what_answers(raw, facts("graph")) == what_answers(slim, facts("graph"))
    assert what_runs(raw, facts("graph")) != what_runs(slim, facts("graph"))
    assert what_answers(raw, facts("graph")) != what_answers(slim, facts("another graph"))


def test_another_runtime_or_provider_answers_for_itself() -> None:
    names = ("onnxruntime/cpu", "openvino/cpu", "openvino/cpu-bf16")
    assert len({what_answers(cell(f"torch_onnx/raw/{name}"), facts("graph")) for name in names}) == 3


def test_a_file_without_a_canonical_graph_answers_for_itself() -> None:
    one, larger, other = (
        cell("native/raw/pytorch/cpu"),
        cell("native/raw/pytorch/cpu", "b4t2"),
        cell("pt2/raw/pytorch/cpu"),
    )
    assert what_answers(one, facts(None)) == what_answers(larger, facts(None))
    assert what_answers(one, facts(None)) != what_answers(other, facts(None))


def test_runtimes_of_the_same_packages_are_one_program_to_the_machine() -> None:
    names = ("onnxruntime", "onnxruntime_bytes", "onnxruntime@1.20.0")
    assert {program_of(PluginName.parse(name), ["python", "onnxruntime"]) for name in names} == {"onnxruntime"}
    assert program_of(PluginName.parse("tensorflow_xla"), ["tensorflow_cpu", "python", "keras"]) == (
        "keras, tensorflow_cpu"
    )
    assert program_of(PluginName.parse("null-slow@3.10"), ["python"]) == "null-slow", "what needs no package is its own"
