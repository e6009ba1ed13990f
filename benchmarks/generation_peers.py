"""Time to first token and time per output token here, beside what llama.cpp and openvino-genai time by themselves.

    python benchmarks/generation_peers.py [--launches 8] [--rounds 12] [--prompt 256] [--new 64]

Each launch is a process that opens an engine three times: by its runtime here, and twice by its package alone, as its
documentation has it. Requests take turns, so that all see the same machine. A launch gives medians of paired ratios;
the table has their means over launches, with 95 % intervals of Student's t.

`over alone`: ours over the package alone, by its own timings. `alone, twice`: one copy of the package over the other,
which is how far two copies of the same program differ. `own clock`: our clock over the engine's own clock for the very
requests that we timed. `left out`: milliseconds of a request that the engine's own clock leaves out, here of the first
token, and `left out alone` of a whole request to the package alone, from the call to its return.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.api.generation import Generator
from bench.measure import tokens
from bench.plugins import catalog, steps

STEP = "codegen_lm~step"
EXPORTERS: Mapping[str, str] = {"llama_cpp": "gguf", "openvino_genai": "torch_openvino"}
FIGURES = ("TTFT", "TPOT")
Times = tuple[float, float, float]
"""Nanoseconds to the first token, in the mean from each token to the next, and of the call but by no engine's clock."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--launch", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ |= catalog.runtime("pytorch").environment(1)
    if asked.launch:
        print(json.dumps(launch(asked.launch[0], Path(asked.launch[1]), asked)))
        return
    head = ("engine", "figure", "ours (ms)", "alone (ms)", "over alone", "alone, twice", "own clock", "left out (ms)")
    print("| " + " | ".join((*head, "left out alone (ms)")) + " |")
    print("| :-- | :-- |" + " --: |" * (len(head) - 1))
    with tempfile.TemporaryDirectory() as folder:
        for name, exporter in EXPORTERS.items():
            artifact = Path(folder, f"model.{catalog.exporter(exporter).writes}")
            steps.export(catalog.exporter(exporter), catalog.task(STEP), "torch", artifact)
            again = [sys.executable, __file__, *sys.argv[1:], "--launch", name, str(artifact)]
            found = [
                json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
                for _ in range(asked.launches)
            ]
            for figure in FIGURES:
                line = {key: [each[figure][key] for each in found] for key in found[0][figure]}
                cells = [f"{np.median(line[key]) / 1e6:.4g}" for key in ("ours", "alone")]
                cells += [with_interval(line[key]) for key in ("over alone", "alone, twice", "own clock")]
                left = ("left out", "left out alone")
                cells += [f"{np.median(line[key]) / 1e6:.3f}" if figure == FIGURES[0] else "" for key in left]
                print(f"| {name} | {figure} | " + " | ".join(cells) + " |", flush=True)


def with_interval(ratios: list[float]) -> str:
    """The mean of ratios by their logarithms, with its 95 % interval."""
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5
    middle, low, high = np.exp(logs.mean() + half * np.array([0, -1, 1]))
    return f"{middle:.4f} [{low:.4f}, {high:.4f}]"


def launch(name: str, artifact: Path, asked: Any) -> dict[str, dict[str, float]]:
    """Medians of one process, by figure: nanoseconds, and ratios of requests that came right after one another."""
    task = catalog.task(f"codegen_lm~generate@new={asked.new},prompt={asked.prompt}")
    session = catalog.runtime(name).open(artifact, task=task, source="torch", provider="cpu", threads=1)
    assert isinstance(session, Generator)
    inputs = task.samples("test").inputs["input_ids"]
    prompts = [inputs[row, 0, : asked.prompt] for row in range(len(inputs))]
    peer = {"llama_cpp": llama_alone, "openvino_genai": openvino_alone}[name]
    told: list[Times] = []

    def ours(prompt: Any) -> Times:
        found = tokens.timed(session, prompt, asked.new)
        own = (found.report.first_ns or 0.0, float(np.mean(found.report.gaps_ns or [0.0])))
        told.append((*own, 0.0))
        return found.first_ns, float(np.mean(found.gaps_ns)), found.first_ns - own[0]

    alone = [peer(artifact, asked.prompt, asked.new, session.reserved_tokens) for _ in range(2)]
    runs: list[Callable[[Any], Times]] = [ours, *alone]
    times: list[list[Times]] = [[] for _ in runs]
    for number in range(asked.rounds + 1):
        prompt = prompts[number % len(prompts)]
        for place in np.random.default_rng(number).permutation(len(runs)):
            times[place].append(runs[place](prompt))
    table = np.array([*times, told])[:, 1:]  # the first round warms up
    mine, first, second, same = table.transpose(0, 2, 1)
    left = {"left out": float(np.median(mine[2])), "left out alone": float(np.median(first[2]))}
    return {
        figure: {
            "ours": float(np.median(mine[place])),
            "alone": float(np.median(first[place])),
            "over alone": float(np.median(mine[place] / np.sqrt(first[place] * second[place]))),
            "alone, twice": float(np.median(second[place] / first[place])),
            "own clock": float(np.median(mine[place] / same[place])),
            **left,
        }
        for place, figure in enumerate(FIGURES)
    }


def llama_alone(artifact: Path, num_prompt: int, num_new: int, num_reserved: int | None) -> Callable[[Any], Times]:
    """llama.cpp through xllamacpp alone: one completion as its README has it, and its own `timings`."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(artifact)
    params.n_ctx, params.n_parallel, params.verbosity = num_reserved, 1, -1
    params.cache_prompt, params.cache_ram_mib, params.n_ctx_checkpoints = False, 0, 0  # nothing is kept of a prompt
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # as here for weights in float32
    server = xllamacpp.Server(params)

    def run(prompt: Any) -> Times:
        asked = {"prompt": prompt.tolist(), "n_predict": num_new, "ignore_eos": True, "cache_prompt": False}
        start = time.perf_counter_ns()
        told = server.handle_completions({**asked, "temperature": 0, "samplers": ["top_k"], "top_k": 1})["timings"]
        whole = time.perf_counter_ns() - start
        assert (told["prompt_n"], told["cache_n"], told["predicted_n"]) == (num_prompt, 0, num_new)
        return (
            told["prompt_ms"] * 1e6,
            told["predicted_per_token_ms"] * 1e6,
            whole - (told["prompt_ms"] + told["predicted_ms"]) * 1e6,
        )

    return run


def openvino_alone(artifact: Path, num_prompt: int, num_new: int, num_reserved: int | None) -> Callable[[Any], Times]:
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

    def run(prompt: Any) -> Times:
        ids = openvino.Tensor(prompt[None].astype(np.int64))
        start = time.perf_counter_ns()
        metrics = pipeline.generate(ids, config).perf_metrics
        whole = time.perf_counter_ns() - start
        assert (metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()) == (num_prompt, num_new)
        return (
            metrics.get_ttft().mean * 1e6,
            metrics.get_tpot().mean * 1e6,
            whole - (metrics.get_ttft().mean + metrics.get_tpot().mean * (num_new - 1)) * 1e6,
        )

    return run


if __name__ == "__main__":
    main()
