"""Rows made by hand, for tests of tables: a baseline and a faster cell."""

from __future__ import annotations

from typing import Any

from bench.records.rows import Row


def make(path: str, **figures: Any) -> Row:
    task, source, exporter, variant, runtime, provider, sizes = path.split("/")
    batch, threads = sizes[1:].split("t")
    fields: dict[str, Any] = {
        "task": task,
        "source": source,
        "exporter": exporter,
        "variant": variant,
        "runtime": runtime,
    }
    sizes_of = {"batch": int(batch), "threads": int(threads)}
    return Row(**{"cell": path, "provider": provider, "status": "ok"} | fields | sizes_of | figures)


def timed(path: str, ms: float, ratio: float, verdict: str | None, **figures: Any) -> Row:
    p50 = ms * 1e6
    interval = {"latency_p50_low_ns": p50 * 0.99, "latency_p50_high_ns": p50 * 1.01}
    ends = {"ratio_low": round(ratio - 0.007, 3), "ratio_high": round(ratio + 0.007, 3)}
    usual: dict[str, Any] = {
        "latency_p50_ns": p50,
        "ratio": ratio,
        "verdict": verdict,
        "fidelity": "close",
        "num_launches": 3,
    }
    return make(path, **(usual | interval | ends | figures))


BASELINE = timed(
    "crnn/torch/native/raw/pytorch/cpu/b1t2",
    34.0,
    1.0,
    None,
    ratio_low=1.0,
    ratio_high=1.0,
    aa_low=0.991,
    aa_high=1.012,
    fidelity="exact",
)
FAST = timed(
    "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t2",
    17.4,
    0.512,
    "faster",
    precision="int8",
    model_rss_bytes=123_456_789,
    size_bytes=33_400_000,
    metric=0.98765,
    metric_name="accuracy",
    metric_loss_high=0.004464,
)
