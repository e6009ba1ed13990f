"""The fixed point of a map that comes near it in small steps, or swings about it, found in fewer steps.

The steps so far tell how a step changes with its start. So the next start is the mixture of these steps that would have
hardly any step left, were the map linear. Far from its end it is not, and there is more than one end to go astray to;
so only small steps are mixed, and of large ones those are shortened that turn back, as by the rule of false position.
Sources: Anderson 1965, doi 10.1145/321296.321305; Walker and Ni 2011, doi 10.1137/10078356X.
"""

from __future__ import annotations

import numpy as np

_MOST_STEPS = 5
"""Steps that are mixed; those before are forgotten, as they are of a map that is no longer nearly the same."""
NEAR = 0.05
"""Largest change of a value in a step that is mixed with others."""
MOST_LEAP = 0.5
"""Most that a value is taken beyond where the map leads."""
_RIDGE = 1e-10
"""Relative weight that keeps the shares of steps that are nearly alike small."""


class Mixture:
    """The last steps of a map of vectors."""

    def __init__(self) -> None:
        self._starts: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []

    def next_start(self, start_V: np.ndarray, end_V: np.ndarray) -> np.ndarray:
        """Where to start the next step.

        Args:
            start_V: where the last step began, of shape (V,).
            end_V: where the map led from there.
        """
        self._starts = [*self._starts, start_V][-_MOST_STEPS:]
        self._steps = [*self._steps, end_V - start_V][-_MOST_STEPS:]
        sizes = [np.abs(step_V).max() for step_V in self._steps]
        if len(sizes) == 1:
            return end_V
        if max(sizes) > NEAR:
            self._starts, self._steps = self._starts[-2:], self._steps[-2:]
            return self._shortened() if max(sizes[-2:]) > NEAR else end_V
        return end_V - np.clip(self._beyond(), -MOST_LEAP, MOST_LEAP)

    def _shortened(self) -> np.ndarray:
        """The last step's end, but between both last starts for each value whose step turned back."""
        (start_V, last_start_V), (step_V, last_step_V) = self._starts, self._steps
        turned_V = step_V * last_step_V < 0
        share_V = np.divide(last_start_V - start_V, step_V - last_step_V, out=np.ones_like(step_V), where=turned_V)
        return last_start_V + np.clip(share_V, 0.0, 1.0) * last_step_V

    def _beyond(self) -> np.ndarray:
        """How far the last step's end is from the mixture that would have the smallest step left."""
        starts_SV, steps_SV = np.diff(self._starts, axis=0), np.diff(self._steps, axis=0)
        normal_SS = steps_SV @ steps_SV.T
        normal_SS += max(_RIDGE * np.trace(normal_SS), np.finfo(float).tiny) * np.eye(len(normal_SS))
        return np.linalg.solve(normal_SS, steps_SV @ self._steps[-1]) @ (starts_SV + steps_SV)
