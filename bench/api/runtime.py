"""A runtime: what opens an artifact on a provider, the session that answers requests, and the times of its nodes."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api.arrays import STRING
from bench.api.errors import InputError, suggest
from bench.api.names import ProviderName
from bench.api.plugin import Arrays, Outputs, Plugin, Task, beside_figures


class Session(abc.ABC):
    """An opened artifact that answers requests."""

    precision: str | None = "float32"
    """The precision in which the model really runs, None where that cannot be told: a session asks its runtime, where
    that may choose another. It is read only after everything that is timed."""
    num_params: int | None = None
    """Parameters of the model, shared ones counted once, where the framework knows their number or the file can be
    read. The parameters of an ONNX file are counted in the file. It is read only after everything that is timed."""
    repeated: str | None = None
    """Which parameters the file stores more than once, as `bench.onnxfile.weights.repeats` tells it; None for none."""
    pid: int | None = None
    """The process that runs and times the inferences, where it is a program beside this one: `bench.api.program`."""
    last_ns: int | None = None
    """Nanoseconds of the last inference by that program's clock."""
    load_ns: int | None = None
    """Nanoseconds that opening the artifact took, where it is to be told without what the harness does besides."""
    untimed: str | None = None
    """Why the times of this session say nothing, as on a device that software imitates; None where they do. Its outputs
    are verified, and it is not timed. It is read only after everything that is timed, as are the next three."""
    tick_ns: int | None = None
    """Nanoseconds between two values of the clock that times inferences, where it is coarser than this process's."""
    download_bytes: int | None = None
    """Bytes that a visitor of a page downloads, compressed as a server sends them: the runtime and the artifact."""
    about: Mapping[str, str] = {}
    """What the session says about where it ran, by name, such as the adapter that a browser has."""

    @abc.abstractmethod
    def run(self, feeds: Arrays) -> Outputs:
        """One inference: host arrays by input name in, host arrays in the order of the task's outputs out.

        This method is timed: it must return only when the outputs can be read. All requests of a session have the
        shapes of the first one; `bench load` alone tries a larger batch, too, and does without it where this raises.

        Returns:
            A list or a tuple of arrays; anything else is refused while the outputs are judged.
        """

    def burst(self, feeds: Arrays, plan: Mapping[str, int]) -> tuple[list[int], list[int]]:
        """Run inferences back to back in the program that times itself; only where there is one.

        Args:
            feeds: the request that all of them answer.
            plan: the fields of `bench.measure.clock.BurstPlan`.

        Returns:
            Cold samples and steady samples in nanoseconds, see `bench.measure.clock.burst`.
        """
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 (most sessions have nothing to give back)
        """Free the resources that the session holds."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeTime:
    """A node of the graph that a runtime runs for an artifact, and the time it takes.

    Attributes:
        name: the runtime's name of the node.
        operator: the runtime's name of the node's type.
        provider: the runtime's name of the provider that runs the node.
        time_ns: nanoseconds in one inference, all calls together, without the nodes in the body of this node: the
            median over inferences, or the mean where the profiler keeps no other figure.
        calls: how often the node runs in one inference.
        reads: names of the tensors that the node reads, without weights; empty where they are not known.
        makes: names of the tensors that the node makes; empty where they are not known.
        covers: names of the artifact's tensors that are computed in the node, those included that fusion removed.
    """

    name: str
    operator: str
    provider: str
    time_ns: float
    calls: int = 1
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()


class Runtime(Plugin, abc.ABC):
    """Opens an artifact on a provider."""

    title: ClassVar[str] = ""
    """Its name in figures and sentences, such as `ONNX Runtime`; the plugin's name where this is empty."""
    formats: ClassVar[tuple[str, ...]]
    """Artifact formats it opens."""
    default_for: ClassVar[tuple[str, ...]] = ()
    """Formats that this runtime runs as their framework does by default: the baseline of tasks in that framework."""
    options: ClassVar[Mapping[str, str]] = {}
    """What each option does that a cell may name behind its provider, as in `cpu+winograd`: documented by the runtime,
    and not its default. `bench search` tries them; see `bench.api.names`."""
    generates: ClassVar[bool] = False
    """Whether `open` gives a `bench.api.generation.Generator` for a task with a `request`."""
    scores: ClassVar[bool] = True
    """Whether `open` gives a session for other tasks, too: of those that only generate, False."""
    own_sweep: ClassVar[str] = ""
    """The named sweep that alone measures it, besides globs that have its name; empty for a runtime of all sweeps."""
    imports: ClassVar[tuple[str, ...]] = ()
    """Names of the modules that `open` needs, where importing the packages in `requires` does not import them all."""

    def providers(self) -> tuple[str, ...]:
        """Providers it can use here, found without importing a framework; the first is its default."""
        return ("cpu",)

    def packages(self, provider: str) -> tuple[str, ...]:
        """Import names of the packages that a result on a provider depends on; their versions are part of its key."""
        return self.requires

    def environment(self, threads: int) -> dict[str, str]:
        """Environment variables, by name, that the runtime's packages read when they are imported."""
        return {}

    @beside_figures
    def refusal(self, task: Task) -> str | None:
        """The reason why the runtime cannot run a task's model; None if it can. Most runtimes take numbers alone."""
        named = [spec.name for spec in (*task.inputs, *task.outputs) if spec.dtype == STRING]
        return f"it takes numbers alone, and {named[0]!r} holds strings" if named else None

    @beside_figures
    def stands_in_for(self, task: Task) -> bool | None:
        """Whether it is a way out that a task's model needs, because the usual runtime of its format fails on it.

        Sweeps list such a runtime for no other model. Its outputs are right before those of other packages where the
        model needs it, and after them where nothing says so.

        Returns:
            None where it is no way out, but a runtime for every model.
        """
        return None

    @beside_figures
    def one_thread_only(self) -> bool:
        """Whether it runs on one thread whatever `threads` says: its cells with more threads are skipped."""
        return False

    def check_provider(self, provider: str) -> None:
        """Ensure that a provider is one of `providers`, with any of `options`: asked before an artifact is opened.

        Raises:
            InputError: the runtime cannot use the provider here; the message names the nearest usable provider.
        """
        name = ProviderName.parse(provider)
        if name.device not in self.providers():
            known = suggest(name.device, self.providers())
            raise InputError(f"{self.name} has no provider {name.device!r} here; {known}")
        for option in name.options:
            if option not in self.options:
                raise InputError(f"{self.name} has no option {option!r}; {suggest(option, self.options)}")
        if (right := ProviderName(name.device).with_options(name.options)) != name:
            raise InputError(f"options stand once and in order: {right}, not {provider}")

    def import_packages(self) -> None:
        """Import what `open` needs, `imports` or else `requires`: imports are timed apart from loading a model."""
        for name in self.imports or self.requires:
            importlib.import_module(name)

    def program_pid(self) -> int | None:
        """The process of the program that runs its inferences, once it was started; None for a package of Python's."""
        return None

    def program_import_ns(self) -> int | None:
        """Nanoseconds that the program took to load its packages, where that is not the time to start it."""
        return None

    def builds(self, artifact: Path) -> bool:
        """Whether `open` makes the model of an artifact by `Task.build`, whose imports come before loading, too."""
        return False

    @beside_figures
    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """Where the nodes of an artifact run and in which precision, as far as the runtime reports it.

        Called once, in a process that may crash, and never while anything is timed.

        Args:
            shapes: shapes of the inputs of one request, by input name.

        Returns:
            Any of `placement` (by provider `nodes`, how many, and `macs_share`, between 0 and 1 or None), `warning`
            (one line, such as of nodes that fell back to another provider) and `precision` (instead of the session's).
        """
        return {}

    @beside_figures
    def approximates(self) -> frozenset[str]:
        """Those of `options` that may change the outputs by more than rounding does, although they keep a model right.

        The outputs of other options are held to the limit of a deployment that claims to lose nothing.
        """
        return frozenset()

    @beside_figures
    def runs_sessions_at_once(self) -> bool:
        """Whether several sessions of one process may run at the same time, each with threads of its own.

        Only where the runtime's documentation says so: `bench load` then serves by several sessions of one worker, too.
        """
        return False

    @beside_figures
    def note_on_several(self, provider: str) -> str:
        """Why several sessions or workers at once answer no more requests than one, and what does instead.

        Returns:
            One line for `bench load` to tell; empty, as here, where several do answer more.
        """
        return ""

    @abc.abstractmethod
    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        """Load the artifact and make it ready to run with `threads` intra-op threads.

        The harness has called `check_provider` before; whoever else opens an artifact calls it first.
        """

    @beside_figures
    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        """Where the time of an inference goes, by the runtime's own profiler: the nodes that run, in their order.

        Called once, in a process that may crash, instead of `open`. A profiler takes time itself, so its times are no
        latencies.

        Args:
            feeds: host arrays by input name, of one inference.
            num_runs: inferences to profile, after a few that warm up.

        Returns:
            None where the runtime has no profiler of its own.
        """
        return None

    @beside_figures
    def page(self, artifact: str, outputs: Sequence[str], *, threads: int) -> Mapping[str, str | Path]:
        """Files that run an artifact in a page without this package, for `bench pick`.

        Args:
            artifact: name of the artifact's file, which lies beside them.
            outputs: names of the outputs to give.
            threads: threads to run with.

        Returns:
            By path in the folder, a text or a file to copy; nothing where it runs in no page.
        """
        return {}

    @beside_figures
    def code(self, *, provider: str, threads: int) -> str | None:
        """Python source that runs an artifact as `open` does, but without this package; None if there is none.

        The source defines `load(path, outputs)`, which returns a function from arrays by input
        name to arrays by output name.
        """
        return None
