"""The classes that the author of a task, an exporter or a variant imports; those of a runtime are in `runtime.py`.

A plugin is a file that defines one subclass of `Exporter`, `Variant` or `Runtime`; a task is a folder whose
`task.py` defines one subclass of `Task`. The file's or folder's name is the plugin's name. Importing the file must
be cheap: packages that take time to import are imported inside methods, which run only in child processes.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from bench.api.loss_units import DB, SHARE, Unit
from bench.api.mixture import Part
from bench.api.names import Role, TaskName
from bench.api.tensors import UNKNOWN as UNKNOWN
from bench.api.tensors import TensorSpec as TensorSpec

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    from bench.api.decoder import Decoder, Request

Arrays: TypeAlias = "Mapping[str, np.ndarray]"
"""Host arrays by the name of the input or output."""
Outputs: TypeAlias = "Sequence[np.ndarray]"
"""Host arrays in the order of the task's outputs."""
Info: TypeAlias = dict[str, Any]
"""Facts to keep with an artifact as JSON, such as its opset.

`note` is a line to show beside the artifact's rows. Where `alone` is true, the artifact is verified and timed although
another one has the same graph with the same weights.
"""

NPM = "npm:"
"""Begins the name of a package of npm among those that a plugin requires."""
_Method = TypeVar("_Method", bound=Callable[..., Any])


def beside_figures(method: _Method) -> _Method:
    """Marks a method whose result is shown beside the figures, so that a change of it leaves stored figures valid."""
    vars(method)["beside_figures"] = True
    return method


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """One split of a dataset.

    Attributes:
        inputs: by input name, an array with the N samples along its first axis.
        targets: N targets, one for each sample, in the form that the task's loss and metrics take. None for a task
            without targets: then the reference's outputs are the targets, a dict by output name for each sample.
        names: N names to show, or empty.
    """

    inputs: Arrays
    targets: Sequence[Any] | None
    names: tuple[str, ...] = ()

    @property
    def num_samples(self) -> int:
        return len(next(iter(self.inputs.values())))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Points:
    """What each sample of a split adds to the ranked metric, from which follows how well a lost share is known.

    What other outputs lose of the metric is the mean of the points that their samples lose over `score`.

    Attributes:
        values: N float64 values, one for each sample; more is better.
        score: the metric of these outputs as a score, in points a sample: the mean of `values`, or of what they lack. 1
            for a task whose loss is told in dB, which the points then are, too.
        most: the most points that one sample can lose.
        convention: what `most` takes for granted, in a few words, where it does not follow from the metric, such as
            `a window is taken to lose at most 0.1 bits a byte`; shown beside the bound.
        rows: indices of the N samples in the split, where the metric is not over all of them.
    """

    values: np.ndarray
    score: float
    most: float
    rows: Sequence[int] | None = None
    convention: str | None = None


class Plugin:
    """A plugin: its name, its file, and whether it can work on this machine."""

    requires: ClassVar[tuple[str, ...]] = ()
    """Import names of the packages without which the plugin cannot work, such as `("torch",)`; a package of npm is
    named as `npm:onnxruntime-node`, see `bench.api.npm`."""
    extra: ClassVar[str | None] = None
    """The extra of the distribution `inferometer` that installs what `requires` names, or several: `tf,openvino`."""
    isolated: ClassVar[tuple[str, ...]] = ()
    """What to install, as pip takes it, in an environment of the plugin's own, such as `("litert-torch==0.10.0",)`: for
    packages that cannot be installed beside the others. Where all that it requires is installed here, it runs here."""
    compiles: ClassVar[bool] = False
    """Of an exporter or a runtime, whether it compiles models for half a minute or longer: a sweep measures its cells
    after all others."""

    def __init__(self, *, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    @beside_figures
    def skip(self) -> str | None:
        """The reason why the plugin cannot work on this machine, with the command that fixes it; None if it can."""
        missing = self._missing()
        if not missing or self.isolated:
            return None
        if of_npm := [name.removeprefix(NPM) for name in missing if name.startswith(NPM)]:
            from bench.api import npm  # a worker does not need it, and would be larger for it

            return npm.lacking(of_npm)
        how = f"pip install 'inferometer[{self.extra}]'" if self.extra else "pip install " + " ".join(missing)
        return f"{', '.join(missing)} not installed; {how}"

    @beside_figures
    def runs_apart(self) -> bool:
        """Whether it runs in an environment of its own, because what it requires is not installed here."""
        return bool(self.isolated and self._missing())

    def _missing(self) -> list[str]:
        return [name for name in self.requires if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    if name.startswith(NPM):
        from bench.api import npm

        return npm.node() is not None and npm.version(name.removeprefix(NPM)) is not None
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that `name` should be a part of
        return False


class Task(Plugin, abc.ABC):
    """A model under test: its builders, its inputs and outputs, its data, loss and metric."""

    sources: ClassVar[tuple[str, ...]]
    """Frameworks that the model can be built in, such as `("torch", "tf")`; the first gives the reference outputs."""
    inputs: ClassVar[tuple[TensorSpec, ...]]
    outputs: ClassVar[tuple[TensorSpec, ...]]
    batched: ClassVar[bool] = True
    """Whether the first axis of every input and output is that of the samples. If not, a sample is a whole request, the
    arrays of a split have one axis more than those of a request, and the only batch is 1."""
    one_input: ClassVar[bool] = False
    """Whether an inference takes the same time for all inputs of one shape, as in a network of convolutions alone: then
    a cell is timed on one request, or else on several."""
    dataset: ClassVar[str | None] = None
    """Name of the folder under `datasets/` that `samples` reads; its files are part of a result's key."""
    weights: ClassVar[str | None] = "weights.safetensors"
    """The one weights file, inside the task's folder."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Import names of the packages that make its models and samples; their versions are part of a result's key."""
    uses: ClassVar[tuple[str, ...]] = ()
    """Names of tasks whose modules this one loads; their Python files are part of a result's key as well."""
    metric_name: ClassVar[str]
    """The key of `metrics` that ranks, with its unit, such as `psnr_db`."""
    higher_is_better: ClassVar[bool] = True
    is_error_rate: ClassVar[bool] = False
    """Whether the ranked metric is a share of errors: shares of it are then lost of what is right, 1 minus the rate."""
    judged_as: ClassVar[str | None] = None
    """What the metric compares, in a few words, where a table should say so: `output 'p' above 0.5`."""
    judges_other_shapes: ClassVar[bool] = False
    """Whether `metrics` takes outputs whose samples have other shapes than the reference's, as of a detector. Of other
    tasks, a cell is broken where the shape of a sample is another."""
    closed_to: ClassVar[Mapping[str, str]] = {}
    """Methods of export (see `Exporter.method`) that cannot take the task's model, each with the reason."""
    metric_loss_unit: ClassVar[Unit] = SHARE
    """How a loss of the ranked metric is told: as a share of the score, or of a metric in dB as a difference."""
    close: ClassVar[float] = 1e-4
    """Largest absolute error over the reference's largest magnitude that still counts as the same outputs."""
    max_metric_loss: ClassVar[float]
    """Outputs whose metric is worse than the reference's by more than this, in the metric's unit, are broken."""

    request: Request | None = None
    """What a request asks to generate, of a task whose cells generate text; of other tasks None."""

    @property
    def role(self) -> Role:
        """What the task does with its model, as its name says: of a pass of a decoder `Role.DECODING_STEP`."""
        return TaskName.parse(self.name).role

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def decoder(self) -> Decoder | None:
        """The decoder that the task's model is, where cells may generate with it: see `build_step` and `texts`."""
        return None

    @property
    def weights_path(self) -> Path:
        assert self.weights is not None, f"{self.name} has no weights file"
        return self.folder / self.weights

    def native_path(self, source: str) -> Path:
        """The file that a source's own runtime opens: the weights file."""
        return self.weights_path

    def module(self, name: str, *, of: str | None = None) -> ModuleType:
        """The Python file `<name>.py` beside `task.py`, or beside that of a task named in `uses`."""
        from bench.api.loading import load_module, task_path

        assert of is None or of in self.uses, f"{self.name} does not say that it uses {of}"
        folder = self.folder if of is None else task_path(of).parent
        return load_module(folder / f"{name}.py")

    def import_packages(self, source: str) -> None:
        """Import what `build` needs for a source, so that it is not counted as loading.

        By default the files `<source>_model.py` beside `task.py` and beside those of the tasks in `uses`, if there are
        any.
        """
        from bench.api.loading import load_module, task_path

        for folder in (self.folder, *(task_path(name).parent for name in self.uses)):
            if (file := folder / f"{source}_model.py").is_file():
                load_module(file)

    @abc.abstractmethod
    def build(self, source: str, weights: Path) -> Any:
        """The trained float32 model in one framework, in inference mode, taking the inputs in order.

        Args:
            source: one of `sources`.
            weights: the weights file to read.
        """

    def build_step(self, source: str, weights: Path) -> Any:
        """One pass of the trained float32 decoder, taking `Decoder.inputs` and giving `Decoder.outputs` in order."""
        raise NotImplementedError

    def texts(self, split: str, num_tokens: int) -> Samples:
        """Texts of a decoder, of `num_tokens` ids each, as `samples` gives those of the task's own length.

        A target, where there are targets, is an array whose last axis is that of the tokens.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def samples(self, split: str) -> Samples:
        """The `test` split (held out) or the `train` split (for calibration), always in the same order."""

    @beside_figures
    def judging(self) -> Samples | None:
        """Training samples that calibrate nothing, beside those of the `train` split; None where that split has both.

        A search judges by these what it tries.
        """
        return None

    @beside_figures
    def confirmation(self) -> Samples | None:
        """More held-out samples than the `test` split has, of it or of others; None where there are no more.

        What a search found is confirmed by these, for a bound on the lost metric takes more samples than a sweep.
        """
        return None

    @abc.abstractmethod
    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Mean loss a sample. `outputs` are by output name with the N samples along the first axis."""

    @abc.abstractmethod
    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """Every metric by name with its unit; `metric_name` is among them."""

    def metric(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """The ranked metric; a task overrides it whose other metrics take long.

        In a class that overrides `metrics` alone, it is that of these metrics.
        """
        return self.metrics(outputs, targets)[self.metric_name]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "metrics" in vars(cls) and "metric" not in vars(cls):
            cls.metric = Task.metric  # type: ignore[method-assign]

    def chance(self, targets: Sequence[Any]) -> float | None:
        """The ranked metric that an answer which ignores the inputs may reach on these samples; None if unknown.

        A reference whose metric is no better cannot tell a right deployment from a wrong one.
        """
        return None

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """What each sample adds to the ranked metric, or the reason why that cannot be told.

        Without points, the share of the metric that a deployment loses has no interval. Samples count as independent,
        so what depends on each other, such as parts of one photograph, is one sample.
        """
        return "its task does not tell what each sample adds to the metric"

    def metric_loss(self, metric: float, reference: float) -> float:
        """What is lost of the reference's metric, in `metric_loss_unit`; a negative loss is a gain.

        A share is of the score, 0.01 for 1 %. The score is the ranked metric; of an error rate, 1 minus the rate.
        """
        lost = reference - metric if self.higher_is_better else metric - reference
        if lost == 0 or self.metric_loss_unit == DB:
            return float(lost)
        score = 1 - reference if self.is_error_rate else reference
        return lost / abs(score) if score else math.copysign(math.inf, lost)


class Exporter(Plugin, abc.ABC):
    """Task -> Artifact."""

    sources: ClassVar[tuple[str, ...]]
    """Frameworks that it takes a model from; empty means every framework."""
    method: ClassVar[str | None] = None
    """How it reads the model, such as `torch.export` or `trace`: a task may be closed to a method."""
    copies: ClassVar[bool] = False
    """Whether it copies a file of the task as it is, so that the interface of the task follows from the file."""
    freezes: ClassVar[bool] = False
    """Whether it fixes dynamic dimensions, except the batch, to the sizes of the task's samples."""
    portable: ClassVar[bool] = False
    """Whether its file depends on no processor: in a fleet, one machine makes it for all kinds of machine."""
    lossy: ClassVar[bool] = False
    """Whether it may change the outputs by more than rounding in float32 does, such as by a reduced precision."""
    generates: ClassVar[bool] = False
    """Whether it writes a decoder for an engine that generates text, so that nothing else can be done with its file."""
    writes: ClassVar[str]
    """The format of the artifact: `onnx`, `torch`, `keras`, ..."""

    @beside_figures
    def refusal(self, task: Task) -> str | None:
        """The reason why the exporter cannot take a task's model; None if it can."""
        return task.closed_to.get(self.method) if self.method is not None else None

    def format(self, source: str) -> str:
        """The format of the artifact that it writes for a source: `writes`, unless a subclass tells sources apart."""
        return self.writes

    @abc.abstractmethod
    def export(self, task: Task, source: str, target: Path) -> Info:
        """Write the artifact of a task's model, built in the framework `source`, to the one file `target`.

        Returns:
            Facts to keep with the artifact as JSON, such as its opset.
        """


class Variant(Plugin, abc.ABC):
    """Artifact -> Artifact."""

    formats: ClassVar[tuple[str, ...]] = ("onnx",)
    options: ClassVar[tuple[str, ...]] = ("",)
    """Each option is a variant of its own: with the file `ort.py`, options `("basic", "all")` give the variants
    `ort-basic` and `ort-all`; the option `""` is the variant that has the name of the file."""
    letters: ClassVar[Mapping[str, str]] = {}
    """What each letter means of a variant that treats each part of a model in its own way: its further options spell a
    letter for each of `parts`, see `bench.api.mixture`."""
    lossy: ClassVar[bool] = False
    """Whether it may change the outputs by more than rounding in float32 does, such as by a reduced precision."""
    freezes: ClassVar[bool] = False
    """Whether it fixes dynamic dimensions, except the batch, to the sizes of the task's samples."""
    portable: ClassVar[bool] = False
    """Whether its file depends on no processor: in a fleet, one machine makes it for all kinds of machine."""

    @abc.abstractmethod
    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        """Read the artifact `source`, which stays as it is, and write the changed artifact to the one file `target`.

        Args:
            option: one of `options`, or a letter for each of `parts`, as `bench.api.mixture` spells it.

        Returns:
            Facts to keep with the artifact as JSON.

        Raises:
            RefusedError: the variant has nothing to do for this model, or cannot tell what it must know.
        """

    def parts(self, source: Path, *, task: Task) -> Sequence[Part]:
        """The parts of the artifact `source` that an option spells a letter for; none for most variants."""
        return ()
