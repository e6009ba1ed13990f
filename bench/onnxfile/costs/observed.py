"""The shapes that every node had in a run, and how often it ran: for models whose shapes depend on data.

The model runs once in a child process with limits, on ONNX Runtime without optimizations, whose profiler writes down
the shapes of each execution of each node, those in the bodies of loops and branches included.
"""

from __future__ import annotations

import collections
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import TensorSpec, lengths
from bench.api.arrays import STRING, generate, load_arrays, save_arrays
from bench.api.errors import BenchError, ChildError, InputError
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.digest import fed_inputs
from bench.onnxfile.file.domains import domains
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.file.words import words
from bench.onnxfile.sessions import profile_runs

_SEED = 0
_TIMEOUT_S = 180
_SUFFIX = "_kernel_time"
_MAX_EXECUTIONS = 10_000
"""Most executions of a node that differ in their shapes; a model with more of them counts as not observed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """Executions of a node that had the same shapes.

    Attributes:
        inputs: shapes of the tensors that the node read, in order, without inputs that are left out.
        outputs: shapes of the tensors that the node made, in order.
        count: number of executions with these shapes.
    """

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    count: int


def observe(
    path: Path, shapes: Mapping[str, Sequence[int]], inputs: Mapping[str, np.ndarray] | None = None
) -> dict[str, list[Execution]]:
    """Run a model once in a child process, and return how each node ran, by its name in the settled model.

    Args:
        shapes: of the inputs that are made up: normal floats, integers that are safe as indices, and bools.
        inputs: arrays to feed instead, by name.

    Raises:
        BenchError: the model cannot be run.
    """
    import msgspec  # only here: a worker that inspects an artifact may have to do without

    answer = ask_runner(run, path, shapes, inputs)
    return msgspec.convert(answer["nodes"], dict[str, list[Execution]])


def ask_runner(
    function: Callable[..., dict[str, Any]],
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    inputs: Mapping[str, np.ndarray] | None,
) -> dict[str, Any]:
    """Call a function that runs an untrusted model in a child process with limits.

    Args:
        function: takes `path`, `shapes` and `inputs` (the path of an .npz file, or None) as `run` does.

    Raises:
        BenchError: the child failed; the message says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        inputs_path = Path(folder, "inputs.npz")
        if inputs:
            save_arrays(inputs_path, inputs)
        try:
            return ask_once(
                function,
                timeout_s=_TIMEOUT_S,
                memory_bytes=Limits.of(step_s=None, memory_bytes=None).memory_bytes,
                path=str(path.absolute()),
                shapes={name: list(shape) for name, shape in shapes.items()},
                inputs=str(inputs_path) if inputs else None,
            )
        except ChildError as error:
            raise BenchError(error.reason) from error


def run(*, path: str, shapes: Mapping[str, Sequence[int]], inputs: str | None) -> dict[str, Any]:
    """Run an untrusted model in this process, which is a child that may be lost.

    Returns:
        `nodes`: by name, the fields of each `Execution`.

    Raises:
        BenchError: a node ran with too many different shapes, or a file of external data cannot be read.
    """
    model = settle(onnx.load(path, load_external_data=False))
    Stored(model=model, path=Path(path)).data_files()  # refuses what ONNX Runtime would open and wait for
    feeds = made_feeds(model, shapes, inputs)
    events = profile_runs(model.SerializeToString(), feeds, weights_folder=Path(path).parent)
    seen: dict[str, collections.Counter[Any]] = collections.defaultdict(collections.Counter)
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(_SUFFIX):
            continue
        pair = tuple(_shapes(event["args"].get(f"{side}_type_shape", [])) for side in ("input", "output"))
        name = event["name"].removesuffix(_SUFFIX)
        seen[name][pair] += 1
        if len(seen[name]) > _MAX_EXECUTIONS:
            raise BenchError(
                f"node {name!r} ran with more than {_MAX_EXECUTIONS:,} different shapes, the most that are counted",
                fix="give --inputs with fewer shapes, or --no-observe",
            )
    return {
        "nodes": {
            name: [
                {"inputs": input_shapes, "outputs": two, "count": count}
                for (input_shapes, two), count in counts.items()
            ]
            for name, counts in seen.items()
        }
    }


def _shapes(entries: Sequence[Mapping[str, Sequence[int]]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for entry in entries for shape in entry.values())


def made_feeds(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], inputs: str | None
) -> dict[str, np.ndarray]:
    """Arrays to run a model on: those of an .npz file, and made-up arrays for the other inputs.

    Args:
        shapes: of the inputs that are made up, by name.
        inputs: path of the file; None to make everything up.

    Raises:
        InputError: an input has no shape, so it cannot be made up.
    """
    arrays = load_arrays(Path(inputs)) if inputs is not None else {}
    generator = np.random.default_rng(_SEED)
    stored = Stored(model=model, path=None)
    specs = {
        value.name: TensorSpec(name=value.name, dtype=_dtype(value), shape=tuple(shapes[value.name]))
        for value in fed_inputs(model.graph)
        if value.name in shapes
    }
    limits: Mapping[str, Any] = {**lengths.domains(specs.values()), **domains(stored), **words(stored)}
    feeds = {}
    for value in fed_inputs(model.graph):
        if value.name in arrays:
            feeds[value.name] = arrays[value.name]
        elif value.name in specs:
            dtype, shape = specs[value.name].dtype, tuple(shapes[value.name])
            feeds[value.name] = generate(generator, dtype, shape, limits.get(value.name))
        else:
            raise InputError(f"an input like {value.name!r} cannot be made up")
    return feeds


def _dtype(value: onnx.ValueInfoProto) -> str:
    number = value.type.tensor_type.elem_type
    is_string = number == onnx.TensorProto.STRING
    return STRING if is_string else str(onnx.helper.tensor_dtype_to_np_dtype(number).name)
