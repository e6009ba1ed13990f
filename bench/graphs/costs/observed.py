"""The shapes that every node really had, and how often it ran: for what does not follow from the file.

The model runs once in a process of its own with limits, on ONNX Runtime with no optimization, and its profiler writes
down the shapes of each execution of each node, those in the bodies of loops and branches included.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import BenchError, ChildError, InputError
from bench.graphs.deferred import np, onnx, onnxruntime

SEED = 0
TIMEOUT_S = 180
SUFFIX = "_kernel_time"
MAX_EXECUTIONS = 10_000
"""Most executions of one node that differ in their shapes; a loop with more counts as not observed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How a node ran.

    Attributes:
        inputs: shapes of the tensors that it read, in order; what is left out is not among them.
        outputs: the same of what it made.
        count: so often with these shapes.
    """

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    count: int


def observe(
    path: Path, shapes: Mapping[str, Sequence[int]], inputs: Mapping[str, np.ndarray] | None = None
) -> dict[str, list[Execution]]:
    """Run a model once, and give how each of its nodes ran, by name as `inference.settle` has it.

    Args:
        shapes: of the inputs that are made up: normal floats, integers that are safe as indices, and bools.
        inputs: arrays to feed instead.

    Raises:
        BenchError: it cannot run.
    """
    answer = _ask("observe", path, shapes, inputs)
    return {
        str(name): [
            Execution(inputs=_tuples(one), outputs=_tuples(two), count=int(count)) for one, two, count in executions
        ]
        for name, executions in answer["nodes"].items()
    }


def _ask(request: str, path: Path, shapes: Mapping[str, Sequence[int]], inputs: Mapping[str, np.ndarray] | None) -> Any:
    """Have a child of its own run a model."""
    from bench.api.arrays import save_arrays
    from bench.graphs.requests import analyse
    from bench.measure.limits import Limits
    from bench.measure.process import ask_once

    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "inputs.npz") if inputs else None
        if inputs and given:
            save_arrays(given, inputs)
        arguments = {
            "path": str(path.absolute()),
            "shapes": {name: list(shape) for name, shape in shapes.items()},
            "inputs": str(given) if given else None,
        }
        try:
            return ask_once(
                analyse,
                timeout_s=TIMEOUT_S,
                memory_bytes=Limits.of(step_s=None, memory_bytes=None).memory_bytes,
                request=request,
                arguments=arguments,
            )
        except ChildError as error:
            raise BenchError(error.reason) from error


def _tuples(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, shape)) for shape in shapes)


def run(path: Path, shapes: Mapping[str, Sequence[int]], inputs: Path | None) -> dict[str, Any]:
    """Run an untrusted model in this process, which is one to lose.

    Returns:
        `nodes`: by name, lists of input shapes, output shapes and how often they were so.

    Raises:
        BenchError: a node ran with too many different shapes.
    """
    from bench.graphs.file.settled import settle

    model = settle(onnx.load(path, load_external_data=False))
    with tempfile.TemporaryDirectory() as folder:
        trace = _traced(model.SerializeToString(), path.parent, folder, made_feeds(model, shapes, inputs))
        events = json.loads(trace.read_text())
    seen: dict[str, collections.Counter[Any]] = collections.defaultdict(collections.Counter)
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(SUFFIX):
            continue
        pair = tuple(_shapes(event["args"].get(f"{side}_type_shape", [])) for side in ("input", "output"))
        name = event["name"].removesuffix(SUFFIX)
        seen[name][pair] += 1
        if len(seen[name]) > MAX_EXECUTIONS:
            raise BenchError(f"node {name!r} ran with more than {MAX_EXECUTIONS} different shapes")
    return {"nodes": {name: [[*pair, count] for pair, count in counts.items()] for name, counts in seen.items()}}


def _shapes(entries: Sequence[Mapping[str, Sequence[int]]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for entry in entries for shape in entry.values())


def _traced(content: bytes, folder: Path, target: str, feeds: Mapping[str, np.ndarray]) -> Path:
    """Run a model, whose external data lie in `folder`, and give the profiler's file."""
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(target, "trace"))
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    session.run(None, dict(feeds))
    return Path(session.end_profiling())


def made_feeds(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], inputs: Path | None
) -> dict[str, np.ndarray]:
    """What to run a model on: what is given, and made-up arrays for the rest.

    Raises:
        InputError: an input cannot be made up.
    """
    from bench.api.arrays import generate, load_arrays

    given = load_arrays(inputs) if inputs is not None else {}
    stored = {tensor.name for tensor in model.graph.initializer}
    generator = np.random.default_rng(SEED)
    made = {}
    for value in model.graph.input:
        if value.name in given:
            made[value.name] = given[value.name]
        elif value.name not in stored:
            if value.name not in shapes:
                raise InputError(f"an input like {value.name!r} cannot be made up")
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            made[value.name] = generate(generator, dtype.name, tuple(shapes[value.name]))
    return made
