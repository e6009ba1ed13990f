"""A cell: the frozen coordinates of one deployment, and its path form."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bench.api.errors import InputError
from bench.api.names import PLUS, PluginName, ProviderName, TaskName

RAW = "raw"  # the empty variant chain
_TEXTS = ("task", "source", "exporter", "variant", "runtime", "provider")
_SIZES = re.compile(r"b([1-9]\d*)t([1-9]\d*)")
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_PLUGIN = rf"{_NAME}(?:@[A-Za-z0-9][A-Za-z0-9_.-]*)?"
_CHAINS = [rf"{name}(?:\+{name})*" for name in (_PLUGIN, _NAME)]
_FORMS = [re.compile(form) for form in (_NAME, _NAME, _PLUGIN, _CHAINS[0], _PLUGIN, _CHAINS[1])]
"""What may stand in a path, part by part; of the task, for its model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One deployment: task / source / exporter / variant chain / runtime / provider / batch and threads.

    Attributes:
        task: what the model is asked.
        source: name of the framework that the model is built in.
        exporter: what writes the first file.
        chain: the variants to apply, first to last; empty for `raw`.
        runtime: what opens the last file.
        provider: what the runtime computes on.
        batch: samples in one inference.
        threads: intra-op threads that the runtime may use.
    """

    task: TaskName
    source: str
    exporter: PluginName
    chain: tuple[PluginName, ...] = ()
    runtime: PluginName
    provider: ProviderName
    batch: int = 1
    threads: int = 1

    @functools.cached_property
    def path(self) -> str:
        """The cell as one text: `toy/null/native/raw/null/cpu/b1t1`."""
        return f"{self.artifact_path}/{self.runtime}/{self.provider}/b{self.batch}t{self.threads}"

    @property
    def variant(self) -> str:
        """The chain as one text: names of the variants joined by `+`, or `raw`."""
        return PLUS.join(map(str, self.chain)) or RAW

    @property
    def coordinates(self) -> dict[str, Any]:
        """The parts of the path by name: texts, and numbers of batch and threads."""
        texts = {name: str(getattr(self, name)) for name in _TEXTS}
        return {**texts, "batch": self.batch, "threads": self.threads}

    @property
    def artifact_path(self) -> str:
        """The part of the path that names the artifact: `toy/null/native/raw`."""
        return f"{self.task}/{self.source}/{self.exporter}/{self.variant}"

    @functools.cached_property
    def group(self) -> tuple[str, int, int]:
        """Cells of one group answer the same request and may be compared: task, batch, threads."""
        return (str(self.task), self.batch, self.threads)

    def __lt__(self, other: Cell) -> bool:
        """By the texts of the path, part by part, and then by the numbers of samples and threads."""
        return self._order < other._order

    @functools.cached_property
    def _order(self) -> tuple[Any, ...]:
        return tuple(self.coordinates.values())

    def __str__(self) -> str:
        return self.path

    @classmethod
    def from_path(cls, path: str) -> Cell:
        """Parse a cell's path form.

        Raises:
            InputError: the text is not seven parts that end in `b<batch>t<threads>`.
        """
        return _parsed(path)

    @classmethod
    def from_coordinates(cls, coordinates: Mapping[str, Any]) -> Cell:
        """The cell of `coordinates`.

        Raises:
            InputError: the texts are no names.
            KeyError: one of them is missing.
        """
        form = "{task}/{source}/{exporter}/{variant}/{runtime}/{provider}/b{batch}t{threads}"
        return _parsed(form.format(**coordinates))


@functools.lru_cache(maxsize=100_000)
def _parsed(path: str) -> Cell:
    """See `Cell.from_path`; kept, because stored results name each cell several times."""
    parts = path.split("/")
    sizes = _SIZES.fullmatch(parts[-1])
    if len(parts) != 7 or sizes is None:
        raise InputError(f"not a cell: {path!r}; a cell reads task/source/exporter/variant/runtime/provider/b1t1")
    try:
        task = TaskName.parse(parts[0])
    except InputError as error:
        raise InputError(f"not a cell: {path!r}; {error}") from error
    for name, form in zip((task.model, *parts[1:]), _FORMS, strict=False):
        if form.fullmatch(name) is None:
            raise InputError(f"not a cell: {path!r}; {name!r} is not a name")
    return Cell(
        task=task,
        source=parts[1],
        exporter=PluginName.parse(parts[2]),
        chain=chain_of(parts[3]),
        runtime=PluginName.parse(parts[4]),
        provider=ProviderName.parse(parts[5]),
        batch=int(sizes[1]),
        threads=int(sizes[2]),
    )


@functools.lru_cache(maxsize=10_000)
def chain_of(variant: str) -> tuple[PluginName, ...]:
    """The variants of a chain as one text, first to last; none of `raw`."""
    return () if variant == RAW else tuple(map(PluginName.parse, variant.split(PLUS)))


def matches(cell: Cell, globs: Iterable[str]) -> bool:
    """Whether any glob matches the cell's path; `*` crosses `/`, and `crnn` means `crnn/*`."""
    return any(fnmatch.fnmatchcase(cell.path, form) for glob in globs for form in (glob, glob.rstrip("/") + "/*"))


def matching(cells: Iterable[Cell], glob: str) -> list[Cell]:
    """The cells that a glob matches, in their order: by their whole paths, or else by the ends of these.

    An end begins behind a slash: `ort_web/*` names the cells of that runtime, and `crnn/ort_web/*` those of one task.
    """
    first, _, rest = glob.partition("/")
    ends = [f"*/{glob}", *([f"{first}/*/{rest}"] if rest else [])]
    cells = list(cells)
    return [cell for cell in cells if matches(cell, [glob])] or [cell for cell in cells if matches(cell, ends)]
