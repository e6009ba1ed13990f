"""Time to first token and time per output token here, beside what llama.cpp and openvino-genai time by themselves.

    python benchmarks/generation_peers.py [--rounds 15] [--prompt 256] [--new 64]

Each engine is opened twice in this process: by its runtime here, and by its package alone, as its documentation has it.
Requests take turns, so that both see the same machine. `alone`: our median over that of the package alone, by its own
timings; `same request`: our clock over the engine's own clock for the very requests that we timed, which tells what is
not the engine's: handing ids over, and the callback.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.api.generation import Generator
from bench.measure import tokens
from bench.plugins import catalog, steps

STEP = "codegen_lm~step"
Times = tuple[float, float]
"""Nanoseconds to the first token, and in the mean from each token to the next."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=64)
    asked = parser.parse_args()
    os.environ |= catalog.runtime("pytorch").environment(1)
    print("| engine | figure | ours (ms) | alone (ms) | over alone | over its own clock, same request |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, exporter, peer in (
            ("llama_cpp", "gguf", llama_alone),
            ("openvino_genai", "torch_openvino", openvino_alone),
        ):
            artifact = Path(folder, f"model.{catalog.exporter(exporter).writes}")
            steps.export(catalog.exporter(exporter), catalog.task(STEP), "torch", artifact)
            compare(name, artifact, peer, asked)


def compare(name: str, artifact: Path, peer: Callable[..., Callable[[list[int]], Times]], asked: Any) -> None:
    """Print a line for each figure of one engine."""
    task = catalog.task(f"codegen_lm~generate@new={asked.new},prompt={asked.prompt}")
    runtime = catalog.runtime(name)
    session = runtime.open(artifact, task=task, source="torch", provider="cpu", threads=1)
    assert isinstance(session, Generator)
    inputs = task.samples("test").inputs["input_ids"]
    prompts = [inputs[row, 0, : asked.prompt] for row in range(len(inputs))]
    alone = peer(artifact, asked.prompt, asked.new)
    ours: list[Times] = []
    told: list[Times] = []
    theirs: list[Times] = []
    for number in range(asked.rounds + 1):
        prompt = prompts[number % len(prompts)]
        for each in (0, 1) if number % 2 else (1, 0):
            if each:
                theirs.append(alone(prompt.tolist()))
            else:
                found = tokens.timed(session, prompt, asked.new)
                ours.append((found.first_ns, float(np.mean(found.gaps_ns))))
                gaps = found.told.gaps_ns or [0.0]
                told.append((found.told.first_ns or 0.0, float(np.mean(gaps))))
    for place, figure in enumerate(("TTFT", "TPOT")):
        own, other, same = ([times[place] for times in each[1:]] for each in (ours, theirs, told))
        over_same = statistics.median(mine / its for mine, its in zip(own, same, strict=True))
        middle, beside = statistics.median(own), statistics.median(other)
        over = statistics.median(mine / its for mine, its in zip(own, other, strict=True))
        print(
            f"| {name} | {figure} | {middle / 1e6:.4g} | {beside / 1e6:.4g} | {over:.4f} | {over_same:.4f} |",
            flush=True,
        )
    session.close()


def llama_alone(artifact: Path, num_prompt: int, num_new: int) -> Callable[[list[int]], Times]:
    """llama.cpp through xllamacpp alone: one completion as its README has it, and its own `timings`."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(artifact)
    params.n_ctx, params.n_parallel, params.verbosity = 512, 1, -1
    params.cache_prompt, params.cache_ram_mib, params.n_ctx_checkpoints = False, 0, 0  # nothing is kept of a prompt
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # as here for weights in float32
    server = xllamacpp.Server(params)

    def run(ids: list[int]) -> Times:
        asked = {"prompt": ids, "n_predict": num_new, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
        told = server.handle_completions({**asked, "samplers": ["top_k"], "top_k": 1})["timings"]
        assert (told["prompt_n"], told["cache_n"], told["predicted_n"]) == (num_prompt, 0, num_new)
        return told["prompt_ms"] * 1e6, told["predicted_per_token_ms"] * 1e6

    return run


def openvino_alone(artifact: Path, num_prompt: int, num_new: int) -> Callable[[list[int]], Times]:
    """`LLMPipeline` alone, and its own `PerfMetrics`; nothing streams."""
    import openvino
    import openvino_genai

    from bench.plugins.engines.openvino import genai, ir
    from bench.plugins.engines.openvino.settings import of_generation

    task = catalog.task(f"codegen_lm~generate@new={num_new},prompt={num_prompt}")
    assert task.request is not None
    model, _weights = ir.read(openvino.Core(), artifact)
    pipeline = genai.pipeline(model, task.request, of_generation("cpu", 1))
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = num_new
    config.ignore_eos, config.do_sample = True, False

    def run(ids: list[int]) -> Times:
        metrics = pipeline.generate(openvino.Tensor(np.array([ids], np.int64)), config).perf_metrics
        assert (metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()) == (num_prompt, num_new)
        return metrics.get_ttft().mean * 1e6, metrics.get_tpot().mean * 1e6

    return run


if __name__ == "__main__":
    main()
