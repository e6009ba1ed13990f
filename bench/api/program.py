"""A runtime that is no Python package: a program beside the worker that opens artifacts, runs them and times itself.

The worker starts the program and asks it one thing at a time. A question and its answer are a frame each on the
program's standard input and output: the length of a header (4 bytes, little-endian), that of the data (8 bytes), the
header in JSON, and the data. The header's `arrays` name arrays with `dtype` and `shape`, whose values are in the data
in this order, each beginning at a multiple of `ALIGNED` bytes. A question has an `operation`:

- `start`, before all others: the answer is empty.
- `open`, with `artifact`, `threads`, `provider`, `inputs` and `outputs`: open an artifact, of which these outputs alone
  are to be given; the answer may have the `precision` in which it runs, the time `ns` that loading took, and the reason
  `untimed` why its times say nothing. `session` numbers what is opened, here and in all further questions about it.
- `run`, with one request's inputs as arrays: the answer has the outputs as arrays and `ns`, the time of the inference.
- `burst`, with `request`, the number of one of the requests that were kept, and the fields of
  `bench.measure.clock.BurstPlan`: the answer has `cold` and `steady`, as `bench.measure.clock.burst` returns them.
- `keep`, with `request` and the inputs of that request as arrays: the answer is empty.
- `close`: forget a session and its requests; the answer is empty.

An answer with `error` is a failure. What a program writes on its standard error is kept with the failure of its worker.
"""

from __future__ import annotations

import abc
import ctypes
import itertools
import json
import math
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from bench.api.errors import ArtifactError
from bench.api.plugin import Arrays, Outputs, Task
from bench.api.runtime import Runtime, Session

if TYPE_CHECKING:
    import numpy as np

_LENGTHS = struct.Struct("<IQ")
ALIGNED = 8
_MOST_HEADER_BYTES = 1 << 26
_MOST_DATA_BYTES = 1 << 32
_LEFT_OUT = "NODE_"
"""Variables of the user's that change what Node.js does."""
_OUT_OF_MEMORY = ("out of memory", "allocation failed", "bad_alloc", "bad allocation", "Failed to allocate")
"""Words in the errors of programs that have no memory left."""
BROWSER = "INFEROMETER_BROWSER"
"""Variable that names the browser of runtimes in a page; `--browser` sets it."""
_PR_SET_PDEATHSIG = 1
_NUMBERS = itertools.count(1)
"""The numbers of the sessions of this process."""


class Program(abc.ABC):
    """What runs inferences beside this process and times itself; it ends with the worker that started it."""

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """The identifier of the process that runs the inferences."""

    @abc.abstractmethod
    def ask(
        self, operation: str, fields: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None
    ) -> Answer:
        """Ask it to do something, and wait for its answer.

        Raises:
            ArtifactError: it cannot do it; the message is the program's.
            MemoryError: likewise, for it has no memory left.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End it."""


class PipedProgram(Program):
    """A process that answers on its standard output."""

    def __init__(self, command: Sequence[str]) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, preexec_fn=die_with_parent
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(
        self, operation: str, fields: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None
    ) -> Answer:
        """See `Program.ask`; a worker whose program ended without an answer ends likewise: its parent tells why."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write(self._process.stdin, {"operation": operation, **(fields or {})}, arrays or {})
            answer = _read(self._process.stdout)
        except (BrokenPipeError, EOFError):
            self._end_alike()
            raise
        if "error" in answer.fields:
            reason = str(answer.fields["error"])
            if any(words.lower() in reason.lower() for words in _OUT_OF_MEMORY):
                raise MemoryError(reason)
            raise ArtifactError(reason)
        return answer

    def close(self) -> None:
        with self._process:
            self._process.kill()

    def _end_alike(self) -> None:
        """End this process with the status or by the signal of the program."""
        status = self._process.wait()
        if status < 0:
            if -status not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status or 1)


class Answer:
    """What a program answered: the fields of its header, and its arrays by name."""

    def __init__(self, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.fields, self.arrays = fields, arrays


class ProgramSession(Session):
    """An artifact that a program has opened, and that times its own inferences.

    Attributes:
        pid: the program's process, whose memory, processor time and quiet are those of the session.
    """

    def __init__(self, program: Program, task: Task, number: int, opened: Mapping[str, Any]) -> None:
        self._program, self._number = program, number
        self._inputs, self._outputs = ([spec.name for spec in specs] for specs in (task.inputs, task.outputs))
        self._known: list[Arrays] = []
        self.precision = opened.get("precision")
        self.load_ns = opened.get("ns")
        self.untimed = opened.get("untimed")
        self.pid = program.pid

    def run(self, feeds: Arrays) -> Outputs:
        answer = self._ask("run", arrays={name: feeds[name] for name in self._inputs})
        if lacking := [name for name in self._outputs if name not in answer.arrays]:
            raise ArtifactError(f"the program gave no output {', '.join(lacking)}")
        self.last_ns = int(answer.fields["ns"])
        return [answer.arrays[name] for name in self._outputs]

    def burst(self, feeds: Arrays, plan: Mapping[str, int]) -> tuple[list[int], list[int]]:
        """See `Session.burst`; the program has the arrays before it begins."""
        number = next((number for number, known in enumerate(self._known) if known is feeds), len(self._known))
        if number == len(self._known):
            self._known.append(feeds)
            self._ask("keep", {"request": number}, {name: feeds[name] for name in self._inputs})
        answer = self._ask("burst", {"request": number, **plan})
        cold, steady = ([int(sample) for sample in answer.fields[name]] for name in ("cold", "steady"))
        return cold, steady

    def close(self) -> None:
        self._ask("close")

    def _ask(self, operation: str, fields: Mapping[str, Any] | None = None, arrays: Arrays | None = None) -> Answer:
        return self._program.ask(operation, {"session": self._number, **(fields or {})}, arrays)


class ProgramRuntime(Runtime, abc.ABC):
    """A runtime whose artifacts a program opens.

    The program is started where other runtimes import their packages, and is timed and weighed like these.
    """

    running: ClassVar[Program | None] = None
    """The program of this process, once it runs."""
    inspects_with: ClassVar[tuple[str, ...]] = ()
    """Import names of packages by which `inspect` tells what the program does: what is stored of an artifact depends
    on their versions, but the program does not run with them."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments."""

    @abc.abstractmethod
    def files(self) -> list[Path]:
        """The files of the program that are no Python: figures depend on their content."""

    def program_versions(self) -> dict[str, str]:
        """By name, the versions of what runs the program, such as of Node.js: figures depend on them."""
        return {}

    def program_pid(self) -> int | None:
        program = type(self).running
        return None if program is None else program.pid

    def import_packages(self) -> None:
        if type(self).running is None:
            type(self).running = self.start()

    def start(self) -> Program:
        """Start the program, and have it load what it needs to open artifacts."""
        program = PipedProgram(self.command())
        program.ask("start")
        return program

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        self.import_packages()
        program = type(self).running
        assert program is not None
        return ProgramSession(program, task, *self._opened(program, artifact, task, provider, threads))

    def _opened(
        self, program: Program, artifact: Path, task: Task, provider: str, threads: int
    ) -> tuple[int, Mapping[str, Any]]:
        """Have a program open an artifact; return the number of the session, and the fields of the answer."""
        ports = {"inputs": [spec.name for spec in task.inputs], "outputs": [spec.name for spec in task.outputs]}
        number = next(_NUMBERS)
        how = {"session": number, "artifact": str(artifact), "provider": provider, "threads": threads}
        return number, program.ask("open", {**how, **ports}).fields


def die_with_parent() -> None:
    """Have this process killed when its parent dies, also while it computes: a setting that a fork does not inherit."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def packed(arrays: Mapping[str, np.ndarray]) -> tuple[list[dict[str, Any]], list[Any]]:
    """What a header says of some arrays, and their values as parts of the data."""
    import numpy as np

    listed: list[dict[str, Any]] = []
    parts: list[Any] = []
    for name, array in arrays.items():
        whole = np.ascontiguousarray(array)
        listed.append({"name": name, "dtype": whole.dtype.name, "shape": list(np.shape(array))})  # a scalar has none
        parts += [whole.reshape(-1).view(np.uint8).data, bytes(-whole.nbytes % ALIGNED)]
    return listed, parts


def unpacked(listed: Sequence[Mapping[str, Any]], data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a header in its data.

    Raises:
        ArtifactError: the data are not those that the header says.
    """
    import numpy as np

    arrays, begin = {}, 0
    for each in listed:
        dtype, shape = np.dtype(each["dtype"]), tuple(each["shape"])
        num_bytes = dtype.itemsize * math.prod(shape)
        if begin + num_bytes > len(data):
            raise ArtifactError(f"the values of {each['name']!r} are fewer than its shape {list(shape)} says")
        arrays[each["name"]] = np.frombuffer(data, dtype, math.prod(shape), begin).reshape(shape)
        begin += num_bytes + -num_bytes % ALIGNED
    return arrays


def _write(pipe: IO[bytes], header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    listed, parts = packed(arrays)
    text = json.dumps({**header, "arrays": listed}).encode()
    pipe.write(_LENGTHS.pack(len(text), sum(map(len, parts))) + text)
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Answer:
    """The next frame.

    Raises:
        EOFError: the output ended.
        ArtifactError: it is no frame.
    """
    header_bytes, data_bytes = _LENGTHS.unpack(_exactly(pipe, _LENGTHS.size))
    if header_bytes > _MOST_HEADER_BYTES or data_bytes > _MOST_DATA_BYTES:
        raise ArtifactError("the program's answer has no end: something else wrote to its output")
    header, data = json.loads(_exactly(pipe, header_bytes)), _exactly(pipe, data_bytes)
    return Answer(header, unpacked(header.pop("arrays", ()), data))


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data
