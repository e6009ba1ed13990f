"""An `.onnx` file. It holds data alone; shapes that it leaves open are found by running it once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import mmap
import posixpath
import re
import shutil
import threading
import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import UNKNOWN, Arrays, TensorSpec
from bench.api.arrays import Domain, without_objects
from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx, onnxruntime
from bench.onnxfile.file import foreign, lazy, training
from bench.onnxfile.file.domains import domains
from bench.onnxfile.file.foreign import Mend
from bench.onnxfile.file.newer import narrow_types, restate_ir_version, too_new
from bench.onnxfile.file.sizes import stated_size
from bench.onnxfile.file.stale import drop_stale
from bench.onnxfile.file.words import words
from bench.onnxfile.sessions import cpu_session, runtime_version
from bench.onnxfile.shapes import fitting
from bench.onnxfile.shapes.size_choice import choose
from bench.onnxfile.shapes.size_options import tell_fitted
from bench.tasks import probe, sizes
from bench.tasks.failures import one_line
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found, Interface
from bench.tasks.user_task import AS_IS, OnnxTask

_DATA_ENDINGS = ("_data", ".data")
"""What exporters add to the name of a file for that of its weights, before a number where there are several."""
_LOCATION = re.compile(rb"\x0a\x08location\x12(?:([\x01-\x7f])|([\x80-\xff])([\x01-\x07]))")
"""An entry of a tensor's external data that names a file, up to the name, whose length is one byte or two."""
_MOST_MENTIONED = 1_000_000


def parts(name: str, names: Collection[str], trust: bool) -> list[str]:
    """The file, and those of its weights as far as their names tell; the file itself names them all."""
    begins = tuple(name + ending for ending in _DATA_ENDINGS)
    return [name, *sorted(file_name for file_name in names if file_name.startswith(begins))]


def mentions(path: Path) -> set[str]:
    """The files of external data that a file names; it is searched for their names, and not parsed."""
    locations: set[str] = set()
    if not path.stat().st_size:
        return locations
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for entry in itertools.islice(_LOCATION.finditer(content), _MOST_MENTIONED):
            length = entry[1][0] if entry[1] else (entry[2][0] & 0x7F) | entry[3][0] << 7
            with contextlib.suppress(UnicodeDecodeError):
                locations.add(posixpath.normpath(content[entry.end() : entry.end() + length].decode()))
    return locations


FORMAT = Format(
    described="an .onnx file",
    suffixes=(".onnx",),
    parts=parts,
    mentions=mentions,
    num_cautions=2,
    imports=("onnx", "onnxruntime"),
)
MENDS: Sequence[Sequence[Mend]] = ((restate_ir_version,), (restate_ir_version, drop_stale))
"""Mends of a file that ONNX Runtime refuses; the first that make it open a copy are taken."""


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Embed the external data of the file, and run it to learn the sizes and outputs that it leaves open.

    A file that ONNX Runtime refuses because of what it states wrongly is mended, and the mended copy is the task's. One
    that fails with ONNX Runtime's optimizations on is tried with them off, and the task says what came of it. A model
    that does not run here, or that ended the process both ways, is taken as it states itself, with a note: another
    runtime may run it.

    Raises:
        InputError: the file is no model that can be fed and compared, or the sizes asked for are not the model's, or
            contradict what it states or what its nodes require.
    """
    model, inspection, mended = path, foreign.inspect(path), None
    if inspection["data"] or inspection["rewritten"]:
        model = folder / OnnxTask.weights
        foreign.write(path, model)
    notes = list(inspection["rewritten"])
    session = options.crashed[0] if options.crashed else _opened(model)
    if isinstance(session, str) and not options.crashed and (mended := _mended(model, folder)):
        notes.append(f"ONNX Runtime refuses the file as it is ({session}); measured is a mended copy: {mended}")
        session, inspection = _opened(folder / OnnxTask.weights), foreign.inspect(folder / OnnxTask.weights)
    weights = folder / OnnxTask.weights if mended else model
    failed: str | None = None
    """What was seen with ONNX Runtime's optimizations on, where the model was not run so."""
    if isinstance(session, str):
        failed = (
            f"the process that examined the file was {session}" if options.crashed else f"it is refused ({session})"
        )
        session = options.crashed[1] if len(options.crashed) > 1 else _opened(weights, optimized=False)
    inputs, outputs = (tuple(TensorSpec(**spec) for spec in inspection[side]) for side in ("inputs", "outputs"))
    user_sizes = sizes.given_sizes(inputs, options)
    likely = sizes.chosen(inputs, user_sizes, options)
    stored = lazy.read(weights)
    limits: dict[str, Domain] = {**domains(stored), **words(stored)}
    required = fitting.requirements(stored)
    proposed = list(fitting.fitted(required, likely)) if likely.guessed else []
    texts = fitting.followed(required, proposed[0], likely) if proposed else {}
    inputs, outputs = _renamed(inputs, texts), _renamed(outputs, texts)
    known = probe.stated_of(inputs)
    fitting_sizes = [proposal.sizes for proposal in proposed] or [likely.values]
    first = [
        {**each, **choose(known, user_sizes, each, strict=options.arrays is None).values} for each in fitting_sizes
    ]
    chosen: Mapping[str, int] = first[0]
    has_run = False
    trying = _Trying(
        inputs=inputs,
        stated=outputs,
        given=user_sizes,
        asked=options,
        first=tuple(first),
        limits=limits,
        deadline_s=time.monotonic() + options.try_s,
    )
    try:
        if isinstance(session, str):
            raise sizes.NothingRunsError(_not_opened(session, stored.model, failed, options))
        try:
            tried = trying.sizes_of(session)
        except sizes.NothingRunsError as error:
            if failed or (plain := trying.without_optimizations(weights)) is None:
                raise
            (session, tried), failed = plain, str(error)
        chosen = {**tried.sizes, **{dim: tried.sizes[text] for dim, text in texts.items()}}
        outputs, has_run = tried.outputs, True
        notes += tried.doubts
        stated = {value.name for value in lazy.read(path).model.graph.output}  # the others are ours
        if wrong := _wrongly_stated(stored, [spec for spec in tried.seen if spec.name in stated]):
            _reopen(weights, folder, outputs, wrong)
            notes += [f"{line}; measured is a copy that leaves its sizes open" for line in wrong.values()]
    except sizes.NothingRunsError as error:
        if not isinstance(session, str) and (why := fitting.contradiction(required, likely)):
            raise InputError(why) from error
        notes.append(f"no run has checked the sizes of its inputs: {error}")
    notes += tell_fitted(chosen, likely.sizes, proposed[0].reasons if proposed else {})
    batched = foreign.is_batched([spec.shape for spec in (*inputs, *outputs)])
    interface = Interface(inputs=inputs, outputs=outputs, batched=batched)
    attributes: dict[str, Any] = {"domains": limits} if limits else {}
    if mended:
        attributes["sources"] = ("onnx", AS_IS)
    if failed and not isinstance(session, str):
        attributes["unoptimized"] = True
        seen = "it opened and ran" if has_run else "it opened"
        notes.append(f"{_optimizations_on(failed)}; with them off, {seen}: it is measured like that, too")
    run = None if isinstance(session, str) else functools.partial(_outputs, session, outputs, options)
    facts = interface.facts(
        OnnxTask, notes=tuple(notes), sizes=chosen, user_sizes=user_sizes, attributes=attributes, run=run
    )
    return facts.telling(training.of_onnx(stored.model))


def _renamed(specs: Iterable[TensorSpec], texts: Mapping[str, str]) -> tuple[TensorSpec, ...]:
    """Specs with other texts for some dimensions."""
    return tuple(
        dataclasses.replace(spec, shape=tuple(texts.get(str(dim), dim) for dim in spec.shape)) for spec in specs
    )


def _opened(path: Path, *, optimized: bool = True) -> onnxruntime.InferenceSession | str:
    """A session of a model, or why ONNX Runtime cannot open it."""
    onnxruntime.set_default_logger_severity(4)
    try:
        return cpu_session(path, optimized=optimized)
    except Exception as error:
        return one_line(error)


def _mended(model: Path, folder: Path) -> str | None:
    """Make a mended copy the weights of the task, and keep the model beside it, if ONNX Runtime opens the copy.

    Returns:
        What was mended; None if the copy is no better.
    """
    copy = folder / "mended.onnx"
    for mends in MENDS:
        description = foreign.write(model, copy, mends=mends)
        if description is not None and not isinstance(_opened(copy), str):
            shutil.copyfile(model, folder / OnnxTask.original)
            copy.replace(folder / OnnxTask.weights)
            return description
        copy.unlink()
    return None


def _optimizations_on(failed: str) -> str:
    """What was seen with ONNX Runtime's optimizations on, for the user: no more, for other causes are possible."""
    return f"with the graph optimizations of ONNX Runtime {runtime_version()} on, {failed}"


def _not_opened(refusal: str, model: onnx.ModelProto, failed: str | None, options: Asked) -> str:
    """Why ONNX Runtime has no session of a model, for the user.

    Args:
        refusal: what it says with its optimizations off, or how the process ended.
        model: the model.
        failed: what was seen with them on.
        options: tells whether processes ended.
    """
    why = too_new(model) or narrow_types(model)
    message = f"ONNX Runtime {runtime_version()} cannot open it: {refusal}" + (f"; {why}" if why else "")
    if not options.crashed or failed is None:
        return message
    return f"{_optimizations_on(failed)}; with them off, {f'it was {refusal}' if len(options.crashed) > 1 else message}"


def _reopen(model: Path, folder: Path, outputs: Iterable[TensorSpec], wrong: Container[str]) -> None:
    """Make the weights of the task a copy of a model that leaves open the sizes of outputs that it states wrongly.

    Tools complete the statement of an output by what they infer, and ONNX Runtime refuses one that contradicts itself.
    """
    copy = folder / "reopened.onnx"
    foreign.write(model, copy, ranks={spec.name: len(spec.shape) for spec in outputs if spec.name in wrong})
    copy.replace(folder / OnnxTask.weights)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Tried:
    """What the runs of a model told.

    Attributes:
        sizes: sizes with which it runs.
        outputs: the outputs as the file states them, completed by the runs.
        doubts: lines about outputs that say little.
        seen: the outputs as they were in the runs alone.
    """

    sizes: Mapping[str, int]
    outputs: tuple[TensorSpec, ...]
    doubts: tuple[str, ...]
    seen: tuple[TensorSpec, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Trying:
    """How a model is run to find its sizes and outputs.

    Attributes:
        inputs, stated: the inputs and outputs as the file states them.
        given, asked, first, limits: as for `sizes.try_out`.
        deadline_s: when all runs must have ended, by the monotonic clock.
    """

    inputs: tuple[TensorSpec, ...]
    stated: tuple[TensorSpec, ...]
    given: Mapping[str, int]
    asked: Asked
    first: Sequence[Mapping[str, int]]
    limits: Mapping[str, Domain]
    deadline_s: float

    def sizes_of(self, session: onnxruntime.InferenceSession) -> _Tried:
        """Sizes with which a session runs.

        Raises:
            NothingRunsError: it runs with no size that was tried.
        """
        run = functools.partial(_outputs, session, self.stated, self.asked, deadline=self.deadline_s)
        chosen, interface = sizes.try_out(run, self.inputs, self.given, self.asked, self.first, self.limits)
        outputs = tuple(_merged(spec, seen) for spec, seen in zip(self.stated, interface.outputs, strict=True))
        doubts = sizes.doubts(run, self.inputs, chosen, self.asked, self.limits)
        return _Tried(sizes=chosen, outputs=outputs, doubts=doubts, seen=interface.outputs)

    def without_optimizations(self, path: Path) -> tuple[onnxruntime.InferenceSession, _Tried] | None:
        """A session without ONNX Runtime's optimizations, and what it told; None where it does not run either."""
        session = "the time is up" if time.monotonic() > self.deadline_s else _opened(path, optimized=False)
        if isinstance(session, str):
            return None
        try:
            return session, self.sizes_of(session)
        except sizes.NothingRunsError:
            return None


def _outputs(
    session: onnxruntime.InferenceSession,
    stated: Sequence[TensorSpec],
    options: Asked,
    feeds: Arrays,
    *,
    deadline: float | None = None,
) -> Arrays:
    """The outputs of one run by name, which must end by the deadline, or within the time for all runs."""
    names = [spec.name for spec in stated]
    ends_s = time.monotonic() + options.try_s if deadline is None else deadline
    arrays = (without_objects(np.asarray(array)) for array in _run_until(ends_s, session, names, feeds, options))
    return dict(zip(names, arrays, strict=True))


def _run_until(
    deadline: float, session: onnxruntime.InferenceSession, names: list[str], feeds: Arrays, user_options: Asked
) -> list[Any]:
    """The outputs of one run, which ONNX Runtime ends between two nodes when the time is up, as in an endless Loop.

    Raises:
        TimeoutError: the time was up before the run ended.
    """
    options = onnxruntime.RunOptions()
    left_s = min(deadline - time.monotonic(), threading.TIMEOUT_MAX)
    timer = threading.Timer(max(0.0, left_s), setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        arrays: list[Any] = session.run(names, dict(feeds), options)
    except Exception as error:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"its run did not end within {user_options.try_s:g} s") from error
        raise
    finally:
        timer.cancel()
    return arrays


def _wrongly_stated(stored: lazy.Stored, seen: Iterable[TensorSpec]) -> dict[str, str]:
    """By the name of an output that has another rank or size than the file states, a sentence that says so.

    An output without a statement is among them, because tools require one.
    """
    tensors = {value.name: value.type.tensor_type for value in stored.model.graph.output}
    sentences = {}
    for spec in seen:
        tensor = tensors[spec.name]
        sizes = [UNKNOWN if (size := stated_size(dim)) is None else size for dim in tensor.shape.dim]
        differs = len(sizes) != len(spec.shape) or any(
            size not in (UNKNOWN, other) for size, other in zip(sizes, spec.shape, strict=True)
        )
        if differs or not tensor.HasField("shape"):
            stated, runs = ("x".join(map(str, shape)) or "a single number" for shape in (sizes, spec.shape))
            stated = stated if tensor.HasField("shape") else "no shape"
            sentences[spec.name] = f"output {spec.name!r} is {runs} when the file runs, and the file states {stated}"
    return sentences


def _merged(stated: TensorSpec, seen: TensorSpec) -> TensorSpec:
    """The output that a file states, with the dimensions of the output of a run where the file states none.

    A seen size may be another with other data, so only names complete a shape of the same rank; a stated size that is
    not the seen one is wrong.
    """

    def merged(dim: int | str, other: int | str) -> int | str:
        if isinstance(dim, int) and isinstance(other, int):
            return other
        return dim if dim != UNKNOWN or isinstance(other, int) else other

    shape = seen.shape
    if len(stated.shape) == len(seen.shape):
        shape = tuple(map(merged, stated.shape, seen.shape))
    return dataclasses.replace(stated, shape=shape)
