"""The codegen_lm task: its inputs, its figures, its tokenizer, its baseline, and training that goes on."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special

from bench.api.errors import InputError
from bench.plugins import catalog

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def task() -> Iterator[Any]:
    """The task, which encodes the texts of a split once."""
    found: Any = catalog.task("codegen_lm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(found, "_windows", functools.cache(found._windows), raising=False)
        yield found


@pytest.fixture(scope="module")
def tokens(task: Any) -> Any:
    return task.module("tokens")


@pytest.fixture(scope="module")
def baselines(task: Any) -> Any:
    return task.module("baselines")


@pytest.mark.parametrize(
    ("split", "count", "digest"),
    [
        ("test", 48, "b2f35bb3bf5d84d4c0013c2c892bdfc0b0e374ead608e0e8241da21eee243502"),
        pytest.param(
            *("train", 16, "a21643352677eec3866a269117623a688ba057797d297fd065fb8f827d91232d"),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_samples_are_always_the_same(task: Any, split: str, count: int, digest: str) -> None:
    samples = task.samples(split)
    ids_NT = samples.inputs["input_ids"]

    assert ids_NT.shape == (count, 256)
    assert ids_NT.dtype == np.int64
    content = ids_NT.tobytes() + np.stack(samples.targets).tobytes()
    assert hashlib.sha256(content).hexdigest() == digest


def test_a_sample_is_a_window_of_its_module(task: Any, tokens: Any) -> None:
    texts = {module.path: module.text for module in task.sources_of_python().load("test")}
    tokenizer, samples = tokens.load(), task.samples("test")
    encoded = functools.cache(lambda path: tokenizer.encode(texts[path], add_special_tokens=False).ids)
    for name, ids_T, (following_T, num_bytes_T) in zip(
        samples.names, samples.inputs["input_ids"], samples.targets, strict=True
    ):
        assert ids_T[0] == 0
        assert ids_T[1:].tolist() == following_T[:-1].tolist()
        path, _, start = name.partition(":")
        whole = encoded(path)
        assert following_T.tolist() == whole[int(start) : int(start) + 256]
        # A token may be a part of a character, so the bytes are compared with those between two places of the text.
        offset = tokens.num_bytes(tokenizer)[whole[: int(start)]].sum()
        part = texts[path].encode()[offset : offset + num_bytes_T.sum()]
        assert tokenizer.decode(following_T.tolist()) == part.decode(errors="replace")


def test_samples_that_confirm_are_others(task: Any) -> None:
    drawn, further = task.samples("test"), task.confirmation()
    assert further.num_samples == 96
    assert not {*drawn.names} & {*further.names}
    modules = {module.path for module in task.sources_of_python().load("test")}
    assert {name.partition(":")[0] for name in further.names} <= modules


@pytest.mark.parametrize("ask", ["samples", "build"])
def test_unknown_names_list_the_known_ones(task: Any, ask: str) -> None:
    with pytest.raises(InputError, match="test" if ask == "samples" else "torch, tf"):
        task.samples("validation") if ask == "samples" else task.build("jax", task.weights_path)


def test_the_tokenizer_loses_nothing_and_counts_bytes(task: Any, tokens: Any) -> None:
    tokenizer = tokens.load()
    num_bytes_V = tokens.num_bytes(tokenizer)
    texts = ["", "def f(x):\n    return x\n", "é 漢 \U0001f600\t\x00", task.sources_of_python().load("test")[0].text]
    for text, ids in zip(texts, tokens.encode(tokenizer, texts), strict=True):
        assert ids[0] == 0
        assert tokenizer.decode(ids[1:]) == text
        assert num_bytes_V[ids].sum() == len(text.encode())


def test_the_tokenizer_fits_the_configuration(task: Any, tokens: Any) -> None:
    config, tokenizer = json.loads((task.folder / "config.json").read_text()), tokens.load()
    assert tokenizer.get_vocab_size() == config["vocab_size"] == task.outputs[0].shape[-1]
    assert tokenizer.id_to_token(0) == tokens.END
    assert config["bos_token_id"] == config["eos_token_id"] == 0


def test_a_trained_tokenizer_has_the_bytes_and_merges(tokens: Any) -> None:
    tokenizer = tokens.train(["return value\n" * 50], 262)
    assert tokenizer.get_vocab_size() == 262
    assert (tokens.num_bytes(tokenizer)[:257] == [0] + [1] * 256).all()
    assert (tokens.num_bytes(tokenizer)[257:] > 1).all()


def logits(*rows: list[dict[int, float]]) -> dict[str, np.ndarray]:
    """Logits of 4096 tokens from dicts of those that are not 0, for each position of each sample."""
    array_NTV = np.zeros((len(rows), len(rows[0]), 4096), np.float32)
    for row_TV, given in zip(array_NTV, rows, strict=True):
        for position_V, values in zip(row_TV, given, strict=True):
            for token, value in values.items():
                position_V[token] = value
    return {"logits": array_NTV}


TARGETS = [np.array([[7, 8], [3, 1]]), np.array([[7, 8], [2, 2]])]


def test_figures_are_those_counted_by_hand(task: Any) -> None:
    # e / (e + 4095) for the first token, 1 / 4096 for the others
    outputs = logits([{7: 1.0}, {}], [{}, {}])
    nats = [math.log(math.e + 4095) - 1 + math.log(4096), 2 * math.log(4096)]

    assert task.loss(outputs, TARGETS) == pytest.approx(sum(nats) / 4, rel=1e-6)
    metrics = task.metrics(outputs, TARGETS)
    assert metrics == {"bits_per_byte": pytest.approx(sum(nats) / math.log(2) / 8, rel=1e-6), "accuracy": 1 / 4}
    assert task.metric_name in metrics
    points = task.points(outputs, TARGETS)
    assert points.values == pytest.approx([-value / math.log(2) / 4 for value in nats], rel=1e-6)
    assert points.score == pytest.approx(metrics["bits_per_byte"], rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_loss_is_the_mean_over_the_tokens_of_all_samples(task: Any, dtype: type) -> None:
    """Of more tokens than are taken at a time, the last of which fill no piece."""
    random = np.random.default_rng(0)
    logits_NTV = (5 * random.standard_normal((3, 15, 4096))).astype(dtype)
    ids_NT = random.integers(0, 4096, (3, 15))
    chances_NTV = special.log_softmax(logits_NTV.astype(np.float64), axis=2)
    right_NT = np.take_along_axis(chances_NTV, ids_NT[:, :, None], axis=2)[:, :, 0]
    targets = [np.stack([ids_T, np.ones_like(ids_T)]) for ids_T in ids_NT]
    outputs = {"logits": logits_NTV}
    assert task.loss(outputs, targets) == pytest.approx(-right_NT.mean(), rel=1e-12)
    assert task.points(outputs, targets).values == pytest.approx(right_NT.sum(axis=1) / math.log(2) / 15, rel=1e-12)


def test_huge_logits_and_those_that_are_no_numbers(task: Any) -> None:
    outputs = logits([{7: 1e30}, {8: 1e30}], [{7: 1000.0}, {3: 1000.0}])
    assert task.loss(outputs, TARGETS) == 1000 / 4
    outputs["logits"][0, 0, 0] = np.nan
    assert all(math.isnan(value) for value in task.metrics(outputs, TARGETS).values())


def texts_of(*texts: bytes) -> list[np.ndarray]:
    return [np.frombuffer(bytes(6) + text, np.uint8).astype(np.int64) for text in texts]


def test_chances_of_the_baseline_sum_to_one(baselines: Any) -> None:
    random = np.random.default_rng(0)
    model = baselines.levels(texts_of(bytes(random.integers(97, 103, 3000).tolist())), 5)
    for context in (b"abcd", b"aaaa", b"zzzz", b"abcz"):
        chances = np.full(256, 1 / 256)
        for order, level in enumerate(model, 1):
            before = int.from_bytes(context[len(context) - order + 1 :], "big") * 256 if order > 1 else 0
            chances = level.probability(before + np.arange(256), chances)
        assert chances.sum() == pytest.approx(1, rel=1e-12)
        assert chances.min() > 0


def test_counts_of_the_baseline_are_of_different_bytes_before(baselines: Any) -> None:
    """San Francisco: a byte that follows one other alone is rare after any third, however often it is there."""
    model = baselines.levels(texts_of(b"xyabxyacxyadxyaexyafxyagbacadaeafaga" * 3), 2)
    single = model[0]
    flat = np.full(1, 1 / 256)
    y, a = (float(single.probability(np.array([byte]), flat)[0]) for byte in b"ya")
    assert y < a / 3


def test_the_baseline_learns_what_repeats(baselines: Any) -> None:
    random = np.random.default_rng(0)
    noise = bytes(random.integers(0, 256, 4000, np.uint8).tolist())
    known, unknown = texts_of(b"for item in items:\n" * 200), texts_of(noise)
    model = baselines.levels([*known, *texts_of(noise[::-1])], 5)
    assert baselines.bits_per_byte(model, known) < 0.2
    assert 7.5 < baselines.bits_per_byte(model, unknown) < 9


@pytest.mark.thorough
def test_the_tokenizer_is_the_one_that_training_makes(task: Any, tokens: Any) -> None:
    texts = [module.text for module in task.sources_of_python().load("train")]
    made = tokens.train(texts, 4096).to_str(pretty=True)
    assert json.loads(made) == json.loads((task.folder / "tokenizer.json").read_text())


@pytest.mark.thorough
@pytest.mark.framework("torch")
def test_the_network_beats_the_baseline_by_far(task: Any) -> None:
    """Byte 5-grams take 1.8445 bits a byte of the whole test split; see the README for both on the same texts."""
    torch = pytest.importorskip("torch")
    model, samples = task.build("torch", task.weights_path), task.samples("test")
    with torch.no_grad():
        inputs = torch.from_numpy(samples.inputs["input_ids"]).split(8)
        logits_NTV = torch.cat([model(ids_NT) for ids_NT in inputs]).numpy()
    assert task.metrics({"logits": logits_NTV}, samples.targets)["bits_per_byte"] <= 1.06
    assert not task.loss({"logits": logits_NTV}, samples.targets) < 1  # it has not learnt the split by heart


@pytest.mark.framework("torch")
def test_no_token_sees_a_later_one(task: Any) -> None:
    torch = pytest.importorskip("torch")
    model = task.build("torch", task.weights_path)
    first = torch.arange(1, 65)[None]
    other = first.clone()
    other[0, 40:] = 7
    with torch.no_grad():
        assert torch.equal(model(first)[0, :40], model(other)[0, :40])


@pytest.mark.framework("torch")
def test_batches_are_a_pass_over_all_texts(task: Any) -> None:
    torch = pytest.importorskip("torch")
    train = task.module("train")
    texts = [list(range(at, at + 500)) for at in range(0, 30_000, 500)]
    batches = train.Batches(texts, seed=3)
    steps = (30_000 - 2048) // 4096
    windows = [batches.draw(step, length) for step, length in zip(range(steps), itertools.cycle((256, 512, 1024)))]
    for length, one in zip(itertools.cycle((256, 512, 1024)), windows):
        assert one.shape == (4096 // length, length + 1)
    seen = torch.cat([one[:, :-1].flatten() for one in windows])
    assert len(seen.unique()) == steps * 4096  # none twice
    # By the number of the step alone, from any of them on.
    assert torch.equal(train.Batches(texts, seed=3).draw(steps + 2, 512), batches.draw(steps + 2, 512))
    assert not torch.equal(train.Batches(texts, seed=4).draw(1, 256), batches.draw(1, 256))


@pytest.mark.thorough
@pytest.mark.framework("torch")
def test_training_goes_on_as_if_it_had_not_stopped(task: Any, tmp_path: Any, capsys: Any) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    train = task.module("train")
    random = np.random.default_rng(0)
    texts = [random.integers(0, 32, 600).tolist() for _ in range(30)]

    def made(kept: Any, *untils: int) -> dict[str, Any]:
        for until in untils:
            torch.manual_seed(0)
            config = transformers.LlamaConfig(
                hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=32
            )
            model = task.module("torch_model").Decoder(config)
            train.train(model, texts, steps=6, seed=0, kept=kept, until=until)
        return model.state_dict()  # type: ignore[no-any-return]

    whole, parted = made(tmp_path / "whole.pt", 6), made(tmp_path / "parted.pt", 2, 6)

    assert "goes on at step 2 of 6" in capsys.readouterr().out
    assert all(torch.equal(whole[name], parted[name]) for name in whole)
    with pytest.raises(AssertionError, match="is of another training"):
        train.train(task.module("torch_model").network(), texts, steps=7, seed=0, kept=tmp_path / "whole.pt", until=7)
