"""Time and memory that one child process may take."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds for each kind of request to a child process, and its memory in bytes; None is no limit."""

    prepare_s: float = 600
    verify_s: float = 300
    open_s: float = 180
    burst_s: float = 60
    memory_bytes: int | None = None

    @classmethod
    def of(cls, *, step_s: float | None, memory_bytes: int | None) -> Limits:
        """The same time for every step, or each step's default; half of the machine's memory by default."""
        import psutil  # only here: a worker may import this module and has no limits to set

        memory_bytes = memory_bytes or psutil.virtual_memory().total // 2
        if step_s is None:
            return cls(memory_bytes=memory_bytes)
        return cls(prepare_s=step_s, verify_s=step_s, open_s=step_s, burst_s=step_s, memory_bytes=memory_bytes)
