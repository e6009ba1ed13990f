"""Generation with openvino-genai: its `LLMPipeline` holds the loop, the choice of tokens and the cache."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.decoder import Request
from bench.api.generation import Emit, Generator, Told
from bench.onnxfile.deferred import np
from bench.plugins.engines.counted_session import CountedSession
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.session import precision_of
from bench.plugins.engines.openvino.stepper import make_stateful

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted

_MASK = "attention_mask"
"""Name of an input that the pipeline fills; a text without padding needs none."""
_SETTINGS: Mapping[str, Any] = {"ATTENTION_BACKEND": "SDPA"}
"""The pipeline's backend for one request at a time, which keeps no blocks of earlier prompts."""


def pipeline(model: Any, request: Request, settings: Mapping[str, Any]) -> Any:
    """An `LLMPipeline` of one pass of a decoder.

    Args:
        model: an `openvino.Model` with the inputs and outputs of `bench.api.decoder.Decoder`, which is changed.
        request: has the decoder.
        settings: properties to compile with.
    """
    openvino = ir.import_openvino()
    import openvino_genai
    from openvino import opset13

    make_stateful(model, request, reorders=True)
    mask = opset13.parameter([-1, -1], np.int64, name=_MASK)
    mask.output(0).get_tensor().add_names({_MASK})
    model.add_parameters([mask])
    model.validate_nodes_and_infer_types()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        openvino.save_model(model, Path(folder, "openvino_model.xml"), compress_to_fp16=False)
        Path(folder, "generation_config.json").write_text(json.dumps({"eos_token_id": 0}))  # no request heeds it
        return openvino_genai.LLMPipeline(folder, "CPU", **_SETTINGS, **settings)


class PipelineGenerator(CountedSession, Generator):
    """An `LLMPipeline` without a chat, so that each request begins anew.

    Args:
        artifact: the archive of the model.
        request: the request.
        settings: properties to compile with.
        cache_bytes: bytes of an element of the state.
    """

    scores = False

    def __init__(self, artifact: Path, request: Request, settings: Mapping[str, Any], cache_bytes: int) -> None:
        super().__init__(request)
        self.cache_bytes = cache_bytes
        self._artifact, self._settings = artifact, settings
        model, _weights = ir.read(ir.import_openvino().Core(), artifact)
        self._pipeline, self._streamer = pipeline(model, request, settings), _streamer()

    # Read after everything that is timed: a pipeline tells neither, so the model is compiled once more.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """The precision that OpenVINO alone compiles the model to."""
        core = ir.import_openvino().Core()
        model, _weights = ir.read(core, self._artifact)
        make_stateful(model, self.request, reorders=True)
        return precision_of(core.compile_model(model, "CPU", dict(self._settings)))

    @functools.cached_property
    def weight_bytes(self) -> int:  # type: ignore[override]
        return ir.weight_bytes(self._artifact)

    def count(self) -> Counted:
        """The parameters of the model in the archive."""
        from bench.plugins.engines.openvino import parameters

        model, _weights = ir.read(ir.import_openvino().Core(), self._artifact)
        return parameters.of_model(model)

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = num_new  # a least number would make the end of a text impossible, not ignore it
        config.ignore_eos, config.do_sample, config.num_beams = True, False, 1
        answer = self._pipeline.generate(openvino.Tensor(prompt[None]), config, self._streamer(emit))
        metrics = answer.perf_metrics
        return Told(
            num_prompt=metrics.get_num_input_tokens(),
            num_new=metrics.get_num_generated_tokens(),
            first_ns=metrics.raw_metrics.m_times_to_first_token[0] * 1e3,
            gaps_ns=[each * 1e3 for each in metrics.raw_metrics.m_durations[-(num_new - 1) :]] if num_new > 1 else [],
        )

    def close(self) -> None:
        self._pipeline = None


def _streamer() -> Any:
    """A class of streamers that hand each token on; its base is known only where the package is imported."""
    import openvino_genai

    running = openvino_genai.StreamingStatus.RUNNING

    class Streamer(openvino_genai.StreamerBase):
        def __init__(self, emit: Emit) -> None:
            super().__init__()
            self._emit = emit

        def write(self, token: Any) -> Any:
            for each in token if isinstance(token, list) else [token]:
                self._emit(int(each))
            return running

        def end(self) -> None:
            pass

    return Streamer
