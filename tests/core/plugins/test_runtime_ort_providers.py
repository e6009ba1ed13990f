"""ONNX Runtime's providers: found, named, kept, and never another one in disguise."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.errors import ArtifactError, InputError
from bench.plugins import catalog
from bench.plugins.engines.onnxruntime import providers
from bench.plugins.engines.onnxruntime.providers import CPU, ONE_NODE, Provider

CUDA = {"name": "cuda", "ort_name": "CUDAExecutionProvider", "library": None, "device": None}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An empty cache, a machine with CUDA, and a list that grows with every question to it."""
    questions: list[str] = []

    def ask() -> list[dict[str, Any]]:
        questions.append("?")
        return [CUDA]

    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(providers, "_ask", ask)
    providers._usable.cache_clear()
    return questions


def device(ep_name: str, kind: str) -> SimpleNamespace:
    return SimpleNamespace(ep_name=ep_name, device=SimpleNamespace(type=SimpleNamespace(name=kind)))


class FakeOnnxRuntime:
    """As much of ONNX Runtime as a plugin provider needs."""

    DEVICES = (
        device("CPUExecutionProvider", "CPU"),
        device("OpenVINOExecutionProvider.AUTO", "CPU"),
        device("OpenVINOExecutionProvider", "GPU"),
        device("OpenVINOExecutionProvider", "CPU"),
        device("OpenVINOExecutionProvider", "CPU"),
    )

    def __init__(self) -> None:
        self.registered: list[str] = []

    def get_available_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def register_execution_provider_library(self, name: str, path: str) -> None:
        assert path not in self.registered, "registered twice"
        self.registered.append(path)

    def get_ep_devices(self) -> tuple[SimpleNamespace, ...]:
        return self.DEVICES if self.registered else self.DEVICES[:1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeOnnxRuntime:
    """A fake ONNX Runtime with two plugin packages, the first of which cannot be imported."""
    for name, text in {
        "onnxruntime_ep_broken": "raise OSError('no such library')",
        "onnxruntime_ep_openvino": "def get_library_path(): return 'plugin.so'\n"
        "def get_ep_names(): return ['OpenVINOExecutionProvider']",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    runtime = FakeOnnxRuntime()
    monkeypatch.setattr(providers, "onnxruntime", runtime)
    monkeypatch.delitem(sys.modules, "onnxruntime_ep_openvino", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    providers._register.cache_clear()
    return runtime


@pytest.mark.parametrize(
    ("ort_name", "name"),
    [
        ("CPUExecutionProvider", "cpu"),
        ("CUDAExecutionProvider", "cuda"),
        ("TensorrtExecutionProvider", "tensorrt"),
        ("DmlExecutionProvider", "dml"),
        ("CoreMLExecutionProvider", "coreml"),
    ],
)
def test_names_follow_a_rule(ort_name: str, name: str) -> None:
    assert providers._short(ort_name) == name


def test_the_processor_comes_first_and_what_was_found_after_it(asked: list[str]) -> None:
    assert providers.usable() == {"cpu": CPU, "cuda": Provider(**CUDA)}
    assert catalog.runtime("onnxruntime").providers() == ("cpu", "cuda")


def test_the_question_is_asked_once_in_a_cache(asked: list[str]) -> None:
    for _ in range(2):
        assert list(providers.usable()) == ["cpu", "cuda"]
        providers._usable.cache_clear()  # as in another process
    assert len(asked) == 1


def test_another_installation_is_another_question(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    providers.usable()
    providers._usable.cache_clear()
    monkeypatch.setattr(providers, "_plugin_files", lambda: [Path(__file__)])
    providers.usable()
    assert len(asked) == 2


def test_a_damaged_answer_is_asked_for_again(asked: list[str], tmp_path: Path) -> None:
    providers.usable()
    (kept,) = tmp_path.glob("ort-providers-*/providers.json")
    assert json.loads(kept.read_text()) == [CUDA]
    kept.write_text("[{")
    providers._usable.cache_clear()
    assert list(providers.usable()) == ["cpu", "cuda"]
    assert len(asked) == 2


def test_a_plugin_that_crashes_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime_ep_crash").mkdir()
    (tmp_path / "onnxruntime_ep_crash" / "__init__.py").write_text("import os\nos.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    providers._usable.cache_clear()
    assert next(iter(providers.usable().values())) == CPU


def test_every_candidate_of_build_and_plugins(fake: FakeOnnxRuntime) -> None:
    def openvino(name: str, kind: str) -> Provider:
        return Provider(name=name, ort_name="OpenVINOExecutionProvider", library="plugin.so", device=kind)

    assert list(providers._candidates()) == [
        Provider(name="cuda", ort_name="CUDAExecutionProvider"),
        openvino("openvino-gpu", "GPU"),
        openvino("openvino", "CPU"),
    ]


def test_a_plugin_gets_one_device_of_exactly_its_name(fake: FakeOnnxRuntime) -> None:
    provider = Provider(name="openvino", ort_name="OpenVINOExecutionProvider", library="plugin.so", device="CPU")
    for _ in range(2):  # registered once however often it is asked
        (chosen,) = providers._devices(provider)
    assert chosen is FakeOnnxRuntime.DEVICES[3]
    npu = Provider(name="openvino-npu", ort_name="OpenVINOExecutionProvider", library="plugin.so", device="NPU")
    with pytest.raises(ArtifactError, match="no device of type NPU"):
        providers._devices(npu)


def test_openvino_is_held_to_float32_and_its_threads() -> None:
    settings = providers._settings("OpenVINOExecutionProvider", 3)
    assert json.loads(settings["load_config"])["CPU"] == {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": "3",
        "NUM_STREAMS": "1",
    }


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_falls_back_is_an_error() -> None:
    absent = Provider(name="rocm", ort_name="MIGraphXExecutionProvider")
    with pytest.raises(ArtifactError, match=r"MIGraphX.* takes no node of this model: 1 would run on CPUExecution"):
        providers.open_session(ONE_NODE, absent, threads=1)


def test_unknown_provider_is_refused(asked: list[str]) -> None:
    with pytest.raises(InputError, match="onnxruntime has no provider 'cudo' here; did you mean 'cuda'"):
        catalog.runtime("onnxruntime").check_provider("cudo")
