"""A smaller case that breaks the same rule at the same place: `python -m fuzz.minimise TARGET FILE SECONDS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fuzz.targets import Target, target
from fuzz.watch import Violation, judge_apart


def minimised(of: Target, content: bytes, violation: Violation, *, limit_s: float) -> bytes:
    """Leave out of a case whatever the violation does not need, for as long as there is time.

    Args:
        of: the target.
        content: breaks the rule.
        limit_s: wall-clock time after which the smallest case so far is returned.
    """
    end = time.monotonic() + limit_s
    while True:
        for less in of.smaller(content):
            if time.monotonic() > end:
                return content
            found = judge_apart(of.check, less) if len(less) < len(content) else None
            if found is not None and found.key == violation.key:
                content = less
                break
        else:
            return content


if __name__ == "__main__":
    case, chosen = Path(sys.argv[2]), target(sys.argv[1])
    broken = judge_apart(chosen.check, case.read_bytes())
    if broken is not None:
        print(broken)
        case.write_bytes(minimised(chosen, case.read_bytes(), broken, limit_s=float(sys.argv[3])))
