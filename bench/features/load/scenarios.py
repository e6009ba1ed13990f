"""The settings of MLPerf's scenarios: how long they run, how many queries they ask, and what makes them valid.

Source: MLPerf Inference rules, section "Scenarios", and the defaults of mlcommons-loadgen 6.0.
"""

from __future__ import annotations

import dataclasses
import math

from bench.features.load import lines, loadgen

SUBMISSION_S = 600.0
"""Seconds of a run that may be submitted to MLPerf."""
_SUBMISSION_SAMPLES = 24_576
"""Samples of the offline scenario of a submission, at least."""
_STREAM_SAMPLES = 8
"""Samples of one query of the multi-stream scenario."""
_PERCENTILE = 0.99
"""Percentile of the latency of the multi-stream scenario, and of the server scenario of a submission."""
_LEAST_QUERIES = 100
LEAST_SLOWER = 10
"""Queries of the server scenario beyond its percentile at least: early stopping, which allows fewer to be slow than the
percentile says, allows none at half as many."""
USUAL_S = 10.0
"""Seconds of a run, unless it is to be submitted."""
_SURPLUS = 1.3
"""More samples than the expected rate gives in the least duration: a faster run must not end early."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demand:
    """What a scenario asks of a service.

    Attributes:
        latency_ns: expected latency of one request, when none waits.
        rate: requests a second, of the server scenario.
        most_latency_ns: bound on the latency in the server scenario, at the percentile of `lines.bounded`, and of a
            submission at `_PERCENTILE`.
        duration_s: seconds that a run takes at least.
        capacity: samples a second that the offline scenario expects; None for the rate.
        seed: of the arrivals and of the choice of samples.
        num_tokens: tokens of each answer, where answers are texts of several; 0 for others. The bound on the latency is
            then that on the time to first token, and its share of a token that on the time per output token.
    """

    latency_ns: float
    rate: float
    most_latency_ns: float
    duration_s: float = USUAL_S
    capacity: float | None = None
    seed: int = 1
    num_tokens: int = 0

    def settings(self, scenario: str) -> dict[str, float]:
        """Fields of the load generator's settings for one of `loadgen.SCENARIOS`."""
        common: dict[str, float] = {
            "min_duration_ms": int(1000 * self.duration_s),
            "min_query_count": _LEAST_QUERIES,
            "qsl_rng_seed": self.seed,
            "sample_index_rng_seed": self.seed,
            "schedule_rng_seed": self.seed,
        }
        if self.num_tokens > 1:
            most_ns = int(self.most_latency_ns)
            common |= {
                loadgen.TOKENS: 1,
                "ttft_latency": most_ns,
                "tpot_latency": most_ns // self.num_tokens,
            }
        expected_ns = max(1, int(self.latency_ns))
        expected = self.capacity or self.rate
        samples = max(_LEAST_QUERIES, math.ceil(_SURPLUS * expected * self.duration_s))
        if self.duration_s >= SUBMISSION_S:
            samples = max(samples, _SUBMISSION_SAMPLES)
        percent = 100 * _PERCENTILE
        if self.duration_s < SUBMISSION_S:
            percent = lines.PERCENTILES[lines.bounded(self.most_latency_ns)]
        own: dict[str, dict[str, float]] = {
            "single_stream": {"single_stream_expected_latency_ns": expected_ns},
            "multi_stream": {
                "multi_stream_samples_per_query": _STREAM_SAMPLES,
                "multi_stream_expected_latency_ns": _STREAM_SAMPLES * expected_ns,
                "multi_stream_target_latency_percentile": _PERCENTILE,
            },
            "server": {
                "server_target_qps": self.rate,
                "server_target_latency_ns": int(self.most_latency_ns),
                "server_target_latency_percentile": percent / 100,
                "min_query_count": round(LEAST_SLOWER * 100 / (100 - percent)),
            },
            "offline": {"offline_expected_qps": expected, "min_query_count": samples},
        }
        return common | own[scenario]

    def longest_s(self, scenario: str) -> float:
        """Seconds that a run takes at most, if the latency is not far from what is expected."""
        queries_s = _LEAST_QUERIES * self.latency_ns * (_STREAM_SAMPLES if scenario == "multi_stream" else 1) / 1e9
        if scenario == "server":
            queries_s = self.settings(scenario)["min_query_count"] / self.rate
        return 4 * (self.duration_s + queries_s)
