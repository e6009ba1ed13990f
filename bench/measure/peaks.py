"""The peak rates of this machine: products of large matrices in each precision, and copies within its memory.

Each product is computed by every installed library that offers it, and the fastest run counts: a disturbance can only
lower a rate, so the highest rate is the best estimate of the peak. The stored peaks are the highest of all times.
Several tries of each product lie apart in time, and further ones replace those in which other programs or other virtual
machines took time; a rate that even these did not leave in peace is marked.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.measure import clock
from bench.measure.lost_time import Watch
from bench.measure.process import ask_once
from bench.measure.roofline import COPY, Peaks

SIZE = 1024  # rows and columns of the matrices: large enough for full speed, small enough for the caches
COPY_BYTES = 2**28  # far beyond any cache
SPAN_NS = 200_000_000  # of each try of a product
_TRIES, _MOST_TRIES = 3, 8  # undisturbed tries of each product, and tries in all
_MOST_LOST_SHARE = 0.05  # of the time of an undisturbed try, as of a block of launches
_TIMEOUT_S = 300.0
_Product = tuple[str, str, Callable[[], object]]  # precision, library, one product


def ask(threads: int) -> Peaks:
    """Measure the peaks of this machine, in a process of its own.

    Raises:
        ChildError: the child process failed.
    """
    answer = ask_once(peaks, timeout_s=_TIMEOUT_S, memory_bytes=None, threads=threads, num_threads=threads)
    return Peaks(**answer)


def peaks(*, num_threads: int) -> dict[str, Any]:
    """The request to a child process: the fields of `Peaks`, see `measure`."""
    return dataclasses.asdict(measure(num_threads))


def measure(threads: int) -> Peaks:
    """Measure the peaks with a number of threads, in a process that may import every installed library."""
    rates, products = Peaks(macs_per_s={}, libraries={}, bytes_per_s=0.0), list(_products(threads))
    undisturbed: Counter[tuple[str, str]] = Counter()
    with _copying(threads) as (copy, num_bytes):
        products.append((COPY, COPY, copy))
        for number in range(_MOST_TRIES):
            for precision, library, product in products:
                if number >= _TRIES and undisturbed[precision, library] >= _TRIES:
                    continue
                watch = Watch([os.getpid()])
                seconds, lost = _fastest_s(product), watch.lost().most
                undisturbed[precision, library] += lost is not None and lost <= _MOST_LOST_SHARE
                if precision == COPY:
                    tried = Peaks(macs_per_s={}, libraries={}, bytes_per_s=num_bytes / seconds)
                else:
                    tried = Peaks(
                        macs_per_s={precision: SIZE**3 / seconds}, libraries={precision: library}, bytes_per_s=0.0
                    )
                rates = rates.or_higher(tried)
    disturbed = {precision for precision, library, _ in products if undisturbed[precision, library] < _TRIES}
    known = {precision for precision, _, _ in products} - disturbed
    return dataclasses.replace(rates, undisturbed=tuple(sorted(known)))


def _fastest_s(call: Callable[[], object]) -> float:
    """Seconds of the fastest call among those that fit in `SPAN_NS`; at least one call is made."""
    end = clock.now_ns() + SPAN_NS
    times = [clock.time_call_ns(call)]
    while clock.now_ns() < end:
        times.append(clock.time_call_ns(call))
    return min(times) / 1e9


def _products(threads: int) -> Iterator[_Product]:
    yield from _numpy_products()
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        yield from _ort_products(threads)
    if importlib.util.find_spec("torch"):
        yield from _torch_products(threads)


def _numpy_products() -> Iterator[_Product]:
    """Products of NumPy, whose number of threads is set by the environment in which the process began."""
    for precision in ("float32", "float64"):
        left, right = np.ones((2, SIZE, SIZE), precision)
        yield precision, "numpy", lambda left=left, right=right: left @ right  # type: ignore[misc]


def _ort_products(threads: int) -> Iterator[_Product]:
    import onnxruntime

    for precision, left, right in (("float32", "float32", "float32"), ("int8", "uint8", "int8")):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        model = _product_model(np.ones((SIZE, SIZE), right), left)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = {"left": np.ones((SIZE, SIZE), left)}
        yield precision, "onnxruntime", lambda session=session, feeds=feeds: session.run(None, feeds)  # type: ignore[misc]


def _product_model(right: Any, left: str) -> bytes:
    """A serialized model of one product with a constant, which a runtime may pack beforehand as it packs any weight."""
    from onnx import TensorProto, helper, numpy_helper

    is_float = right.dtype == np.float32
    output_type = TensorProto.FLOAT if is_float else TensorProto.INT32
    graph = helper.make_graph(
        [helper.make_node("MatMul" if is_float else "MatMulInteger", ["left", "right"], ["product"])],
        "product",
        [helper.make_tensor_value_info("left", helper.np_dtype_to_tensor_dtype(np.dtype(left)), [SIZE, SIZE])],
        [helper.make_tensor_value_info("product", output_type, [SIZE, SIZE])],
        [numpy_helper.from_array(right, "right")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _torch_products(threads: int) -> Iterator[_Product]:
    import torch

    torch.set_num_threads(threads)
    for precision in ("float32", "bfloat16", "float16"):
        left, right = torch.ones((2, SIZE, SIZE), dtype=getattr(torch, precision))
        with contextlib.suppress(RuntimeError):  # not every build has every precision
            left @ right
            yield precision, "torch", lambda left=left, right=right: left @ right  # type: ignore[misc]


@contextlib.contextmanager
def _copying(threads: int) -> Iterator[tuple[Callable[[], object], int]]:
    """A copy, of which each thread makes a part of its own, and the bytes that it reads and writes."""
    source, target = np.ones((2, threads, COPY_BYTES // 4 // threads), np.float32)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        yield lambda: list(pool.map(np.copyto, target, source)), 2 * source.nbytes
