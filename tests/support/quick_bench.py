"""`bench` with bursts of two inferences and short loads: for tests of the stored records, not of their figures."""

import functools
import math

from bench.cli import main
from bench.measure import block
from bench.measure.clock import BurstPlan
from bench.measure.load import scenarios

if __name__ == "__main__":
    shortest = BurstPlan(warm_ns=0, target_ns=0, min_runs=2, max_runs=2)
    few = {"min_passes": 3, "max_passes": 3, "max_lost_share": math.inf}
    block.Method = functools.partial(block.Method, **few, burst=shortest)  # type: ignore
    scenarios.USUAL_S, scenarios.LEAST_SLOWER = 0.5, 1
    main.main()
