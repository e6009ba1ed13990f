"""onnxruntime-genai: the generation loop of ONNX Runtime, with its own choice of tokens and its own cache."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Runtime, Session, Task
from bench.api.decoder import Request
from bench.api.generation import Emit, Generator, Told
from bench.onnxfile.deferred import np, onnx
from bench.plugins.engines import genai
from bench.plugins.engines.counted_session import CountedSession
from bench.plugins.engines.onnxruntime.providers import ENVIRONMENT

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted


class GenaiGenerator(CountedSession, Generator):
    """A `Generator` of onnxruntime-genai for each request, so that nothing is left of the one before.

    Args:
        model: the opened `Model`.
        shares: whether the cache lies in place from the start, for as many tokens as the request has (the builder's
            default where attention is a GroupQueryAttention), or is made anew by each pass.
    """

    def __init__(self, model: Any, artifact: Path, request: Request, *, shares: bool) -> None:
        super().__init__(request)
        self._model, self._artifact = model, artifact
        if shares:
            self.reserved_tokens = request.num_prompt + request.num_new

    # Read after loading, which is timed.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """The most reduced precision in which the model multiplies."""
        from bench.plugins.engines.onnxruntime.precision import most_reduced

        return most_reduced(genai.graph_of(self._artifact))

    def count(self) -> Counted:
        """The parameters of the graph in the folder."""
        from bench.onnxfile.weights import parameter_counts

        with tempfile.TemporaryDirectory() as folder:
            genai.unpack(self._artifact, Path(folder))
            return parameter_counts.of_onnx(Path(folder, genai.MODEL))

    @functools.cached_property
    def cache_bytes(self) -> int:  # type: ignore[override]
        inputs = genai.graph_of(self._artifact).graph.input
        kind = next(value.type.tensor_type.elem_type for value in inputs if value.name.startswith("past_key_values"))
        return onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize

    @functools.cached_property
    def weight_bytes(self) -> int:  # type: ignore[override]
        return genai.weight_bytes(self._artifact)

    def _begin(self, prompt: np.ndarray, num_more: int) -> Any:
        """A generator of the engine that has run a prompt, and takes so many tokens more."""
        import onnxruntime_genai

        params = onnxruntime_genai.GeneratorParams(self._model)
        params.set_search_options(do_sample=False, num_beams=1, max_length=len(prompt) + num_more)
        generator = onnxruntime_genai.Generator(self._model, params)
        generator.append_tokens(prompt.astype(np.int32))
        return generator

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        generator = self._begin(prompt, num_new)
        for _ in range(num_new):
            generator.generate_next_token()
            emit(int(generator.get_next_tokens()[0]))
        return Told(num_prompt=generator.token_count() - num_new, num_cached=0)

    def logits_after(self, prompt: np.ndarray, forced: np.ndarray) -> np.ndarray:
        generator = self._begin(prompt, len(forced))
        rows = [generator.get_logits().reshape(-1)]
        for token in forced[:-1]:
            generator.append_tokens(np.array([token], np.int32))
            rows.append(generator.get_logits().reshape(-1))
        return np.stack(rows)

    def close(self) -> None:
        self._model = None


class OnnxRuntimeGenai(Runtime):
    """Opens folders of onnxruntime-genai, each in one archive."""

    title = "onnxruntime-genai"
    requires = ("onnxruntime_genai",)
    extra = "generate"
    formats = (genai.FORMAT,)
    default_for = (genai.FORMAT,)
    generates = True
    scores = False

    def packages(self, provider: str) -> tuple[str, ...]:
        return (*self.requires, "onnxruntime")  # whose library it loads

    def environment(self, threads: int) -> dict[str, str]:
        return ENVIRONMENT

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import onnxruntime_genai

        onnxruntime_genai.disable_telemetry_events()
        assert task.request is not None
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps files that are mapped
            genai.unpack(artifact, Path(folder))
            file = Path(folder, genai.CONFIG)
            config = json.loads(file.read_text())
            # No id ends a text; an overlay could add ids, but take none away (0.18.0).
            config["model"]["eos_token_id"] = []
            options = config["model"]["decoder"]["session_options"]
            options |= {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
            file.write_text(json.dumps(config))
            model = onnxruntime_genai.Model(onnxruntime_genai.Config(folder))
        shares = config["search"]["past_present_share_buffer"]
        return GenaiGenerator(model, artifact, task.request, shares=shares)
