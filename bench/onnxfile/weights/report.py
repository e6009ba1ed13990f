"""A report on every weight of a model: statistics of its elements, and the structure of its zeros."""

from __future__ import annotations

import dataclasses

from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.weights.sparsity import Sparsity, measure_sparsity, zero_of
from bench.onnxfile.weights.statistics import WeightStatistics, measure_weight
from bench.onnxfile.weights.tensors import weight_tensors


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightReport:
    """A stored tensor of numbers.

    Attributes:
        num_params: how many parameters it holds, by the rule of `bench.onnxfile.weights.parameters`.
        sparsity: None for a tensor with a single axis, such as a bias.
    """

    num_params: int
    statistics: WeightStatistics
    sparsity: Sparsity | None


def weight_report(stored: Stored) -> list[WeightReport]:
    """A report on every weight of a model as it is stored; one weight is in memory at a time.

    Raises:
        InputError: external data are missing.
    """
    reports = []
    for weight in weight_tensors(stored):
        name, array = weight.name, stored.array(weight.tensor)
        sparsity = measure_sparsity(name, array, zero=zero_of(stored, weight)) if array.ndim > 1 else None
        statistics = measure_weight(name, array)
        reports.append(WeightReport(num_params=weight.num_params, statistics=statistics, sparsity=sparsity))
    return reports
