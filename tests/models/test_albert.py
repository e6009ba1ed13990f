"""The albert task: its inputs, its figures, and how the tokenizer and the training texts are made."""

import collections
import hashlib
import json
import math
import random

import numpy as np
import pytest

from bench.api import loading
from bench.api.errors import InputError
from bench.plugins import catalog

sentencepiece = pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def task():
    return catalog.task("albert")


@pytest.fixture(scope="module")
def data(task):
    return task.strings()


@pytest.fixture(scope="module")
def samples(task):
    return task.samples("test")


@pytest.fixture(scope="module")
def augment(task):
    return task.module("augment")


@pytest.fixture(scope="module")
def tokenizer(task):
    return task.tokenizer()


@pytest.mark.parametrize(
    ("split", "count", "digest"),
    [
        ("test", 720, "d98d6e940c0a8616009f2fabd9bfb49a7767fe59edc8d02323083d7f7807e2fd"),
        ("train", 128, "eb5d7eb347910dc06fbdd8d6bb7d1fdc84b659fee9e965c76116049c71eba030"),
    ],
)
def test_samples_are_always_the_same(task, split, count, digest):
    samples = task.samples(split)
    input_ids_NT, attention_mask_NT = (samples.inputs[spec.name] for spec in task.inputs)

    assert samples.num_samples == len(samples.targets) == len(samples.names) == count
    assert input_ids_NT.shape == attention_mask_NT.shape == (count, 64)
    assert input_ids_NT.dtype == attention_mask_NT.dtype == np.int64
    content = input_ids_NT.tobytes() + attention_mask_NT.tobytes() + bytes(samples.targets)
    assert hashlib.sha256(content).hexdigest() == digest


def test_test_split_has_twenty_strings_of_every_language(samples):
    assert collections.Counter(samples.targets) == dict.fromkeys(range(36), 20)


def test_samples_come_from_their_own_side_with_their_own_label(task, data):
    languages = list(data.LANGUAGES)
    for split in ("train", "test"):
        there = {(string.text, string.language) for string in data.load(split)}
        samples = task.samples(split)
        assert {(text, languages[target]) for text, target in zip(samples.names, samples.targets, strict=True)} <= there


def test_tokens_are_the_text_between_special_ones_and_the_mask_covers_them(task, samples, tokenizer):
    module = loading.load_module(task.path)
    for text, input_ids_T, mask_T in zip(samples.names, *samples.inputs.values(), strict=True):
        tokens = input_ids_T[: mask_T.sum()].tolist()
        assert tokens == [module.CLS, *tokenizer.encode(text)[:62], module.SEP]
        assert not input_ids_T[len(tokens) :].any()
        assert not mask_T[len(tokens) :].any()


def test_special_tokens_are_those_of_the_tokenizer_and_the_configuration(task, tokenizer):
    module = loading.load_module(task.path)
    config = json.loads((task.folder / "config.json").read_text())

    special = [tokenizer.id_to_piece(number) for number in (module.PAD, module.CLS, module.SEP)]
    assert special == ["<pad>", "[CLS]", "[SEP]"]
    assert [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == [module.PAD, module.CLS, module.SEP]
    assert config["vocab_size"] == tokenizer.get_piece_size()
    assert config["max_position_embeddings"] == module.NUM_TOKENS


def test_labels_are_the_languages_in_their_order(task, data):
    config = json.loads((task.folder / "config.json").read_text())

    assert config["id2label"] == {str(number): language for number, language in enumerate(data.LANGUAGES)}
    assert task.outputs[0].shape == ("batch", len(data.LANGUAGES))


@pytest.mark.parametrize("ask", ["samples", "build"])
def test_unknown_names_list_the_known_ones(task, ask):
    with pytest.raises(InputError, match="test" if ask == "samples" else "torch, tf"):
        task.samples("validation") if ask == "samples" else task.build("jax", task.weights_path)


def logits(*rows):
    """Logits of 36 labels from dicts of those that are not 0."""
    array_NL = np.zeros((len(rows), 36), np.float32)
    for row_L, given in zip(array_NL, rows, strict=True):
        for label, value in given.items():
            row_L[label] = value
    return {"logits": array_NL}


def test_loss_is_the_cross_entropy_in_nats(task):
    assert task.loss(logits({}), [7]) == pytest.approx(math.log(36), rel=1e-12)
    # e / (e + 35) for the first, 1 / (e + 35) for the second
    expected = (2 * math.log(math.e + 35) - 1) / 2
    assert task.loss(logits({3: 1.0}, {3: 1.0}), [3, 4]) == pytest.approx(expected, rel=1e-12)


def test_loss_of_huge_logits_is_a_number(task):
    assert task.loss(logits({0: 1e30}, {0: 1e30}), [0, 0]) == 0
    assert task.loss(logits({0: 1000.0}), [1]) == 1000


def test_metrics_are_those_counted_by_hand(task):
    # Label 0 is twice there and once answered, 1 once there and twice answered, 2 there and answered.
    outputs = logits({0: 1.0}, {1: 1.0}, {1: 1.0}, {2: 1.0})

    metrics = task.metrics(outputs, [0, 0, 1, 2])

    assert metrics["accuracy"] == 3 / 4
    assert metrics["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3, rel=1e-12)
    assert task.metric_name in metrics


def test_points_are_the_strings_whose_language_is_told(task):
    points = task.points(logits({0: 1.0}, {1: 1.0}, {1: 1.0}, {2: 1.0}), [0, 0, 1, 2])

    assert points.values.tolist() == [1, 0, 1, 1]
    assert (points.score, points.most) == (3 / 4, 1)


def test_macro_f1_is_that_of_scikit_learn(task):
    f1_score = pytest.importorskip("sklearn.metrics").f1_score
    generator = np.random.default_rng(0)
    logits_NL, targets = generator.normal(size=(300, 36)).astype(np.float32), generator.integers(30, size=300)
    logits_NL[np.arange(200), targets[:200]] += 3

    actual = task.metrics({"logits": logits_NL}, targets.tolist())["macro_f1"]

    assert actual == pytest.approx(f1_score(targets, logits_NL.argmax(axis=1), average="macro"), rel=1e-12)


def test_segmentations_are_drawn_with_the_odds_of_their_pieces(augment):
    class Tokenizer:
        """Normalizes nothing; the pieces `a`, `b` and `ab` have probabilities of 0.5, 0.25 and 0.25."""

        pieces = ("<pad>", "<unk>", "[CLS]", "[SEP]", "a", "b", "ab")

        def get_piece_size(self):
            return len(self.pieces)

        def id_to_piece(self, number):
            return self.pieces[number]

        def get_score(self, number):
            return math.log((0.5, 0.25, 0.25)[number - 4])

        def encode(self, text, out_type):
            return list(text)

    segmenter, generator = augment.Segmenter(Tokenizer(), alpha=1.0), random.Random(0)
    drawn = collections.Counter(tuple(segmenter.draw("ab", generator)) for _ in range(6000))

    assert set(drawn) == {(4, 5), (6,)}
    assert drawn[4, 5] / 6000 == pytest.approx(0.125 / (0.125 + 0.25), abs=0.02)
    assert segmenter.draw("a?b", generator) == [4, 1, 5]


def test_drawn_segmentations_spell_the_text_and_are_reproducible(augment, tokenizer, data):
    segmenter = augment.Segmenter(tokenizer, alpha=0.2)
    texts = [string.text for string in data.load("train")[::100]]

    drawn = [segmenter.draw(text, random.Random(7)) for text in texts]

    assert drawn == [segmenter.draw(text, random.Random(7)) for text in texts]
    assert drawn != [segmenter.draw(text, random.Random(8)) for text in texts]
    for text, tokens in zip(texts, drawn, strict=True):
        spelt = "".join(map(tokenizer.id_to_piece, tokens))
        assert spelt == "".join(tokenizer.encode(text, out_type=str))[: augment.MAX_LENGTH]


def test_mixed_texts_have_words_of_their_language_only(augment):
    mixer, generator = augment.TextMixer([["eins zwei drei vier"], ["un deux trois", "quatre cinq"]]), random.Random(0)
    drawn = {mixer.draw("un deux trois", 1, generator) for _ in range(300)}

    assert {word.lower() for text in drawn for word in text.split()} == {"un", "deux", "trois", "quatre", "cinq"}
    assert {"un deux", "deux trois", "UN DEUX TROIS", "un deux cinq"} <= drawn
    assert all(len(text.split()) >= 1 for text in drawn)


@pytest.mark.framework("torch")
def test_tokenizer_is_the_one_that_training_makes(task, data):
    pytest.importorskip("torch")
    texts = [string.text for string in data.load("train")]

    made = task.module("train").train_tokenizer(texts, 8000)

    assert made == (task.folder / "tokenizer.model").read_bytes()


@pytest.mark.thorough
@pytest.mark.framework("torch")
def test_network_reaches_the_figures_of_the_readme(task, samples):
    torch = pytest.importorskip("torch")
    model = task.build("torch", task.weights_path)
    inputs = [torch.from_numpy(samples.inputs[spec.name]) for spec in task.inputs]

    with torch.no_grad():
        logits_NL = torch.cat([model(*batch) for batch in zip(*(array.split(90) for array in inputs), strict=True)])
    outputs = {"logits": logits_NL.numpy()}

    assert task.metrics(outputs, samples.targets)["accuracy"] >= 0.92


def test_logits_that_are_nan_have_no_accuracy(task):
    logits_NL = np.zeros((4, 36), np.float32)
    logits_NL[3, 5] = np.nan
    assert all(np.isnan(value) for value in task.metrics({"logits": logits_NL}, [0, 0, 0, 0]).values())
