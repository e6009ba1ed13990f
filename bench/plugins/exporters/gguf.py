"""GGUF, the format of llama.cpp, written from the weights of a Llama of transformers in float32.

Source: the specification of GGUF (ggml's `docs/gguf.md`) and the names of tensors in the package `gguf`.

Shapes: H heads, K size of a head, I inputs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.api import Exporter, Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines import llamas
from bench.plugins.engines.byte_level import bytes_by_character

TOKENIZER = "tokenizer.json"
_NUM_ASCII = 128
LAYERS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names of a layer's weights in GGUF by those in transformers."""
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


class Gguf(Exporter):
    """A decoder as llama.cpp opens it, its weights in float32."""

    portable = True
    generates = True
    requires = ("gguf", "torch")
    extra = "generate"
    sources = ("torch",)
    writes = "gguf"

    def refusal(self, task: Task) -> str | None:
        if (reason := llamas.refusal(task)) is not None:
            return reason
        if (size := llamas.config(task)["vocab_size"]) < _NUM_ASCII:
            return f"llama.cpp asks for tokens of characters, and a vocabulary of {size} has no room"
        return None

    def export(self, task: Task, source: str, target: Path) -> Info:
        import gguf

        config, decoder = llamas.config(task), task.decoder
        assert decoder is not None, f"{task.name} is no decoder"
        writer = gguf.GGUFWriter(target, llamas.ARCHITECTURE)
        writer.add_name(task.name)
        writer.add_context_length(decoder.max_positions)
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(decoder.num_layers)
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(decoder.num_heads)
        writer.add_head_count_kv(decoder.num_groups)
        writer.add_key_length(decoder.head_size)
        writer.add_value_length(decoder.head_size)
        writer.add_rope_dimension_count(decoder.head_size)
        writer.add_rope_freq_base(float(llamas.rope(config).get("rope_theta", 10000.0)))
        writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
        writer.add_vocab_size(decoder.vocabulary)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        _add_vocabulary(writer, gguf.TokenType, task, decoder.vocabulary, decoder.end_id)
        heads = {"attn_q": decoder.num_heads, "attn_k": decoder.num_groups}
        for name, array in _weights(task).items():
            part = name.rpartition(".")[0].rpartition(".")[2]
            writer.add_tensor(name, _interleaved(array, heads[part]) if part in heads else array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return {}


def _weights(task: Task) -> dict[str, np.ndarray]:
    """The decoder's weights in float32 by their names in GGUF; tied embeddings stand once."""
    model = task.build_step("torch", task.weights_path).model
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    weights = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        weights[_renamed(name)] = np.ascontiguousarray(tensor.float().numpy())
    return weights


def _renamed(name: str) -> str:
    part = name.removesuffix(".weight")
    if part in OTHERS:
        return f"{OTHERS[part]}.weight"
    layer, _, inner = part.removeprefix("model.layers.").partition(".")
    if not (part.startswith("model.layers.") and inner in LAYERS):
        raise ArtifactError(f"a Llama has no weights {name!r}")
    return f"blk.{layer}.{LAYERS[inner]}.weight"


def _interleaved(array: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows (H K, I) of a projection in llama.cpp's order: its rotary embedding turns neighbours, not halves."""
    rows, columns = array.shape
    halves = array.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def _add_vocabulary(writer: Any, kinds: Any, task: Task, size: int, end_id: int | None) -> None:
    """Write the byte-level tokenizer of a task with texts of its own, or else made-up tokens: only ids go in and out.

    Of a token that is a part of a character llama.cpp streams nothing, so texts of ids at random need made-up tokens.
    It asks for tokens of characters, the end of a line among them, so the first ids are ASCII, and for a merge, and
    takes an ordinary id for the end of a text where the file names none.
    """
    tokenizer = _byte_level(task.folder / TOKENIZER) if task.dataset is not None else None
    tokens, merges, special = [f"<{number}>" for number in range(size)], ["< <"], set()
    for number, character in enumerate(list(bytes_by_character())[:_NUM_ASCII]):
        tokens[number] = character
    if tokenizer is not None:
        for token, number in tokenizer["model"]["vocab"].items():
            if number < size:
                tokens[number] = token
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
        special = {added["id"] for added in tokenizer["added_tokens"] if added["special"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.CONTROL if number in special else kinds.NORMAL for number in range(size)])
    writer.add_token_merges(merges)
    writer.add_add_bos_token(False)
    end = size - 1 if end_id is None else end_id
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)


def _byte_level(path: Path) -> Any:
    """The content of a `tokenizer.json` that is a BPE of bytes; None where there is no such file."""
    if not path.is_file():
        return None
    tokenizer = json.loads(path.read_text())
    splitting = json.dumps(tokenizer.get("pre_tokenizer"))
    return tokenizer if tokenizer["model"].get("type") == "BPE" and '"ByteLevel"' in splitting else None
