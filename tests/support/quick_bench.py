"""`bench` with bursts of two inferences and short loads: for tests of the stored records, not of their figures."""

import functools
import math
from collections.abc import Callable

from bench.api import features
from bench.cli import main
from bench.measure import block
from bench.measure.clock import BurstPlan


def shorten(assign: Callable[[object, str, object], None] = setattr) -> None:
    """Have the commands of this process measure shortly, from now on.

    Args:
        assign: sets an attribute of a module; a function that takes it back later for a process that does more.
    """
    shortest = BurstPlan(warm_ns=0, target_ns=0, min_runs=2, max_runs=2)
    few = {"min_passes": 3, "max_passes": 3, "max_lost_share": math.inf}
    assign(block, "Method", functools.partial(block.Method, **few, burst=shortest))
    for scenarios in features.modules("scenarios"):
        assign(scenarios, "USUAL_S", 0.5)
        assign(scenarios, "LEAST_SLOWER", 1)


if __name__ == "__main__":
    shorten()
    main.main()
