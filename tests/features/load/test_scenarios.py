"""What MLPerf's scenarios ask of fast and of slow services."""

from __future__ import annotations

import pytest

from bench.features.load.scenarios import Demand


@pytest.mark.parametrize(("most_ns", "percentile", "queries"), [(20e6, 0.99, 1000), (80e6, 0.9, 100)])
def test_a_server_run_is_as_long_as_its_percentile_needs(most_ns: float, percentile: float, queries: int) -> None:
    demand = Demand(latency_ns=5e6, rate=20.0, most_latency_ns=most_ns, duration_s=10.0)
    settings = demand.settings("server")
    assert settings["server_target_latency_percentile"] == percentile
    assert settings["min_query_count"] == queries
    assert demand.longest_s("server") >= queries / 20.0


def test_a_run_to_submit_asks_as_many_samples_as_the_rules() -> None:
    demand = Demand(latency_ns=5e6, rate=20.0, most_latency_ns=20e6, duration_s=600.0)
    assert demand.settings("offline")["min_query_count"] == 24_576
    slow = Demand(latency_ns=5e7, rate=20.0, most_latency_ns=1e9, duration_s=600.0).settings("server")
    assert (slow["min_duration_ms"], slow["server_target_latency_percentile"]) == (600_000, 0.99)
