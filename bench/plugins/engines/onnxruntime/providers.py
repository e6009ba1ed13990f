"""ONNX Runtime's execution providers: which of them work here, and how a session gets one.

The providers depend on the build of ONNX Runtime, on the plugin packages beside it (`onnxruntime_ep_<name>`) and on the
machine, so no list of them stands here: a process of its own opens a model of one node on every provider it finds, and
the providers that really take the node are kept in the cache. The process runs
`python -P -m bench.plugins.engines.onnxruntime.providers`.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.api import cache
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnxruntime
from bench.plugins.engines import cpu, gpu
from bench.plugins.engines.onnxruntime import options as ort_options

SCHEMA = 1  # raise it when the same installation would give other providers
PLUGINS = "onnxruntime_ep_*"
_SUFFIX = "ExecutionProvider"
_QUERY_LIMIT_S = 60
ENVIRONMENT = {"ORT_DISABLE_TELEMETRY": "1", "NVIDIA_TF32_OVERRIDE": "0"}
"""TensorRT multiplies with fewer bits of mantissa unless an environment variable forbids it."""
ONE_NODE = (
    b"\x08\x08:@\n\x11\n\x01x\n\x01x\x12\x01y\x22\x06MatMul\x12\x01gZ\x13\n\x01x\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02"
    b"\x08\x02\n\x02\x08\x02b\x13\n\x01y\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x02\n\x02\x08\x02B\x04\n\x00\x10\r"
)
"""An ONNX file: y = x x for a float32 matrix (2, 2)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provider:
    """A way for ONNX Runtime to run nodes.

    Attributes:
        name: its name in cells: `cuda` for `CUDAExecutionProvider`, `openvino-gpu` for a plugin on a GPU.
        ort_name: ONNX Runtime's name of the provider.
        library: path of the plugin's shared library; None for a provider that is part of the build.
        device: the kind of device that a plugin's provider runs on; None for a provider of the build.
    """

    name: str
    ort_name: str
    library: str | None = None
    device: str | None = None


CPU = Provider(name="cpu", ort_name="CPUExecutionProvider")


def usable() -> dict[str, Provider]:
    """Providers that work on this machine, by name; the first is the processor."""
    return dict(_usable(str(cache.folder())))


@functools.cache
def _usable(folder: str) -> dict[str, Provider]:
    key = f"ort-providers-{cache.digest(_installation())}"
    try:
        path, _ = cache.obtain(key, "providers.json", lambda path: {"num_bytes": path.write_text(json.dumps(_ask()))})
        lines = json.loads(path.read_text())
    except OSError:  # without a cache the next process asks again
        lines = _ask()
    providers = {CPU.name: CPU}
    for line in lines:
        providers.setdefault(line["name"], Provider(**line))
    return providers


def _installation() -> list[Any]:
    """The facts that the usable providers depend on: the packages' files, the processor and the graphics driver."""
    spec = importlib.util.find_spec("onnxruntime")
    files = [Path(spec.origin)] if spec is not None and spec.origin else []
    files += [file for file in (*(file.parent / "capi" for file in files), *_plugin_files()) if file.exists()]
    stamps = [[str(file), file.stat().st_mtime_ns] for file in files]
    return [SCHEMA, stamps, sorted(cpu.instruction_sets()), gpu.has_nvidia()]


def plugin_packages() -> tuple[str, ...]:
    """Import names of the installed packages that bring providers."""
    return tuple(dict.fromkeys(file.parent.name for file in _plugin_files()))


def _plugin_files() -> list[Path]:
    return [path for folder in sys.path for path in sorted(Path(folder or ".").glob(f"{PLUGINS}/__init__.py"))]


def _ask() -> list[dict[str, Any]]:
    """The providers that the other process found; if a provider crashes it, those that it found before."""
    # The output goes to a file: a pipe would keep nothing of a process that is killed at the time limit.
    with tempfile.TemporaryFile() as output:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-P", "-m", "bench.plugins.engines.onnxruntime.providers"],
                env={**os.environ, **ENVIRONMENT},
                stdout=output,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                timeout=_QUERY_LIMIT_S,
                check=False,
            )
        output.seek(0)
        return [json.loads(line) for line in output.read().splitlines() if line.endswith(b"}")]


def open_session(
    model: Path | bytes, provider: Provider, *, threads: int, named: Sequence[str] = (), **more: Any
) -> Any:
    """An InferenceSession of ONNX Runtime's default options, but for threads that rest between requests.

    Args:
        named: names of options that are not the defaults, see `options.OPTIONS`.
        more: further attributes of the `SessionOptions`, by name.

    Raises:
        ArtifactError: not one node would run on the provider: ONNX Runtime itself falls back in silence.
    """
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    ort_options.apply(named, options)
    for name, value in more.items():
        setattr(options, name, value)
    # Threads that go on spinning after a run take the processor from whichever session runs next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if provider == CPU:
        return onnxruntime.InferenceSession(model, options, providers=[CPU.ort_name])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings = _settings(provider.ort_name, threads)
    if provider.library is None:
        session = onnxruntime.InferenceSession(model, options, providers=[(provider.ort_name, settings), CPU.ort_name])
    else:
        options.add_provider_for_devices(_devices(provider), settings)
        session = onnxruntime.InferenceSession(model, options)
    assigned = assignment(session)
    if not assigned.get(provider.ort_name):
        others = ", ".join(f"{len(names)} would run on {name}" for name, names in assigned.items())
        raise ArtifactError(f"{provider.ort_name} takes no node of this model: {others}")
    return session


def _settings(ort_name: str, threads: int) -> dict[str, str]:
    """Options that keep a provider to float32 and to its threads, where its defaults do not."""
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    openvino = {**precision, "INFERENCE_NUM_THREADS": str(threads), "NUM_STREAMS": "1"}
    return {
        "CUDAExecutionProvider": {"use_tf32": "0"},
        "OpenVINOExecutionProvider": {"load_config": json.dumps({"CPU": openvino, "GPU": precision})},
        "XnnpackExecutionProvider": {"intra_op_num_threads": str(threads)},
    }.get(ort_name, {})


@functools.cache
def _register(library: str) -> None:
    """Register a plugin's library with ONNX Runtime, once in a process."""
    onnxruntime.register_execution_provider_library(library, library)


def _devices(provider: Provider) -> list[Any]:
    """The plugin's first device of the provider's kind."""
    assert provider.library is not None
    _register(provider.library)
    # By the exact name: a plugin may bring meta-providers whose names begin alike.
    named = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider.ort_name]
    devices = [device for device in named if device.device.type.name == provider.device]
    if not devices:
        raise ArtifactError(f"{provider.ort_name} offers no device of type {provider.device} here")
    return devices[:1]


def assignment(session: Any) -> dict[str, list[str]]:
    """Names of the optimized graph's nodes, by ONNX Runtime's name of the provider that runs them.

    Nodes that a provider fuses are listed one by one; nodes in the subgraphs of a node that it takes are not listed.

    Args:
        session: an `InferenceSession` that `open_session` opened on another provider than the processor's.
    """
    assigned: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        assigned.setdefault(part.ep_name, []).extend(node.name for node in part.get_nodes())
    return assigned


def _candidates() -> Iterator[Provider]:
    """Every provider of the build, then the providers of every plugin, one for each kind of device."""
    for ort_name in onnxruntime.get_available_providers():
        if ort_name != CPU.ort_name:
            yield Provider(name=_short(ort_name), ort_name=ort_name)
    for file in _plugin_files():
        with contextlib.suppress(Exception):  # a broken plugin leaves the others usable
            yield from _offered(file.parent.name)


def _offered(package_name: str) -> Iterator[Provider]:
    """The providers of a plugin package, one for each kind of device."""
    package = importlib.import_module(package_name)
    library, names = str(package.get_library_path()), package.get_ep_names()
    _register(library)
    devices = [(device.ep_name, device.device.type.name) for device in onnxruntime.get_ep_devices()]
    for ort_name, kind in dict.fromkeys(devices):
        if ort_name in names:
            name = _short(ort_name) if kind == "CPU" else f"{_short(ort_name)}-{kind.lower()}"
            yield Provider(name=name, ort_name=ort_name, library=library, device=kind)


def _short(ort_name: str) -> str:
    return ort_name.removesuffix(_SUFFIX).lower()


def main() -> None:
    """Print each provider that takes the one node as a line of JSON, at once: the next provider may crash."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to standard output, too
    for provider in _candidates():
        with contextlib.suppress(Exception):  # a provider that fails in any way is not usable
            open_session(ONE_NODE, provider, threads=1)
            output.write(json.dumps(dataclasses.asdict(provider)) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
