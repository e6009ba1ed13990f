"""Operators by domain and name: the names of domains, and tables of one rule for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

MICROSOFT, NCHWC, ML = "com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml"
"""Domains of ONNX Runtime's own operators, of those that work on blocks of channels, and of classical learning."""
OPENVINO = "org.openvinotoolkit"
"""Domain of OpenVINO's operations."""
Rule = TypeVar("Rule", bound=Callable[..., Any])


class Rules(dict[tuple[str, str], Rule]):
    """Functions by the domain and the name of the operators that they are for; ONNX's own domain is empty."""

    def rule(self, *names: str, domains: Sequence[str] = ("",)) -> Callable[[Rule], Rule]:
        """Decorate a function as the rule of some operators.

        Args:
            names: names of operators; one text may hold several with blanks between.
            domains: the domains that have operators of these names.
        """

        def register(function: Rule) -> Rule:
            for key in ((domain, name) for domain in domains for name in " ".join(names).split()):
                assert key not in self, f"two rules for {key}"
                self[key] = function
            return function

        return register
