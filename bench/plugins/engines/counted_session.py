"""Sessions of files whose parameters are counted in the file, after everything that is timed."""

from __future__ import annotations

import abc
import functools
from typing import TYPE_CHECKING

from bench.api import Session

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted


class CountedSession(Session):
    """A session that tells the parameters that its file stores, and which of them are stored more than once."""

    @abc.abstractmethod
    def count(self) -> Counted:
        """Read the parameters of the file."""

    @functools.cached_property
    def _counted(self) -> Counted | None:
        try:
            return self.count()
        except Exception:  # a file that runs is no worse for numbers that nothing here can read
            return None

    @property
    def num_params(self) -> int | None:  # type: ignore[override]
        """Parameters that the file stores; None where they cannot be read."""
        return self._counted.num_params if self._counted else None

    @property
    def repeated(self) -> str | None:  # type: ignore[override]
        """See `Session.repeated`."""
        return self._counted.repeated if self._counted else None
