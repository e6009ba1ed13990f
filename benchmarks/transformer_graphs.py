"""Transformers as ONNX files, built from a configuration alone: BERT, GPT-2 and LLaMA, written as exporters write them.

Batch and length are dynamic, heads are split by shape arithmetic, and normalizations are spelled out, so that an
analysis has to follow all of that. Weights lie in a file beside the model: random numbers, or none at all, in a file of
the right size that takes no room on a disk.

Shapes: B batch, T tokens, H heads, K size of one head, D hidden size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
MASKED = -1e9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """A transformer's sizes; the defaults are BERT-base's."""

    vocabulary: int = 30522
    positions: int = 512
    hidden: int = 768
    inner: int = 3072
    heads: int = 12
    layers: int = 12


BERT_BASE = Config()
GPT2 = Config(vocabulary=50257, positions=1024)
LLAMA_LAYER = Config(vocabulary=32000, positions=2048, hidden=4096, inner=11008, heads=32, layers=1)


class Graph:
    """Nodes and weights while they are put together."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.small: list[onnx.TensorProto] = []
        self.weights: dict[str, tuple[int, ...]] = {}
        self._numbers = itertools.count()

    def add(self, op_type: str, inputs: Iterable[str], **attributes: object) -> str:
        """A node with one output; gives the output's name."""
        output = f"{op_type.lower()}_{next(self._numbers)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=f"/{output}", **attributes))
        return output

    def constant(self, value: object, dtype: type = np.int64) -> str:
        name = f"constant_{next(self._numbers)}"
        self.small.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        self.weights[name] = shape
        return name

    def linear(self, x: str, name: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", inputs, outputs)])
        return self.add("Add", [product, self.weight(f"{name}.bias", outputs)]) if bias else product

    def layer_norm(self, x: str, name: str, size: int) -> str:
        centred = self.add("Sub", [x, self.add("ReduceMean", [x], axes=[-1])])
        square = self.add("Pow", [centred, self.constant(2.0, np.float32)])
        variance = self.add("ReduceMean", [square], axes=[-1])
        root = self.add("Sqrt", [self.add("Add", [variance, self.constant(1e-5, np.float32)])])
        scaled = self.add("Mul", [self.add("Div", [centred, root]), self.weight(f"{name}.weight", size)])
        return self.add("Add", [scaled, self.weight(f"{name}.bias", size)])

    def rms_norm(self, x: str, name: str, size: int) -> str:
        square = self.add("Pow", [x, self.constant(2.0, np.float32)])
        mean = self.add("ReduceMean", [square], axes=[-1])
        root = self.add("Sqrt", [self.add("Add", [mean, self.constant(1e-6, np.float32)])])
        return self.add("Mul", [self.weight(f"{name}.weight", size), self.add("Div", [x, root])])

    def size(self, x: str, axis: int) -> str:
        """One size of a tensor, as a tensor of one element."""
        chosen = self.add("Gather", [self.add("Shape", [x]), self.constant(axis)], axis=0)
        return self.add("Unsqueeze", [chosen, self.constant([0])])

    def split_heads(self, x: str, heads: int, inner: int) -> str:
        """(B, T, D) -> (B, H, T, K)."""
        sizes = [self.size(x, 0), self.size(x, 1), self.constant([heads]), self.constant([inner])]
        parted = self.add("Reshape", [x, self.add("Concat", sizes, axis=0)])
        return self.add("Transpose", [parted], perm=[0, 2, 1, 3])

    def join_heads(self, x: str, width: int) -> str:
        """(B, H, T, K) -> (B, T, D)."""
        turned = self.add("Transpose", [x], perm=[0, 2, 1, 3])
        sizes = [self.size(turned, 0), self.size(turned, 1), self.constant([width])]
        return self.add("Reshape", [turned, self.add("Concat", sizes, axis=0)])

    def attend(self, query: str, key: str, value: str, mask: str, inner: int) -> str:
        """(B, H, T, K) three times, and a mask that is added to the scores -> (B, H, T, K)."""
        product = self.add("MatMul", [query, self.add("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = self.add("Div", [product, self.constant(math.sqrt(inner), np.float32)])
        return self.add("MatMul", [self.add("Softmax", [self.add("Add", [scores, mask])], axis=-1), value])

    def gelu(self, x: str) -> str:
        erf = self.add("Erf", [self.add("Div", [x, self.constant(math.sqrt(2), np.float32)])])
        half = self.add("Mul", [x, self.add("Add", [erf, self.constant(1.0, np.float32)])])
        return self.add("Mul", [half, self.constant(0.5, np.float32)])

    def positions(self, ids: str) -> str:
        """0, 1, ... T - 1."""
        length = self.add("Squeeze", [self.size(ids, 1), self.constant([0])])
        return self.add("Range", [self.constant(0), length, self.constant(1)])

    def causal_mask(self, ids: str) -> str:
        """(T, T): 0 where a token may look, a large negative number where it may not."""
        at = self.positions(ids)
        later = self.add(
            "Less", [self.add("Unsqueeze", [at, self.constant([1])]), self.add("Unsqueeze", [at, self.constant([0])])]
        )
        return self.add("Where", [later, self.constant(MASKED, np.float32), self.constant(0.0, np.float32)])

    def model(self, inputs: Iterable[str], output: str, shape: tuple[int | str, ...]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "transformer",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self.small,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def bert(config: Config, path: Path, *, random: bool = False) -> None:
    """The encoder without a pooler: ids, types and mask (B, T) -> (B, T, D)."""
    graph = Graph()
    words = graph.add("Gather", [graph.weight("word", config.vocabulary, config.hidden), "input_ids"])
    types = graph.add("Gather", [graph.weight("type", 2, config.hidden), "token_type_ids"])
    places = graph.add(
        "Gather", [graph.weight("position", config.positions, config.hidden), graph.positions("input_ids")]
    )
    x = graph.layer_norm(graph.add("Add", [graph.add("Add", [words, types]), places]), "norm", config.hidden)
    kept = graph.add("Cast", [graph.add("Unsqueeze", ["attention_mask", graph.constant([1, 2])])], to=TensorProto.FLOAT)
    hidden = graph.add("Sub", [graph.constant(1.0, np.float32), kept])
    mask = graph.add("Mul", [hidden, graph.constant(MASKED, np.float32)])
    inner = config.hidden // config.heads
    for layer in range(config.layers):
        name = f"layer.{layer}"
        query, key, value = (
            graph.split_heads(graph.linear(x, f"{name}.{part}", config.hidden, config.hidden), config.heads, inner)
            for part in ("query", "key", "value")
        )
        joined = graph.join_heads(graph.attend(query, key, value, mask, inner), config.hidden)
        attended = graph.linear(joined, f"{name}.out", config.hidden, config.hidden)
        x = graph.layer_norm(graph.add("Add", [attended, x]), f"{name}.norm1", config.hidden)
        wide = graph.gelu(graph.linear(x, f"{name}.up", config.hidden, config.inner))
        narrow = graph.linear(wide, f"{name}.down", config.inner, config.hidden)
        x = graph.layer_norm(graph.add("Add", [narrow, x]), f"{name}.norm2", config.hidden)
    inputs = ("input_ids", "token_type_ids", "attention_mask")
    _write(graph.model(inputs, x, ("batch", "length", config.hidden)), graph, path, random)


def gpt2(config: Config, path: Path, *, random: bool = False) -> None:
    """The decoder with its head, which shares the word embeddings: ids (B, T) -> (B, T, vocabulary)."""
    graph = Graph()
    table = graph.weight("wte", config.vocabulary, config.hidden)
    places = graph.add("Gather", [graph.weight("wpe", config.positions, config.hidden), graph.positions("input_ids")])
    x = graph.add("Add", [graph.add("Gather", [table, "input_ids"]), places])
    mask = graph.causal_mask("input_ids")
    inner = config.hidden // config.heads
    for layer in range(config.layers):
        name = f"h.{layer}"
        joined = graph.linear(
            graph.layer_norm(x, f"{name}.ln_1", config.hidden), f"{name}.attn", config.hidden, 3 * config.hidden
        )
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        sizes = graph.constant([config.hidden] * 3)
        graph.nodes.append(helper.make_node("Split", [joined, sizes], parts, name=f"/{name}.split", axis=2))
        query, key, value = (graph.split_heads(part, config.heads, inner) for part in parts)
        seen = graph.join_heads(graph.attend(query, key, value, mask, inner), config.hidden)
        x = graph.add("Add", [graph.linear(seen, f"{name}.proj", config.hidden, config.hidden), x])
        normed = graph.layer_norm(x, f"{name}.ln_2", config.hidden)
        wide = graph.gelu(graph.linear(normed, f"{name}.fc", config.hidden, config.inner))
        x = graph.add("Add", [graph.linear(wide, f"{name}.out", config.inner, config.hidden), x])
    x = graph.layer_norm(x, "ln_f", config.hidden)
    logits = graph.add("MatMul", [x, graph.add("Transpose", [table], perm=[1, 0])])
    _write(graph.model(("input_ids",), logits, ("batch", "length", config.vocabulary)), graph, path, random)


def llama(config: Config, path: Path, *, random: bool = False) -> None:
    """The decoder with a head of its own and rotated positions: ids (B, T) -> (B, T, vocabulary)."""
    graph = Graph()
    x = graph.add("Gather", [graph.weight("embed", config.vocabulary, config.hidden), "input_ids"])
    mask = graph.causal_mask("input_ids")
    inner = config.hidden // config.heads
    cosine, sine = _rotation(graph, inner)
    for layer in range(config.layers):
        name = f"layers.{layer}"
        normed = graph.rms_norm(x, f"{name}.norm1", config.hidden)
        query, key, value = (
            graph.split_heads(
                graph.linear(normed, f"{name}.{part}", config.hidden, config.hidden, bias=False), config.heads, inner
            )
            for part in ("q", "k", "v")
        )
        query, key = (_rotated(graph, one, cosine, sine, inner) for one in (query, key))
        joined = graph.join_heads(graph.attend(query, key, value, mask, inner), config.hidden)
        x = graph.add("Add", [graph.linear(joined, f"{name}.o", config.hidden, config.hidden, bias=False), x])
        normed = graph.rms_norm(x, f"{name}.norm2", config.hidden)
        gate = graph.linear(normed, f"{name}.gate", config.hidden, config.inner, bias=False)
        up = graph.linear(normed, f"{name}.up", config.hidden, config.inner, bias=False)
        wide = graph.add("Mul", [graph.add("Mul", [gate, graph.add("Sigmoid", [gate])]), up])
        x = graph.add("Add", [graph.linear(wide, f"{name}.down", config.inner, config.hidden, bias=False), x])
    x = graph.rms_norm(x, "norm", config.hidden)
    logits = graph.linear(x, "head", config.hidden, config.vocabulary, bias=False)
    _write(graph.model(("input_ids",), logits, ("batch", "length", config.vocabulary)), graph, path, random)


def _rotation(graph: Graph, inner: int) -> tuple[str, str]:
    """Cosines and sines of the angles that each position is rotated by, (T, K)."""
    at = graph.add("Cast", [graph.positions("input_ids")], to=TensorProto.FLOAT)
    steps = graph.constant(10000.0 ** -(np.arange(0, inner, 2) / inner), np.float32)
    angles = graph.add("Mul", [graph.add("Unsqueeze", [at, graph.constant([1])]), steps])
    both = graph.add("Concat", [angles, angles], axis=-1)
    return graph.add("Cos", [both]), graph.add("Sin", [both])


def _rotated(graph: Graph, x: str, cosine: str, sine: str, inner: int) -> str:
    half, end, last = graph.constant([inner // 2]), graph.constant([2**63 - 1]), graph.constant([-1])
    first = graph.add("Slice", [x, graph.constant([0]), half, last])
    second = graph.add("Neg", [graph.add("Slice", [x, half, end, last])])
    turned = graph.add("Mul", [graph.add("Concat", [second, first], axis=-1), sine])
    return graph.add("Add", [graph.add("Mul", [x, cosine]), turned])


def _write(model: onnx.ModelProto, graph: Graph, path: Path, random: bool) -> None:
    """The model, and its weights in one file beside it."""
    data = path.with_suffix(".data")
    generator = np.random.default_rng(0)
    with data.open("wb") as file:
        for name, shape in graph.weights.items():
            start = file.tell()
            length = 4 * math.prod(shape)
            if random:
                file.write((generator.standard_normal(shape, np.float32) * np.float32(0.02)).tobytes())
            else:
                file.seek(start + length)
                file.truncate()
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", data.name), ("offset", start), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
    onnx.save(model, path)
