"""PyTorch's runtimes: devices and precisions, and the requirements of compiling."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

from bench.plugins import catalog
from bench.plugins.engines import cpu, gpu
from bench.plugins.engines.pytorch.runtime import TorchSession

ONE_INPUT = catalog.task("toy")  # it takes `x` (batch, 8) and gives `y` (batch, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse2 avx512_bf16 vme\n", True),
        ("processor\t: 0\nflags\t\t: fpu amx_bf16\n", True),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu sse2 avx2 avx512f\nvmx flags\t: amx_bf16\n", False),
        ("processor\t: 0\nmodel name\t: bf16\n", False),
    ],
)
def test_bfloat16_is_offered_where_the_processor_has_it(
    text: str, expected: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "cpuinfo")
    assert cpu.multiplies_bfloat16() is expected
    for name in ("pytorch", "torch_compile", "openvino"):
        assert ("cpu-bf16" in catalog.runtime(name).providers()) is expected, name


def test_a_system_that_does_not_tell_has_no_bfloat16(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "none")
    assert not cpu.multiplies_bfloat16()


@pytest.mark.parametrize(("version", "expected"), [("2.13.0", True), ("2.13.0+cu130", True), ("2.13.0+cpu", False)])
def test_cuda_is_offered_where_driver_and_build_are_there(
    version: str, expected: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    for name in ("pytorch", "torch_compile"):
        monkeypatch.setattr(gpu, "NVIDIA", tmp_path)
        assert ("cuda" in catalog.runtime(name).providers()) is expected
        monkeypatch.setattr(gpu, "NVIDIA", tmp_path / "none")
        assert "cuda" not in catalog.runtime(name).providers()
    assert catalog.runtime("aot_inductor").providers() == ("cpu",)


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compilers = [catalog.runtime("torch_compile"), catalog.exporter("aot_inductor")]
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for plugin in compilers:
        monkeypatch.setattr(type(plugin), "requires", ())
        assert plugin.skip() == (
            "no C++ compiler found (g++, clang++, cl); install one, such as g++, or name it in $CXX"
        )
    (tmp_path / "my-c++").touch(mode=0o755)
    monkeypatch.setenv("CXX", "my-c++")
    assert all(plugin.skip() is None for plugin in compilers)
    monkeypatch.setenv("CXX", "no-such-c++")
    assert "(no-such-c++)" in (compilers[0].skip() or "")


@pytest.mark.framework("torch")
@pytest.mark.parametrize(
    ("provider", "precision", "expected"), [("cpu", "float32", 1.001), ("cpu-bf16", "bfloat16", 1)]
)
def test_bfloat16_rounds_inside_and_gives_float32(provider: str, precision: str, expected: float) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(8, 8, bias=False)
    layer.weight.data = torch.eye(8) * 1.001  # the nearest bfloat16 is 1
    session = TorchSession(layer, ONE_INPUT, provider, 64)
    (y,) = session.run({"x": np.eye(8, dtype=np.float32)[:3]})
    assert session.precision == precision
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, np.eye(8)[:3] * expected, rtol=1e-6)


@pytest.mark.framework("torch")
def test_nothing_rounds_float32_on_a_device_behind_ones_back() -> None:
    torch = pytest.importorskip("torch")
    task = catalog.task("super_resolution")
    torch.backends.cudnn.allow_tf32 = True
    session = catalog.runtime("pytorch").open(task.weights_path, task=task, source="torch", provider="cpu", threads=1)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert session.num_params == 59_657
