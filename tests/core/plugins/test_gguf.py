"""GGUF files as llama.cpp reads them: their weights, their blocks of 4 bits, and what is generated with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api.errors import GenerationError, RefusedError
from bench.measure import tokens
from bench.pipeline import generation_quality
from bench.plugins import catalog, steps
from bench.plugins.engines import llama_cpp, q4_k

pytest.importorskip("xllamacpp")
gguf = pytest.importorskip("gguf")
REQUEST = "codegen_lm~generate@new=8,prompt=64"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    steps.export(catalog.exporter("gguf"), catalog.task("codegen_lm~step"), "torch", path)
    return path


def test_blocks_of_4_bits_are_read_as_they_are_written() -> None:
    weights = np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32)
    weights[0, :256] = 0
    weights[1, :256] = np.abs(weights[1, :256]) + 3  # its least weight is above zero
    packed = q4_k.packed(weights)
    assert (packed.shape, packed.dtype) == ((6, 2 * 144), np.uint8)
    read = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q4_K)
    assert (read[0, :256] == 0).all()
    parts = weights.reshape(-1, 32)
    spans = parts.max(axis=1) - np.minimum(parts.min(axis=1), 0)
    error = np.abs(read - weights).reshape(-1, 32).max(axis=1)
    assert (error <= 0.1 * np.maximum(spans, 0.2 * spans.max())).all()  # half a step of 15, and scales of 6 bits
    plain = gguf.quants.dequantize(
        gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q4_0), gguf.GGMLQuantizationType.Q4_0
    )
    assert np.mean((read - weights) ** 2) < np.mean((plain - weights) ** 2)


@pytest.mark.framework("torch")
@pytest.mark.slow(seconds=8)
def test_the_file_holds_the_decoder(file: Path) -> None:
    reader = gguf.GGUFReader(file)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    assert facts["general.architecture"] == "llama"
    assert [facts[f"llama.{key}"] for key in ("block_count", "embedding_length", "context_length")] == [6, 256, 1024]
    assert [facts[f"llama.attention.{key}"] for key in ("head_count", "head_count_kv", "key_length")] == [4, 2, 64]
    assert sum(int(np.prod(tensor.shape)) for tensor in reader.tensors) == 5_770_496
    assert "output.weight" not in {tensor.name for tensor in reader.tensors}  # it is tied
    assert len(facts["tokenizer.ggml.tokens"]) == 4096


@pytest.mark.framework("torch")
@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize(("option", "precision", "error"), [("", "float32", 0.05), ("q8_0", "int8", 1.0)])
def test_it_generates_what_the_reference_does(file: Path, option: str, precision: str, error: float) -> None:
    path = file
    if option:
        path = file.with_name(f"{option}.gguf")
        steps.transform(catalog.variant(f"gguf-{option}"), catalog.task("codegen_lm~step"), file, path)
    task = catalog.task(REQUEST)
    assert task.request is not None
    feeds = {name: array[0] for name, array in task.samples("test").inputs.items()}
    session = llama_cpp.LlamaGenerator(path, task.request, 1)
    right = catalog.runtime("pytorch").open(task.weights_path, task=task, source="torch", provider="cpu", threads=1)
    assert session.precision == precision
    assert session.num_params == 5_770_496
    prompt, forced = session.prompt_of(feeds), feeds["input_ids"][0, 64:72]
    found = tokens.timed(session, prompt, 8)
    tokens.check(found, task.request.decoder, 64, 8)
    assert found.report.num_prompt == 64
    assert list(found.ids) == right.run(feeds)[0].tolist()
    own, expected = (generation_quality.log_softmax(one.logits_after(prompt, forced)) for one in (session, right))  # type: ignore[attr-defined]
    assert np.abs(own - expected).max() < error
    session.close()


@pytest.mark.framework("torch")
def test_text_that_is_no_token_is_a_failure(file: Path) -> None:
    """Of characters that several tokens make, llama.cpp streams one text."""
    task = catalog.task(REQUEST)
    assert task.request is not None
    session = llama_cpp.LlamaGenerator(file, task.request, 1)
    session._ids = {}
    with pytest.raises(GenerationError, match=r"streams text, and .+ is no single token"):
        session.generate(np.arange(100, 164), 8, print)
    session.close()


def test_ids_by_the_text_that_is_streamed() -> None:
    found = llama_cpp._ids_by_text(["<s>", "a", "\u0120b", "\u010a", "\u00c3"])
    assert found == {"<s>": 0, "a": 1, " b": 2, "\n": 3}  # the last is half a character


@pytest.mark.framework("torch")
def test_rows_that_blocks_do_not_divide_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(0)
    writer.add_tensor("odd.weight", np.ones((4, 96), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    named = catalog.variant("gguf-q4_k")
    with pytest.raises(RefusedError, match=r"q4_k packs 256 weights of a row; those of odd\.weight have 96"):
        named.variant.apply(path, tmp_path / "out.gguf", option=named.option, task=catalog.task("codegen_lm~step"))


@pytest.mark.parametrize("name", ["crnn", "codegen_lm"])
def test_what_does_not_generate_is_refused(name: str) -> None:
    assert catalog.exporter("gguf").refusal(catalog.task(name)) == "it writes decoders that generate text"
