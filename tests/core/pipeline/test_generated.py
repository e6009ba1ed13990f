"""The judgement of generated text: logits along given texts, and the tokens that an engine chooses by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Arrays, Samples, Task
from bench.api.errors import GenerationError, InputError
from bench.api.generation import Emit, Told
from bench.api.loading import load_module
from bench.decisions.saved_deployment import Loaded
from bench.measure import generation
from bench.pipeline import generation_quality, judging, sweeps
from bench.plugins import generating
from bench.plugins.generating import LOGPROBS, MARGINS, TOKENS
from bench.records.lines import Quality
from bench.records.read_bounds import ReadBound

FAULTS = Path(__file__).parents[2] / "faults"
TOY = load_module(FAULTS / "models" / "toy_decoder" / "task.py")
ENGINES = load_module(FAULTS / "runtimes" / "toy_engine.py").ENGINES


def task(**sizes: int) -> Task:
    path = FAULTS / "models" / "toy_decoder" / "task.py"
    return generating.generating(TOY.ToyDecoder(name="toy_decoder", path=path), {"prompt": 70, "new": 4, **sizes})


def answers(engine: str = "cpu", *, margins: bool = True) -> tuple[Task, Samples, dict[str, np.ndarray]]:
    """The task, its samples, and what an engine answers to all of them."""
    made = task()
    samples = made.samples("test")
    assert made.request is not None
    call = generation_quality.Answering(ENGINES[engine](made.request), with_margins=margins)
    outputs = [call({name: array[row] for name, array in samples.inputs.items()}) for row in range(samples.num_samples)]
    names = [spec.name for spec in made.outputs]
    return made, samples, {name: np.stack(each) for name, each in zip(names, zip(*outputs, strict=True), strict=True)}


def judged(changed: Arrays, precision: str = "float32") -> Quality:
    made, samples, right = answers()
    return judging.judge(made, samples, {**right, **changed}, right, precision=precision)


def test_log_softmax_forgets_shifts() -> None:
    logits = np.array([[1.0, 2.0, 3.0], [1000.0, 1000.0, 1000.0]], np.float32)
    found = generation_quality.log_softmax(logits)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(found[1], -np.log(3), rtol=1e-6)
    np.testing.assert_allclose(generation_quality.log_softmax(logits[:1] + 7), found[:1], atol=1e-6)


def test_the_reference_is_exact_and_its_texts_are_the_likeliest() -> None:
    made, samples, outputs = answers()
    found = judging.judge(made, samples, outputs, None, precision="float32")
    assert (found.fidelity, found.reason) == ("exact", None)
    assert found.metrics is not None
    assert found.metrics["greedy_agreement"] == 1.0
    # 8 against cosines of 31 other ids, whose exponentials sum to 39.06.
    others = np.exp(np.cos(np.arange(32))).sum()
    assert found.metrics["nats"] == pytest.approx(np.log1p(others / np.exp(8.0)), abs=2e-3)
    assert (outputs[MARGINS] > 6.9).all()
    assert outputs[LOGPROBS].shape == (4, 32, 32)
    assert outputs[TOKENS].shape == (4, 256)


def test_targets_follow_the_prompt() -> None:
    made = task()
    samples = made.samples("test")
    assert samples.targets is not None
    ids = samples.inputs["input_ids"][1, 0]
    assert samples.targets[1][0].tolist() == ids[70:].tolist()
    assert len(samples.targets[1][0]) == 32


def test_without_margins_there_are_none() -> None:
    _, _, outputs = answers(margins=False)
    assert np.isnan(outputs[MARGINS]).all()


def test_small_errors_are_close_and_larger_ones_drift() -> None:
    _, _, right = answers()
    noise = np.random.default_rng(0).standard_normal(right[LOGPROBS].shape).astype(np.float32)
    assert judged({LOGPROBS: right[LOGPROBS] + 1e-6 * noise}).fidelity == "close"
    assert judged({LOGPROBS: right[LOGPROBS] + 1e-2 * noise}).fidelity == "drifted"


def test_a_lost_metric_is_broken() -> None:
    _, _, right = answers()
    found = judged({LOGPROBS: np.full_like(right[LOGPROBS], -np.log(32))})
    assert found.fidelity == "broken"
    assert found.reason is not None
    assert found.reason.startswith("nats is worse than the reference's by")


def test_right_logits_with_other_tokens_are_broken() -> None:
    made, samples, right = answers()
    other = right[TOKENS].copy()
    other[0, 20:] = (other[0, 20:] + 1) % 32
    found = judging.judge(made, samples, {**right, TOKENS: other}, right, precision="float32")
    assert found.fidelity == "broken"
    assert found.reason is not None
    assert found.reason.startswith("token 21 of 256 of answer 1 is")
    assert found.reason.endswith("nats, though its logits are right")


def test_a_loop_that_chooses_other_tokens_than_its_own_logits_is_refused() -> None:
    """Whatever its errors are: here they are none, and beside a quantized engine's nothing else would show it."""
    with pytest.raises(
        GenerationError, match=r"token 21 of 256 of its answer is \d+, where its own logits find \d+ li"
    ):
        answers("wrong_cache")


def test_a_difference_counts_where_margins_are_not_known() -> None:
    """As of two cells that are compared, of which the one that counts as right hides its logits."""
    _, _, right = answers()
    unknown = {**right, MARGINS: np.full_like(right[MARGINS], np.nan)}
    assert generation_quality.agreement(right, unknown, 1.0).difference is None
    found = generation_quality.agreement(hidden(right, 100), unknown, 1.0)
    assert found.share == 100 / 256
    assert found.difference is not None
    assert found.difference.startswith("token 101 of 256 of answer 1 is ")


def test_hidden_answers_of_which_nothing_can_be_compared_are_broken() -> None:
    made, samples, right = answers()
    unsure = {**right, MARGINS: np.full_like(right[MARGINS], 1e-4)}
    found = judging.judge(made, samples, hidden(right, 0) | {MARGINS: right[MARGINS]}, unsure, precision="float32")
    assert found.fidelity == "broken"
    assert found.reason is not None
    assert found.reason.startswith("it hides its logits, and the first token of every answer differs")
    assert found.metrics == {}


def test_a_difference_where_the_reference_is_unsure_does_not_count() -> None:
    made, samples, right = answers()
    other = right[TOKENS].copy()
    other[0, 100] += 1
    margins = right[MARGINS].copy()
    margins[0, 100] = 5e-4
    found = judging.judge(made, samples, {**right, TOKENS: other}, {**right, MARGINS: margins}, precision="float32")
    assert (found.fidelity, found.reason) == ("exact", None)
    assert found.metrics is not None
    assert found.metrics["greedy_agreement"] == 1.0


def test_agreement_counts_tokens_up_to_the_first_difference() -> None:
    right = {TOKENS: np.zeros((2, 10), np.int64), MARGINS: np.full((2, 10), 3.0)}
    own = {TOKENS: np.zeros((2, 10), np.int64)}
    own[TOKENS][0, 4] = 1
    found = generation_quality.agreement(own, right, 1.0)
    assert found.share == 14 / 20
    assert found.difference == "token 5 of 10 of answer 1 is 1, where the reference's is 0 by 3 nats"
    ended = generation_quality.agreement(own, right, 1.0, end_id=0)
    assert (ended.share, ended.difference) == (None, None)  # the reference ends its texts at once
    tied = generation_quality.agreement(own, right, 3.0)
    assert (tied.share, tied.difference) == (1.0, None)  # 14 of the 14 tokens that can be compared


@pytest.mark.parametrize(
    ("precision", "error", "tolerance"),
    [
        ("float32", 0.01, 0.04),
        ("float32", 1e-6, 1e-3),
        ("float32", None, 1e-3),
        ("float16", None, 4 * 20 / 2048),
        ("int8", None, 4 * 20 / 256),
        (None, None, 4 * 20 / 16),
    ],
)
def test_tolerance(precision: str | None, error: float | None, tolerance: float) -> None:
    assert generation_quality.tolerance_of(precision, error, 20.0) == pytest.approx(tolerance)


def test_errors_of_ids_that_nobody_chooses_do_not_count() -> None:
    right = np.log(np.array([[[0.5, 0.4, 0.06, 0.04]]], np.float32))
    own = right + np.array([[[0.01, -0.02, 3.0, -5.0]]], np.float32)
    assert generation_quality._error_of_likeliest(own, right) == pytest.approx(0.02, rel=1e-4)


def hidden(right: Arrays, num_right: int) -> dict[str, np.ndarray]:
    """Answers of an engine that hides its logits, right up to a token."""
    ids = right[TOKENS].copy()
    ids[:, num_right:] = (ids[:, num_right:] + 1) % 32
    return {LOGPROBS: np.full_like(right[LOGPROBS], np.nan), TOKENS: ids}


@pytest.mark.parametrize(("num_right", "fidelity"), [(256, "close"), (200, "drifted"), (100, "broken")])
def test_hidden_logits_are_judged_by_tokens(num_right: int, fidelity: str) -> None:
    _, _, right = answers()
    found = judged(hidden(right, num_right))
    assert found.fidelity == fidelity
    assert found.metric_loss is None
    assert found.lost == "its engine tells no logits" or fidelity == "broken"
    assert found.metrics == {"greedy_agreement": num_right / 256}


def test_texts_beyond_the_first_are_scored_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation_quality, "NUM_ANSWERED", 3)
    made, samples, few = answers()
    assert (few[TOKENS][:3] >= 0).all()
    assert (few[TOKENS][3] == generation_quality.NOT_ASKED).all()
    monkeypatch.undo()
    _, _, right = answers()
    found = judging.judge(made, samples, few, right, precision="float32")
    assert (found.fidelity, found.reason) == ("exact", None)
    assert judging.compare(made, few, right).fidelity == "exact"
    assert judging.compare(made, right, few).fidelity == "exact"


def test_a_few_hidden_logits_are_wrong() -> None:
    _, _, right = answers()
    some = right[LOGPROBS].copy()
    some[0, 0, 0] = np.nan
    found = judged({LOGPROBS: some})
    assert (found.fidelity, found.reason) == ("broken", "some of its logits are not numbers")


def test_samples_are_compared_by_what_is_told() -> None:
    made, _, right = answers()
    assert judging.compare(made, right, right).fidelity == "exact"
    assert judging.compare(made, {**right, **hidden(right, 256)}, right).fidelity == "exact"
    assert judging.compare(made, {**right, **hidden(right, 255)}, right).fidelity == "drifted"


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("keeps_prompts", "69 of 70 tokens of the prompt came from a cache of earlier"),
        ("keeps_secretly", "prompts that were asked before took"),
    ],
)
def test_an_engine_that_keeps_prompts_is_refused(engine: str, message: str) -> None:
    with pytest.raises(GenerationError, match=message):
        answers(engine)


def test_an_engine_that_is_told_to_stop_early_is_refused() -> None:
    with pytest.raises(GenerationError, match="it gave 12 of 256 tokens"):
        answers("early_end")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"prompt": 510}, "takes texts of 512 tokens, fewer than 510 and 4 new"),
        ({"height": 3}, "has the sizes prompt and new, not 'height'"),
    ],
)
def test_requests_that_cannot_be(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task(**sizes)


@pytest.mark.parametrize(
    ("positions", "asked", "fitted"),
    [
        (400, {}, {}),
        (100, {}, {"prompt": 50, "new": 50}),
        (100, {"new": 90}, {"prompt": 10, "new": 90}),
        (100, {"prompt": 90}, {"prompt": 90, "new": 10}),
        (100, {"prompt": 100}, {"prompt": 100}),  # is refused
        (100, {"prompt": 60, "new": 60}, {"prompt": 60, "new": 60}),
    ],
)
def test_usual_sizes_fit_the_decoder(positions: int, asked: dict[str, int], fitted: dict[str, int]) -> None:
    assert generating.fitted(asked, positions) == fitted


def test_a_request_tells_the_pass_that_is_timed() -> None:
    decode, prefill = task().request, task(new=1).request
    assert decode is not None
    assert prefill is not None
    assert (decode.depth, prefill.depth) == (70, 0)
    assert decode.pass_shapes()["input_ids"] == (1, 1)
    assert decode.pass_shapes()["past_key_values.0.key"] == (1, 1, 70, 4)
    assert prefill.pass_shapes()["input_ids"] == (1, 70)
    assert prefill.pass_shapes()["past_key_values.0.value"] == (1, 1, 0, 4)
    assert decode.decoder.cache_per_token == 8
    assert decode.longest == 70 + 256


def test_a_loaded_decoder_answers_every_request_alike() -> None:
    made = task()
    loaded = Loaded(ENGINES["cpu"](made.request), made)
    feeds = {"input_ids": made.samples("test").inputs["input_ids"][0]}
    prompt = {"input_ids": feeds["input_ids"][:, :70]}
    found = [loaded(prompt) for _ in range(generation_quality.NUM_ANSWERED + 2)]
    assert {name: array.shape for name, array in found[0].items()} == {"tokens": (4,)}
    assert all((each["tokens"] == found[0]["tokens"]).all() for each in found)
    assert (found[0]["tokens"] >= 0).all()
    assert list(loaded.judged()(feeds)) == [LOGPROBS, TOKENS, MARGINS]
    with pytest.raises(InputError, match="prompts of 70 tokens, fewer than 102"):
        loaded(feeds)
    with pytest.raises(InputError, match="one prompt at a time"):
        loaded({"input_ids": np.ones((2, 8), np.int64)})


@pytest.mark.parametrize(
    ("positions", "stages"),
    [
        (1024, [(256, 1), (256, 64), (768, 1), (768, 64)]),
        (512, [(256, 1), (256, 64)]),
        (100, [(50, 1), (50, 50)]),  # a decoder of characters, say
    ],
)
def test_stages_fit_the_positions(positions: int, stages: list[tuple[int, int]]) -> None:
    assert sweeps.stages_of(positions) == stages


def test_a_pass_as_a_task() -> None:
    path = FAULTS / "models" / "toy_decoder" / "task.py"
    made = generating.step(TOY.ToyDecoder(name="toy_decoder", path=path))
    assert made.name == "toy_decoder~step"
    assert [spec.name for spec in made.inputs] == ["input_ids", "past_key_values.0.key", "past_key_values.0.value"]
    assert [spec.shape for spec in made.outputs] == [(1, 1, 32), (1, 1, "total", 4), (1, 1, "total", 4)]
    samples: Any = made.samples("train").inputs
    assert samples["input_ids"].shape == (2, 1, 5)
    assert samples["past_key_values.0.key"].shape == (2, 1, 1, 7, 4)


def test_a_pass_faster_than_the_machine_reads_is_refused() -> None:
    bound = ReadBound(num_bytes=24_000_000, bytes_per_s=12e9)  # 2 ms
    assert bound.refusal(1.85e6) is None  # within what a measured rate is off
    told = bound.refusal(0.4e6)
    assert told == (
        "it cannot have run: at most 0.4 ms a pass, but to read its 24 MB of weights and cache takes this machine "
        "2 ms, at 12 GB/s"
    )


@pytest.mark.parametrize(
    ("precision", "whole", "stored", "num_bytes"),
    [
        ("float32", None, None, 4000),
        ("bfloat16", None, None, 2000),
        ("int8", 1100, 1100, 1100),
        ("int8", 3100, None, 1000),  # its table of tokens may lie beside the head, in more bits
        ("int8", 900, None, 900),
        ("float32", 5000, 5000, 4000),
        ("int4", 9000, 4600, 4000),
        (None, None, None, 500),
    ],
)
def test_bytes_that_a_pass_reads(precision: str | None, whole: int | None, stored: int | None, num_bytes: int) -> None:
    assert generation.least_weight_bytes(1000, precision, whole, stored) == num_bytes


def test_an_engine_cannot_tell_logits_it_does_not_have() -> None:
    class Silent(ENGINES["cpu"]):  # type: ignore[name-defined, misc]
        scores = False

        def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
            return super().generate(prompt, num_new, emit)  # type: ignore[no-any-return]

    made = task()
    feeds = {name: array[0] for name, array in made.samples("test").inputs.items()}
    logprobs, ids, _ = generation_quality.Answering(Silent(made.request))(feeds)
    assert np.isnan(logprobs).all()
    assert len(ids) == 256
