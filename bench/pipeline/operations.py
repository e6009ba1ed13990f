"""Requests of the pipeline to a worker: to make, verify, inspect, profile and open artifacts.

A worker calls the function that a request names (see `bench.measure.process.Child.request`).
Requests name cells by their paths.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Samples, Session, Task, ragged
from bench.api.arrays import load_arrays, save_arrays
from bench.api.cell import Cell
from bench.api.decoder import IDS
from bench.api.errors import ArtifactError
from bench.api.generation import Generator
from bench.measure import clock
from bench.measure.memory import MemoryLog, rss_bytes_if_started, rss_bytes_of_children
from bench.measure.session import Opened
from bench.onnxfile.deferred import np
from bench.pipeline import feeding, output_checks
from bench.plugins import catalog
from bench.tasks import formats

_TOLD = ("untimed", "tick_ns", "download_bytes", "about")
"""Attributes of a session that are fields of `Quality` where it has them."""


def export(*, task: str, source: str, exporter: str, target: str) -> dict[str, Any]:
    """Export a task's model to an artifact."""
    from bench.plugins import steps  # only here: a worker that is measured needs no checks

    info = steps.export(catalog.exporter(exporter), catalog.task(task), source, Path(target))
    return facts(info, Path(target))


def write_graph(*, format: str, weights: str, target: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Write the graph of a model as an ONNX file, by the module of the model's format."""
    formats.module_of(format).write_graph(Path(weights), Path(target), shapes)
    return {}


def transform(*, task: str, variant: str, source: str, target: str) -> dict[str, Any]:
    """Apply a variant to an artifact."""
    from bench.plugins import steps  # only here: a worker that is measured needs no checks

    info = steps.transform(catalog.variant(variant), catalog.task(task), Path(source), Path(target))
    return facts(info, Path(target))


def parts(*, task: str, variant: str, source: str) -> dict[str, Any]:
    """The parts of an artifact that a variant treats each in its own way, see `Variant.parts`."""
    pieces = catalog.variant_file(variant).parts(Path(source), task=catalog.task(task))
    return {"parts": [dataclasses.asdict(part) for part in pieces]}


def facts(info: dict[str, Any], path: Path) -> dict[str, Any]:
    """The facts about a step's artifact: those that the plugin returned, and those that an ONNX file itself shows."""
    if path.suffix != ".onnx":
        return {"info": info, "canonical": None, "num_params": None, "repeated": None, "operators": None}
    from bench.onnxfile.file.digest import canonical_digest, operator_counts
    from bench.onnxfile.weights import parameter_counts

    counts = parameter_counts.of_onnx(path)
    return {
        "info": info,
        "canonical": None if info.get("alone") else canonical_digest(path),
        "num_params": counts.num_params,
        "repeated": counts.repeated,
        "operators": operator_counts(path),
    }


def parameters_beside_source(*, task: str, source: str, artifact: str) -> dict[str, Any]:
    """Why an exported ONNX file has more or fewer parameters than its PyTorch model, or None: `note`."""
    import torch

    from bench.onnxfile.weights import beside_source

    definition = catalog.task(task)
    model = definition.build(source, definition.weights_path)
    if not isinstance(model, torch.nn.Module):
        return {"note": None}
    arrays = {name: value.detach().float().numpy() for name, value in model.named_parameters()}
    return {
        "note": beside_source.explanation(arrays, beside_source.arrays_of_onnx(Path(artifact)), framework="PyTorch")
    }


def save_inputs(*, task: str, split: str, target: str) -> dict[str, Any]:
    """Write the inputs of a split to a file for the measured workers, so that they do not load a dataset."""
    samples = catalog.task(task).samples(split)
    save_arrays(Path(target), samples.inputs)
    return {"num_samples": samples.num_samples}


def cost(*, artifact: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """MACs and weight bytes of an ONNX artifact; `macs` is None where the work of some node is unknown."""
    from bench.onnxfile.costs.profile import profile

    costs = profile(Path(artifact), shapes=shapes, observe=False)
    return {"macs": costs.macs if costs.is_complete else None, "weight_bytes": costs.weight_bytes}


def bytes_read(*, artifact: str) -> dict[str, Any]:
    """Bytes of an ONNX artifact's weights that an inference reads, see `bench.onnxfile.weights.reading`."""
    from bench.onnxfile.weights import reading

    return {"num_bytes": reading.bytes_read(Path(artifact))}


def verify(
    *,
    cell: str,
    artifact: str,
    reference: str | None,
    save_outputs: str | None,
    until: dict[str, Any] | None = None,
    known: dict[str, Any] | None = None,
    begun: str | None = None,
) -> dict[str, Any]:
    """Run a split through an artifact and judge the outputs against the outputs of the reference.

    Args:
        cell: path of the cell.
        artifact: path of the artifact.
        reference: `.npz` file with the outputs of the reference for the split; None where this is the reference.
        save_outputs: `.npz` file to write the outputs to, those of a part of the split in its order.
        until: fields of `looks.Until`; None for the whole split.
        known: fields of the reference's `Quality`, where `until` is given.
        begun: `.npz` file with the outputs of the samples that an earlier verification ran; see `looks.run`.

    Returns:
        Fields of `Quality`, and `shares`, see `bench.pipeline.rounding.Shares`.
    """
    import msgspec  # only here: it would count in the memory of a worker that is measured

    from bench.pipeline import judging, looks, rounding
    from bench.records.lines import Quality

    opened = Cell.from_path(cell)
    task, runtime = catalog.task(opened.task), catalog.runtime(opened.runtime)
    samples = task.samples("test")
    import_packages(cell=cell, artifact=artifact)
    with output_checks.opened(runtime, Path(artifact), task=task, **arguments_of(opened)) as session:
        call, precision = judged_call(session, margins=reference is None), session.precision
        expected = feeding.load_outputs(Path(reference)) if reference is not None else None
        if until is None or expected is None or task.request is not None:
            outputs = feeding.run_all(call, task, samples, opened.batch)
            judged = judging.judge(task, samples, outputs, expected, precision=precision)
        else:
            how: dict[str, Any] = {"reference": msgspec.convert(known, Quality), "precision": precision}
            how["begun"] = feeding.load_outputs(Path(begun)) if begun is not None else None
            condition = looks.Until(**until)
            outputs, part, judged = looks.run(call, task, samples, expected, opened.batch, condition, **how)
            expected = expected if part is None else feeding.rows_of(expected, part.rows)
        if save_outputs is not None:
            feeding.save_outputs(Path(save_outputs), outputs)
        figures = {"shares": rounding.shares(outputs, expected or outputs)}
        return {**msgspec.to_builtins(judged), **figures, **_of_session(session, task, samples, outputs, opened.batch)}


def run_split(
    *, cell: str, artifact: str, inputs: str, save_outputs: str, is_reference: bool = False
) -> dict[str, Any]:
    """Run a whole split through an artifact and keep the outputs, for `judge` in another process to judge.

    Args:
        cell: path of the cell.
        artifact: path of the artifact.
        inputs: `.npz` file with the inputs of the split.
        save_outputs: `.npz` file to write the outputs to.
        is_reference: whether other outputs will be compared with these.

    Returns:
        The fields of `Quality` that the session tells.
    """
    known = Cell.from_path(cell)
    task, runtime = catalog.task(known.task), catalog.runtime(known.runtime)
    samples = Samples(inputs=load_arrays(Path(inputs)), targets=None)
    import_packages(cell=cell, artifact=artifact)
    with output_checks.opened(runtime, Path(artifact), task=task, **arguments_of(known)) as session:
        outputs = feeding.run_all(judged_call(session, margins=is_reference), task, samples, known.batch)
        feeding.save_outputs(Path(save_outputs), outputs)
        return _of_session(session, task, samples, outputs, known.batch)


def judge(*, cell: str, outputs: str, reference: str | None, precision: str | None) -> dict[str, Any]:
    """Judge the outputs that `run_split` kept against those of the reference: what `verify` returns besides."""
    from msgspec import to_builtins

    from bench.pipeline import judging, rounding

    task = catalog.task(Cell.from_path(cell).task)
    arrays, expected = (feeding.load_outputs(Path(path)) if path is not None else None for path in (outputs, reference))
    assert arrays is not None
    judged = judging.judge(task, task.samples("test"), arrays, expected, precision=precision)
    return {**to_builtins(judged), "shares": rounding.shares(arrays, expected or arrays)}


def explained(*, cell: str, artifact: str, inputs: str, reference: str, seed: int) -> dict[str, Any]:
    """Run the reference with inputs and weights that are changed by a few roundings: see `bench.pipeline.rounding`.

    Args:
        cell: path of the reference.
        artifact: path of its artifact.
        inputs: `.npz` file with the inputs of the split.
        reference: `.npz` file with its outputs.
        seed: of the changes.

    Returns:
        `shares` of its outputs; None where the model computes in less than float32 by itself.
    """
    from bench.measure.scratch import Scratch
    from bench.pipeline import rounding

    known, generator = Cell.from_path(cell), np.random.default_rng(seed)
    task, runtime, path = catalog.task(known.task), catalog.runtime(known.runtime), Path(artifact)
    samples = Samples(inputs=rounding.changed_inputs(load_arrays(Path(inputs)), generator), targets=None)
    import_packages(cell=cell, artifact=artifact)
    with Scratch() as folder:
        try:
            if path.suffix == ".onnx":
                path = folder / path.name
                rounding.write_changed(Path(artifact), path, generator)
            opened = output_checks.opened(
                runtime, path, task=rounding.with_changed_weights(task, generator), **arguments_of(known)
            )
        except rounding.ReducedError:
            return {"shares": None}
        with opened as session:
            outputs = feeding.run_all(judged_call(session), task, samples, known.batch)
    return {"shares": rounding.shares(outputs, feeding.load_outputs(Path(reference)))}


def spot_check(
    *, cell: str, artifact: str, inputs: str, reference: str, verified: dict[str, Any], by: str, outputs: str
) -> dict[str, Any]:
    """Run a few samples through an artifact that was verified with another batch or number of threads.

    Args:
        cell: path of the cell.
        artifact: path of the artifact.
        inputs: `.npz` file with the inputs of the split.
        reference: `.npz` file with the outputs of the reference.
        verified: fields of the `Quality` of the same artifact in the verified cell.
        by: path of the verified cell.
        outputs: `.npz` file with the outputs of the verified cell, for the part of the split that it ran.

    Returns:
        Fields of the cell's `Quality` as `quality`, which is None where the outputs are not those of the verified cell.
    """
    import msgspec  # only here: it would count in the memory of a worker that is measured

    from bench.pipeline import judging, spot
    from bench.records.lines import Quality

    known = Cell.from_path(cell)
    task, runtime = catalog.task(known.task), catalog.runtime(known.runtime)
    samples = Samples(inputs=load_arrays(Path(inputs)), targets=None)
    rows = spot.rows(samples.num_samples, known.batch)
    few = Samples(inputs=feeding.rows_of(samples.inputs, rows), targets=None)
    import_packages(cell=cell, artifact=artifact)
    with output_checks.opened(runtime, Path(artifact), task=task, **arguments_of(known)) as session:
        own_outputs = feeding.run_all(judged_call(session), task, few, known.batch)
        figures = _of_session(session, task, few, own_outputs, known.batch)
    whole = msgspec.convert(verified, Quality)
    stored = feeding.load_outputs(Path(outputs))
    if not whole.is_whole:  # the part may be shorter than one inference here
        rows = rows[: len(next(iter(stored.values())))]
        own_outputs = feeding.rows_of(own_outputs, range(len(rows)))
    theirs = feeding.rows_of(stored, rows if whole.is_whole else range(len(rows)))
    beside_verified = judging.compare(task, own_outputs, theirs)
    beside_reference = judging.compare(task, own_outputs, feeding.rows_of(feeding.load_outputs(Path(reference)), rows))
    quality = spot.vouched(whole, by, beside_verified, beside_reference, num_samples=len(rows))
    figures["rss_bytes"] = max(figures["rss_bytes"], whole.rss_bytes)  # a few samples may take less than all of them
    return {"quality": None if quality is None else {**msgspec.to_builtins(quality), **figures}}


def judged_call(session: Session, *, margins: bool = False) -> Callable[[Arrays], Outputs]:
    """The call whose outputs are judged: of an engine that generates text not the one that is timed.

    Args:
        session: the session.
        margins: see `generation_quality.Answering`.
    """
    if not isinstance(session, Generator):
        return functools.partial(output_checks.outputs_of, session)
    from bench.pipeline import generation_quality

    return generation_quality.Answering(session, with_margins=margins)


def _rss_bytes(session: Session) -> int:
    """Resident size of the process that is started for a session, and of its program with all processes of that."""
    return rss_bytes_if_started() + (0 if session.pid is None else rss_bytes_of_children())


def _of_session(session: Session, task: Task, samples: Samples, outputs: Arrays, batch: int) -> dict[str, Any]:
    """The fields of `Quality` on a session that has run samples, and on the size of its requests."""
    if isinstance(session, Generator):
        request = session.request
        shapes = request.pass_shapes()
        cached = shapes[IDS][1] + request.depth
        return {
            "precision": session.precision,
            "num_params": session.num_params,
            "repeated": session.repeated,
            "input_shapes": shapes,
            # The pass reads its ids and the cache, and writes logits and its part of the cache.
            "io_bytes": 8 * shapes[IDS][1]
            + 4 * request.decoder.vocabulary
            + cached * request.decoder.cache_per_token * session.cache_bytes,
            "rss_bytes": _rss_bytes(session),
            "generation": {
                "cache_bytes_per_token": request.decoder.cache_per_token * session.cache_bytes,
                "reserved_tokens": session.reserved_tokens,
                "weight_bytes": session.weight_bytes,
                "is_decode": request.num_new > 1,
            },
        }
    feeds = feeding.feeds(task, samples.inputs, [0] * batch)
    num_made = len(next(iter(outputs.values())))
    made_bytes = sum(map(ragged.num_bytes, outputs.values())) * batch // num_made
    return {
        "precision": session.precision,
        "num_params": session.num_params,
        "repeated": session.repeated,
        "input_shapes": {name: array.shape for name, array in feeds.items()},
        "io_bytes": sum(array.nbytes for array in feeds.values()) + made_bytes,
        "rss_bytes": _rss_bytes(session),
        **{name: value for name in _TOLD if (value := getattr(session, name))},
    }


def arguments_of(cell: Cell) -> dict[str, Any]:
    """The arguments of `Runtime.open` that a cell determines, besides the artifact and the task.

    Raises:
        InputError: the runtime does not have the provider here.
    """
    catalog.runtime(cell.runtime).check_provider(str(cell.provider))
    return {"source": cell.source, "provider": str(cell.provider), "threads": cell.threads}


def inspect(*, cell: str, artifact: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Ask a runtime how it runs an artifact: in which precision, and which nodes on which provider."""
    known = Cell.from_path(cell)
    return catalog.runtime(known.runtime).inspect(Path(artifact), provider=str(known.provider), shapes=shapes)


def import_packages(*, cell: str, artifact: str) -> dict[str, Any]:
    """Import all that opening an artifact needs; see `Launch.import_ns`."""
    known = Cell.from_path(cell)
    # Of the time of large imports, up to a third is garbage collections that find next to nothing.
    gc.disable()
    try:
        import_ns = clock.time_call_ns(lambda: _import_packages(known, Path(artifact)))
    finally:
        gc.freeze()  # or the first collection, in the load, would look through all that was imported
        gc.enable()
    return {"import_ns": import_ns}


def _import_packages(cell: Cell, artifact: Path) -> None:
    """Import the packages of a cell's runtime, and those that build the model where the runtime builds it."""
    runtime = catalog.runtime(cell.runtime)
    runtime.import_packages()
    if runtime.builds(artifact):
        catalog.task(cell.task).import_packages(cell.source)


def open_session(*, cell: str, artifact: str, inputs: str) -> Opened:
    """Open an artifact and run its first request; the time and the memory of each step are recorded."""
    known = Cell.from_path(cell)
    task, runtime, how = catalog.task(known.task), catalog.runtime(known.runtime), arguments_of(known)
    requests = feeding.timed(task, load_arrays(Path(inputs)), known.batch)
    _import_packages(known, Path(artifact))  # where these are a program, it is the program whose memory counts
    memory = MemoryLog(process=runtime.program_pid())
    with memory.phase("imports"):
        _import_packages(known, Path(artifact))
    with memory.phase("load"):
        load_ns, session = clock.time_call(lambda: runtime.open(Path(artifact), task=task, **how))
    if session.untimed:
        raise ArtifactError(f"not timed: {session.untimed}")
    with memory.phase("first_inference"):
        first_inference_ns = clock.time_call_ns(lambda: session.run(requests[0]))
    first_inference_ns = session.last_ns or first_inference_ns
    import_ns = runtime.program_import_ns()
    facts = {
        **({} if import_ns is None else {"import_ns": import_ns}),
        "load_ns": session.load_ns or load_ns,
        "first_inference_ns": first_inference_ns,
        "num_requests": len(requests),
        "quiet": clock.settle(session.pid),
        "pid": session.pid,
    }
    return Opened(session=session, requests=requests, memory=memory, facts=facts)
