"""A cell: the frozen coordinates of one deployment, and its path form."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Iterable

from bench.api import placed, sized, versioned
from bench.api.errors import InputError

RAW = "raw"  # the empty variant chain
CHAIN = "+"
_SIZES = re.compile(r"b([1-9]\d*)t([1-9]\d*)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_CHAIN = rf"{_NAME.pattern}(?:\+{_NAME.pattern})*"
_PARTS = (*[_NAME.pattern] * 3, _CHAIN, *[_NAME.pattern] * 2)
_PLAIN = re.compile("".join(f"({part})/" for part in _PARTS) + _SIZES.pattern)
"""A path without sizes, options or versions, as nearly all are."""
_NAMES = ("task", "source", "exporter", "variant", "runtime", "provider")


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Cell:
    """One deployment: task / source / exporter / variant chain / runtime / provider / batch and threads.

    Attributes:
        task: name of the task, with sizes where they are not its own: see `bench.api.sized`.
        exporter: name of the exporter; here, in `variant` and in `runtime`, names may have a label: see
            `bench.api.versioned`.
        provider: name of the provider, with options of the runtime behind it: see `bench.api.placed`.
        variant: names of the variants joined by `+` in the order they are applied, or `raw`.
        batch: samples in one inference.
        threads: intra-op threads that the runtime may use.
    """

    task: str
    source: str
    exporter: str
    variant: str
    runtime: str
    provider: str
    batch: int = 1
    threads: int = 1

    @property
    def path(self) -> str:
        """The cell as one text: `toy/null/native/raw/null/cpu/b1t1`."""
        return f"{self.artifact_path}/{self.runtime}/{self.provider}/b{self.batch}t{self.threads}"

    @property
    def chain(self) -> tuple[str, ...]:
        """Names of the variants to apply, first to last; empty for `raw`."""
        return () if self.variant == RAW else tuple(self.variant.split(CHAIN))

    @property
    def program(self) -> str:
        """What the machine's state acts on: the name of the runtime, whose versions it acts on alike."""
        return versioned.plugin_of(self.runtime)

    @property
    def artifact_path(self) -> str:
        """The part of the path that names the artifact: `toy/null/native/raw`."""
        return "/".join((self.task, self.source, self.exporter, self.variant))

    @property
    def group(self) -> tuple[str, int, int]:
        """Cells of one group answer the same request and may be compared: task, batch, threads."""
        return (self.task, self.batch, self.threads)

    def __str__(self) -> str:
        return self.path

    @classmethod
    def from_path(cls, path: str) -> Cell:
        """Parse a cell's path form.

        Raises:
            InputError: the text is not seven parts that end in `b<batch>t<threads>`.
        """
        return _parsed(path)


@functools.lru_cache(maxsize=100_000)
def _parsed(path: str) -> Cell:
    """See `Cell.from_path`; kept, because stored results name each cell several times."""
    if (found := _PLAIN.fullmatch(path)) is not None:
        *parts, batch, threads = found.groups()
        return Cell(**dict(zip(_NAMES, parts, strict=True)), batch=int(batch), threads=int(threads))
    parts = path.split("/")
    sizes = _SIZES.fullmatch(parts[-1])
    if len(parts) != 7 or sizes is None:
        raise InputError(f"not a cell: {path!r}; a cell reads task/source/exporter/variant/runtime/provider/b1t1")
    task, mark, at = parts[0].partition(sized.MARK)
    named = [part for field in (parts[2], parts[3], parts[4]) for part in field.split(CHAIN)]
    own = (sized.family_of(task), parts[1], *parts[5].split(placed.MARK))
    plain = [name for name in own if _NAME.fullmatch(name) is None]
    for name in (*plain, *(name for name in named if not versioned.is_name(name, _NAME))):
        raise InputError(f"not a cell: {path!r}; {name!r} is not a name")
    if mark and sized.SIZES.fullmatch(at) is None:
        raise InputError(f"not a cell: {path!r}; sizes read {task}@height=224,width=224")
    parts[0] = sized.in_order(parts[0]) if mark else parts[0]
    return Cell(**dict(zip(_NAMES, parts, strict=False)), batch=int(sizes[1]), threads=int(sizes[2]))


def matches(cell: Cell, globs: Iterable[str]) -> bool:
    """Whether any glob matches the cell's path; `*` crosses `/`, and `crnn` means `crnn/*`."""
    return any(fnmatch.fnmatchcase(cell.path, form) for glob in globs for form in (glob, glob.rstrip("/") + "/*"))
