"""Requests of explanations to a worker: see `bench.pipeline.operations`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bench.pipeline.profile_requests import first_request
from bench.plugins import catalog


def drift(
    *, task: str, before: str, after: str, batch: int, inputs: str, tolerance: float, names: dict[str, str] | None
) -> dict[str, Any]:
    """Find where one ONNX file's values first differ from another's: see `bench.onnxfile.diff.drift`.

    Args:
        task: name of the task whose inputs are fed.
        before: path of the first ONNX file.
        after: path of the second ONNX file.
        batch: number of samples in the inference.
        inputs: path of an `.npz` file with the inputs.
        tolerance: largest difference that is no drift, as a share of the largest magnitude.
        names: names of the tensors that both files share, from `after` to `before`; None for equal names.
    """
    from bench.onnxfile.diff import drift

    definition = catalog.task(task)
    specs = definition.outputs if definition.request is None else definition.request.decoder.outputs
    comparison = drift.find(
        Path(before),
        Path(after),
        feeds=first_request(definition, inputs, batch),
        outputs=[spec.name for spec in specs],
        tolerance=tolerance,
        names=names,
    )
    return dataclasses.asdict(comparison)
