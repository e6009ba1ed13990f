"""Requests about parts of models to a worker: the graph, its tensors on real inputs, files of parts, and their runs.

See `bench.pipeline.operations`. Files are paths, and everything else is JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, Samples, Session, Task, TensorSpec
from bench.api.arrays import dtype_name, load_arrays, save_arrays, without_objects
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.measure import clock
from bench.measure.memory import MemoryLog
from bench.measure.session import Opened
from bench.onnxfile.deferred import np, onnx
from bench.pipeline import operations, profile_requests
from bench.plugins import catalog

_AT_ONCE = 48
"""Tensors that are recorded in one run where all of a graph are: ONNX Runtime holds them at the same time."""
_NUM_SUMS, _MOST_SUMMED = 3, 4096
"""Weighted sums that stand for the values of a tensor, and how many of its values, evenly spread, are in them."""
_RESIZING = ("Resize", "Upsample")
"""Operators whose second and third input are regions and scales, which say how large an output is."""
_FEW_VALUES = 16
"""Values that a shape or a list of axes has at most: they tell nothing of a model."""


def describe(*, path: str) -> dict[str, Any]:
    """The nodes of an ONNX file that lead to its outputs, without those that make constants."""
    from bench.onnxfile.edits.parts import Cutter
    from bench.onnxfile.file import lazy

    cutter = Cutter(lazy.read(Path(path)))
    wiring = cutter.wiring
    needed, _ = wiring.leading_to(wiring.outputs)
    nodes = []
    for index in sorted(needed):
        node = wiring.nodes[index]
        if cutter.constants.isdisjoint(node.output):
            reads = [name for name in dict.fromkeys(wiring.reads[index]) if name and name not in cutter.constants]
            makes = [name for name in node.output if name]
            nodes.append({"name": node.name, "operator": node.op_type, "reads": reads, "makes": makes})
    outputs = [name for name in wiring.outputs if name not in cutter.constants]
    return {"nodes": nodes, "inputs": list(wiring.inputs), "outputs": outputs}


def first_request(*, cell: str, inputs: str, target: str) -> dict[str, Any]:
    """Write the inputs of one inference of a cell to an `.npz` file."""
    known = Cell.from_path(cell)
    task = catalog.task(known.task)
    if task.request is not None:
        raise InputError("a cell that generates runs many inferences, and no part of them can be cut out")
    save_arrays(Path(target), profile_requests.first_request(task, inputs, known.batch))
    return {}


def common_tensors(*, path: str, other: str, feeds: str) -> dict[str, Any]:
    """Tensors that two ONNX files both compute: by their names and makers, and by equal values on real inputs.

    Args:
        path: the first file.
        other: the second file.
        feeds: `.npz` file with the inputs of one inference.

    Returns:
        `names`: those of the second file, each with the name in the first one.
    """
    from bench.onnxfile.diff.common_tensors import common_tensors as by_names
    from bench.onnxfile.file import lazy

    inputs = load_arrays(Path(feeds))
    proposed = by_names(lazy.read(Path(path)), lazy.read(Path(other)))
    sums = [_sums(Path(file), inputs) for file in (path, other)]
    names = {new: old for new, old in proposed.items() if _are_alike(sums[0].get(old), sums[1].get(new), 0.5)}
    named_before = set(names.values())
    left = {name: value for name, value in sums[0].items() if name not in named_before}
    for new, value in sums[1].items():
        if new not in names:
            same = [old for old, earlier in left.items() if _are_equal(earlier, value)]
            if len(same) == 1:
                names[new] = same[0]
                del left[same[0]]
    return {"names": names}


def _sums(path: Path, feeds: Arrays) -> dict[str, Any]:
    """For each tensor that a node makes, its type, its shape, weighted sums of some values, their norm, and a sum."""
    wiring_names = [name for node in describe(path=str(path))["nodes"] for name in node["makes"]]
    sums: dict[str, Any] = {}
    for start in range(0, len(wiring_names), _AT_ONCE):
        for name, array in _values(path, feeds, wiring_names[start : start + _AT_ONCE]).items():
            if isinstance(array, np.ndarray) and array.dtype.kind in "fiub":
                flat = np.nan_to_num(array.astype(np.float64).ravel(), posinf=1e30, neginf=-1e30)
                number = min(flat.size, _MOST_SUMMED)
                weights = np.random.default_rng(flat.size).standard_normal((_NUM_SUMS, number))
                part = flat[np.linspace(0, flat.size - 1, number).astype(np.int64)]
                values = np.array([*(weights @ part), np.linalg.norm(part), np.abs(flat).sum()])
                sums[name] = (array.dtype.kind, array.shape, values)
    return sums


def _are_alike(before: Any, after: Any, tolerance: float) -> bool:
    """Whether the sums of two tensors are those of one: within a share of their size."""
    if before is None or after is None or before[:2] != after[:2]:
        return False
    scale = np.abs(before[2]).max()
    return bool(np.abs(before[2] - after[2]).max() <= tolerance * scale)


def _are_equal(before: Any, after: Any) -> bool:
    """Whether the sums of two tensors are those of the same values, and not of others of the same magnitude."""
    if not _are_alike(before, after, 1e-4):
        return False
    differences = np.abs(before[2] - after[2])[:_NUM_SUMS]
    return bool(differences.max() <= 1e-3 * before[2][_NUM_SUMS])


def _values(path: Path, feeds: Arrays, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Tensors of a model on real inputs, computed by ONNX Runtime without optimizations of its own."""
    from bench.onnxfile.file.lazy import Stored
    from bench.onnxfile.file.replace import replace_all
    from bench.onnxfile.file.wiring import Wiring
    from bench.onnxfile.sessions import cpu_session

    wiring = Wiring(Stored(model=onnx.load(path, load_external_data=False), path=path))
    values = {name: array for name, array in feeds.items() if name in names}
    computed = [name for name in dict.fromkeys(names) if name in wiring.made_by]
    if missing := [name for name in names if name not in values and name not in wiring.made_by]:
        raise InputError(f"no node makes the tensor {missing[0]!r}")
    if computed:
        replace_all(wiring.model.graph.output, (onnx.ValueInfoProto(name=name) for name in computed))
        session = cpu_session(wiring.model.SerializeToString(), weights_folder=path.parent.resolve())
        own = {value.name for value in session.get_inputs()}
        outputs = session.run(computed, {name: array for name, array in feeds.items() if name in own})
        values |= zip(computed, outputs, strict=True)
    return values


def write_cuts(*, path: str, feeds: str, cuts: list[dict[str, Any]]) -> dict[str, Any]:
    """Write parts of an ONNX file as files of their own, each with its real inputs.

    Args:
        path: the file.
        feeds: `.npz` file with the inputs of one inference of the whole.
        cuts: of each part its `inputs` and `outputs`, by name, and the files to write: `target` and `target_feeds`.

    Returns:
        For each part, as `cuts`: `outputs` as fields of `TensorSpec`, and `error` in place of them where it has none.
    """
    from bench.onnxfile.edits.parts import Cutter, save
    from bench.onnxfile.file import lazy
    from bench.onnxfile.shapes.node import Value

    stored = lazy.read(Path(path))
    cutter = Cutter(stored)
    names = dict.fromkeys(name for cut in cuts for name in (*cut["inputs"], *cut["outputs"]))
    values = _values(Path(path), load_arrays(Path(feeds)), list(names))
    known = dict(cutter.values)
    for name, array in values.items():
        inferred = known.get(name)
        is_known = inferred is not None and inferred.dtype and inferred.shape is not None
        if isinstance(array, np.ndarray) and not is_known:
            dtype = onnx.helper.np_dtype_to_tensor_dtype(_onnx_array(array).dtype)
            known[name] = Value(dtype, tuple(array.shape))
    cutter.values = known
    written: list[dict[str, Any]] = []
    for cut in cuts:
        try:
            if odd := [name for name in (*cut["inputs"], *cut["outputs"]) if not isinstance(values[name], np.ndarray)]:
                raise InputError(f"{odd[0]!r} is no tensor but a sequence, with which no part can begin or end")
            save(cutter.part(cut["inputs"], cut["outputs"]), stored, Path(cut["target"]))
            save_arrays(Path(cut["target_feeds"]), {name: without_objects(values[name]) for name in cut["inputs"]})
        except InputError as error:
            written.append({"error": str(error)})
        else:
            written.append({"outputs": [_spec(name, values[name]) for name in cut["outputs"]]})
    return {"cuts": written}


def _onnx_array(array: np.ndarray) -> np.ndarray:
    """An array of strings as ONNX names their type; all other arrays as they are."""
    return array.astype(object) if array.dtype.kind == "U" else array


def _spec(name: str, array: np.ndarray) -> dict[str, Any]:
    return {"name": name, "dtype": dtype_name(without_objects(array)), "shape": list(array.shape)}


class CutTask(Task):
    """A part of a model as what a runtime opens: it has inputs and outputs, and neither samples nor a metric."""

    sources = ()

    def __init__(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        super().__init__(name="part", path=Path("part"))
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)  # type: ignore[misc]

    def build(self, source: str, weights: Path) -> Any:
        raise NotImplementedError

    def samples(self, split: str) -> Samples:
        raise NotImplementedError

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        raise NotImplementedError

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        raise NotImplementedError


def _open(cell: Cell, model: str, arrays: Arrays, outputs: Sequence[Mapping[str, Any]] | None) -> Session:
    """Open a part with a cell's runtime; without names of outputs, it is the whole artifact of the cell."""
    runtime, how = catalog.runtime(cell.runtime), operations.arguments_of(cell)
    if outputs is None:
        return runtime.open(Path(model), task=catalog.task(cell.task), **how)
    specs = [TensorSpec(name=spec["name"], dtype=spec["dtype"], shape=tuple(spec["shape"])) for spec in outputs]
    inputs = [TensorSpec(**_spec(name, array)) for name, array in arrays.items()]
    return runtime.open(Path(model), task=CutTask(inputs, specs), **how)


def open_cut(*, cell: str, model: str, feeds: str, outputs: list[dict[str, Any]] | None) -> Opened:
    """Open a part with a cell's runtime and run it once, as `operations.open_session` does with an artifact.

    Args:
        cell: path of the cell.
        model: the part's file.
        feeds: `.npz` file with its inputs.
        outputs: fields of `TensorSpec` of each output; None for the whole artifact of the cell.
    """
    known, arrays = Cell.from_path(cell), load_arrays(Path(feeds))
    operations.import_packages(cell=cell, artifact=model)
    memory = MemoryLog(process=catalog.runtime(known.runtime).program_pid())
    with memory.phase("load"):
        load_ns, session = clock.time_call(lambda: _open(known, model, arrays, outputs))
    if session.untimed:
        raise ArtifactError(f"not timed: {session.untimed}")
    with memory.phase("first_inference"):
        first_inference_ns = clock.time_call_ns(lambda: session.run(arrays))
    facts = {
        "load_ns": load_ns,
        "first_inference_ns": session.last_ns or first_inference_ns,
        "quiet": clock.settle(session.pid),
        "pid": session.pid,
    }
    return Opened(session=session, requests=[arrays], memory=memory, facts=facts)


def run_cut(*, cell: str, model: str, feeds: str, outputs: list[dict[str, Any]], target: str) -> dict[str, Any]:
    """Run a part once with a cell's runtime, and write its outputs to the `.npz` file `target`."""
    known, arrays = Cell.from_path(cell), load_arrays(Path(feeds))
    operations.import_packages(cell=cell, artifact=model)
    with _open(known, model, arrays, outputs) as session:
        results = [without_objects(np.array(array)) for array in session.run(arrays)]
    save_arrays(Path(target), dict(zip([spec["name"] for spec in outputs], results, strict=True)))
    return {}


def compare_outputs(*, before: str, after: str) -> dict[str, Any]:
    """How far the arrays of two `.npz` files differ, pair by pair in their order: see `drift.relative_error`.

    Texts are the same, or differ without a bound.

    Returns:
        `errors`, one for each pair: None where two arrays cannot be compared, and -1 for a difference without a bound.
    """
    from bench.onnxfile.diff.drift import relative_error

    pairs = zip(load_arrays(Path(before)).values(), load_arrays(Path(after)).values(), strict=True)
    errors = [
        relative_error(old, new) if not _are_texts(old, new) else np.inf if (old != new).any() else 0.0
        for old, new in pairs
    ]
    return {"errors": [error if error is None or np.isfinite(error) else -1.0 for error in errors]}


def _are_texts(before: np.ndarray, after: np.ndarray) -> bool:
    return before.dtype.kind == after.dtype.kind == "U" and before.shape == after.shape


def same_feeds(*, feeds: str, names: dict[str, str], own: str, target: str) -> dict[str, Any]:
    """Write the inputs of a part of the first side as inputs of the second side's.

    Args:
        feeds: `.npz` file with the inputs of the first side's part.
        names: names there, by the names of the second side's inputs.
        own: `.npz` file with the second side's own inputs, whose types stay, and those values that the first has not.
        target: the `.npz` file to write.
    """
    values, typed = load_arrays(Path(feeds)), load_arrays(Path(own))
    arrays = {
        name: values[names[name]].astype(array.dtype, copy=False) if names.get(name) in values else array
        for name, array in typed.items()
    }
    save_arrays(Path(target), arrays)
    return {}


def randomize(*, model: str, feeds: str, target: str, target_feeds: str) -> dict[str, Any]:
    """Replace the floats of a part's weights and inputs by random ones of the same shape, spread and share of zeros.

    Integers stay: they are indices, shapes and zero points, of which random ones are wrong. Texts of the exporter, such
    as lines of the source of each node, are left out.

    Args:
        model: the part's file.
        feeds: `.npz` file with its inputs.
        target: the file to write.
        target_feeds: the `.npz` file to write.

    Returns:
        `num_kept`: number of weights and inputs of more than a few values that are the model's own still.
    """
    from bench.onnxfile.edits.parts import save
    from bench.onnxfile.file import lazy
    from bench.onnxfile.file.digest import all_graphs, all_nodes

    stored = lazy.read(Path(model))
    sizes = [array.size for array in load_arrays(Path(feeds)).values() if array.dtype.kind != "f"]
    sizes_of = {name for node in all_nodes(stored.model) if node.op_type in _RESIZING for name in node.input[1:3]}
    for tensor in stored.model.graph.initializer:
        array = stored.array(tensor)
        if array.dtype.kind == "f" and array.size > 1 and tensor.name not in sizes_of:
            changed = onnx.numpy_helper.from_array(_random_like(tensor.name, array), tensor.name)
            tensor.CopyFrom(changed)
        else:
            sizes.append(array.size)
    inner = [tensor for graph in list(all_graphs(stored.model))[1:] for tensor in graph.initializer]
    sparse = [tensor.values for graph in all_graphs(stored.model) for tensor in graph.sparse_initializer]
    attributes = [attribute for node in all_nodes(stored.model) for attribute in node.attribute]
    stated = [tensor for each in attributes for tensor in ([each.t] if each.HasField("t") else each.tensors)]
    sizes += [math.prod(tensor.dims) for tensor in (*inner, *sparse, *stated)]
    sizes += [len(each.floats) + len(each.ints) + len(each.strings) for each in attributes]
    for part in (*all_graphs(stored.model), *all_nodes(stored.model)):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    save(stored.model, stored, Path(target))
    arrays = load_arrays(Path(feeds))
    save_arrays(
        Path(target_feeds),
        {name: _random_like(name, array) if array.dtype.kind == "f" else array for name, array in arrays.items()},
    )
    return {"num_kept": sum(size > _FEW_VALUES for size in sizes)}


def _random_like(name: str, array: np.ndarray) -> np.ndarray:
    """Random values, the same for the same name, with as many zeros, the same sign where all have one, and spread."""
    import zlib

    generator = np.random.default_rng([zlib.crc32(name.encode()), array.size])
    is_finite = np.isfinite(array)  # masks may have infinities, which stay
    spread = float(array[is_finite].astype(np.float64).std()) if is_finite.any() else 0.0
    values = generator.standard_normal(array.shape) * (spread or 1.0)
    if array.size and (array >= 0).all():  # such as variances, of which a root is taken
        values = np.abs(values)
    zeros = np.zeros(array.size, bool)
    zeros[: int((array == 0).sum())] = True
    values = np.where(generator.permutation(zeros).reshape(array.shape), 0, values).astype(array.dtype)
    return np.where(is_finite, values, array)


def count_instructions(*, script: str, num_inferences: int) -> dict[str, Any]:
    """Instructions of a process that runs a reproducer's script for some inferences, by valgrind's callgrind."""
    import os
    import re
    import shutil
    import subprocess
    import sys
    import tempfile

    fixed = [path, "-R"] if (path := shutil.which("setarch")) else []  # the same addresses in each run
    with tempfile.TemporaryDirectory() as folder:
        command = [*fixed, "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command += [sys.executable, "-s", script, "--count", str(num_inferences)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**inherited, "PYTHONHASHSEED": "0"}  # sets have the same order in each run
        ran = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    shown = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode or shown is None:
        raise InputError(f"valgrind failed: {ran.stderr.strip().splitlines()[-1:]}")
    return {"instructions": int(shown.group(1))}
