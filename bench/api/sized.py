"""Names of tasks made of others: at other sizes as `encoder@tokens=16`, for a search as `encoder~tuning`.

Text is generated as `decoder~generate@new=64,prompt=256`, by a model that is exported as `decoder~step`: see
`bench.plugins.generating`.

A search judges its proposals by training samples, so that those of the test split are still new to the deployment
that it proposes in the end. That one is confirmed by more samples than the test split has, as `encoder~confirming`,
where the task has more: see `bench.plugins.tuning`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MARK = "@"
TUNING, CONFIRMING = "~tuning", "~confirming"
GENERATE, STEP = "~generate", "~step"
PROMPT, NEW = "prompt", "new"
"""Names of the sizes of a request to generate: tokens of the prompt, and new tokens."""
USUAL_PROMPT, USUAL_NEW = 256, 64
"""Of a request whose name tells no sizes."""
KINDS = (TUNING, CONFIRMING, GENERATE, STEP)
BATCH = "batch"
"""The name of every task's axis of samples, whatever its model calls it."""
SIZES = re.compile(r"[A-Za-z0-9_.-]+=(0|[1-9]\d*)(,[A-Za-z0-9_.-]+=(0|[1-9]\d*))*")
"""What a name tells of sizes; a size of 0 is that of an empty cache."""


def name_at(task: str, sizes: Mapping[str, int]) -> str:
    """The name of a task at some sizes by dimension, in the order of their names; without any, the task's own name."""
    own = dict(sorted((spelled(dim), size) for dim, size in sizes.items()))
    return task if not own else task + MARK + ",".join(f"{dim}={size}" for dim, size in own.items())


def family_of(task: str) -> str:
    """The name of the task that a task was made of; of any other task, its own name."""
    name = task.partition(MARK)[0]
    for kind in KINDS:
        name = name.removesuffix(kind)
    return name


def is_generating(task: str) -> bool:
    """Whether the cells of a task generate text."""
    return task.partition(MARK)[0].endswith(GENERATE)


def is_step(task: str) -> bool:
    """Whether a task is one pass of a decoder, which takes and gives the cache of keys and values."""
    return task.partition(MARK)[0].endswith(STEP)


def generating_of(task: str, *, prompt: int, new: int) -> str:
    """The name of the task that generates `new` tokens after prompts of `prompt` tokens."""
    return name_at(task + GENERATE, {PROMPT: prompt, NEW: new})


def request_of(task: str) -> tuple[int, int]:
    """Tokens of the prompt and new tokens of a task that generates."""
    sizes = sizes_of(task)
    return sizes.get(PROMPT, USUAL_PROMPT), sizes.get(NEW, USUAL_NEW)


def fitted(sizes: Mapping[str, int], max_positions: int) -> dict[str, int]:
    """The sizes of a request to generate with a decoder: where the usual ones are too long for it, shorter ones."""
    prompt, new = sizes.get(PROMPT, USUAL_PROMPT), sizes.get(NEW, USUAL_NEW)
    if prompt + new <= max_positions:
        return dict(sizes)
    prompt = sizes.get(PROMPT, max_positions - sizes[NEW] if NEW in sizes else max_positions // 2)
    new = sizes.get(NEW, min(USUAL_NEW, max_positions - prompt))
    return dict(sizes) if min(prompt, new) < 1 else {**sizes, PROMPT: prompt, NEW: new}


def exported_of(task: str) -> str:
    """The name of the task, at its own sizes, whose model is exported for a task."""
    return family_of(task) + STEP if is_generating(task) else family_of(task)


def judged_of(task: str) -> str:
    """The name of the task whose model a search judges by other samples: of any other task, its own name."""
    name, mark, sizes = task.partition(MARK)
    return name.removesuffix(TUNING).removesuffix(CONFIRMING) + mark + sizes


def is_tuning(task: str) -> bool:
    """Whether a task judges the proposals of a search."""
    return task.partition(MARK)[0].endswith(TUNING)


def is_confirming(task: str) -> bool:
    """Whether a task judges what a search found by all samples that are held out."""
    return task.partition(MARK)[0].endswith(CONFIRMING)


def is_searched(task: str) -> bool:
    """Whether a task is one of a search."""
    return is_tuning(task) or is_confirming(task)


def tuning_of(task: str) -> str:
    """The name of the task that judges the proposals of a search for a task."""
    return _with(task, TUNING)


def confirming_of(task: str) -> str:
    """The name of the task that judges what a search found by all samples that are held out."""
    return _with(task, CONFIRMING)


def _with(task: str, kind: str) -> str:
    name, mark, sizes = task.partition(MARK)
    return name + kind + mark + sizes


def sizes_of(task: str) -> dict[str, int]:
    """The sizes by dimension that a name tells; empty for a task at its own sizes."""
    pairs = (part.rpartition("=") for part in task.partition(MARK)[2].split(",") if part)
    return {dim: int(size) for dim, _, size in pairs}


def in_order(task: str) -> str:
    """The name with its sizes in the order of the dimensions' names, so that each request has one path."""
    return name_at(task.partition(MARK)[0], sizes_of(task))


def spelled(dim: str) -> str:
    """A dimension's name as it stands in a task's name: other characters than of words, `.` and `-` become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", dim)
