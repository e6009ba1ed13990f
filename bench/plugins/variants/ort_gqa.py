"""Grouped-query attention with rotation as one node of ONNX Runtime, and its fused RMS normalizations."""

from __future__ import annotations

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.decoder import IDS, Decoder
from bench.api.errors import RefusedError
from bench.api.names import Role
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.diff.same_outputs import check_same_on, check_same_outputs
from bench.onnxfile.edits.rewire import load_settled
from bench.plugins.engines.onnxruntime import grouped

_MOST_TOKENS = 1024
"""Of a prompt to compare on: the scores of the attention before it was rewritten grow with its square."""
_MOST_CACHED = 2**26
"""Elements of a cache to compare on, 256 MiB of each of the two models."""


class OrtGqa(Variant):
    """GroupQueryAttention for a pass of a decoder, with the interface that it had.

    The normalizations are fused by ONNX Runtime's transformer optimizer. Its patterns for rotation and attention match
    no pass of ours (ONNX Runtime 1.31.1): they ask for sizes that a TorchScript trace computes in the graph, for
    position ids and for a mask as inputs, and `replace_mha_with_gqa` packs only as many heads of keys as of queries. So
    the attention is rewritten here, see `bench.plugins.engines.onnxruntime.grouped`.

    No mask is read: outputs are compared with the source's for a long prompt and a long cache as well, where an
    attention that is not causal, or has a window, differs.
    """

    portable = True
    requires = ("onnxruntime", "onnx", "onnx_ir", "sympy")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        decoder = task.decoder
        if decoder is None or task.role is not Role.DECODING_STEP:
            raise RefusedError("it is for a pass of a decoder, whose caches tell where its attention is")
        original, model = onnx.load(source), load_settled(source)
        finder = grouped.Finder(model.graph)
        grouped.write(model, [finder.layer(number) for number in range(decoder.num_layers)], decoder)
        model, fused = _with_norms(model, decoder)
        check_same_outputs(original, model, task)
        check_same_on(original, model, task, _long_prompt(decoder), "a long prompt")
        check_same_on(original, model, task, _long_cache(decoder), "a long cache")
        onnx.save(model, target)
        return {"num_layers": decoder.num_layers, "fused": fused}


def _with_norms(model: onnx.ModelProto, decoder: Decoder) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model with the normalizations that ONNX Runtime's transformer optimizer fuses, and the fused nodes it has."""
    from onnxruntime.transformers import fusion_options, optimizer

    options = fusion_options.FusionOptions("gpt2")
    options.enable_attention = options.enable_rotary_embeddings = options.enable_embed_layer_norm = False
    sizes = {"num_heads": decoder.num_heads, "hidden_size": decoder.num_heads * decoder.head_size}
    fused = optimizer.optimize_by_fusion(model, "gpt2", **sizes, optimization_options=options)
    nodes = [node.op_type for node in fused.model.graph.node]
    kinds = ("GroupQueryAttention", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization")
    return fused.model, {kind: nodes.count(kind) for kind in kinds}


def _long_prompt(decoder: Decoder) -> dict[str, np.ndarray]:
    length = min(_MOST_TOKENS, decoder.max_positions)
    ids = np.random.default_rng(0).integers(decoder.vocabulary, size=(1, length))
    return {**grouped.empty_feeds(decoder, length), IDS: ids}


def _long_cache(decoder: Decoder) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    length = min(decoder.max_positions - 1, _MOST_CACHED // decoder.cache_per_token)
    shape = (1, decoder.num_groups, length, decoder.head_size)
    caches = {spec.name: generator.standard_normal(shape, np.float32) for spec in decoder.inputs[1:]}
    return {IDS: np.ones((1, 1), np.int64), **caches}
