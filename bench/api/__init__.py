"""What the author of a task, an exporter, a variant or a runtime imports: see `bench.api.plugin`."""

from typing import TYPE_CHECKING

from bench.api.plugin import (
    UNKNOWN,
    Exporter,
    NodeTime,
    Plugin,
    Runtime,
    Samples,
    Session,
    Task,
    TensorSpec,
    Variant,
)

if TYPE_CHECKING:
    from bench.api.plugin import Arrays as Arrays

__all__ = [
    "UNKNOWN",
    "Exporter",
    "NodeTime",
    "Plugin",
    "Runtime",
    "Samples",
    "Session",
    "Task",
    "TensorSpec",
    "Variant",
]
