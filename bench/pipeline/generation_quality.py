"""The judgement of generated text: logits along a given text, and the tokens that an engine chooses by itself.

A request is answered in two ways. The tokens after the prompt are forced, and the logits of what follows each are
compared with the reference's: errors, and the metric of the decoder's task. Then the engine chooses, and its tokens
are compared with the reference's up to the first that differs. It counts where the reference's two likeliest tokens are
further apart than the row's precision can confuse.

Shapes: N samples, F scored tokens, V vocabulary, A tokens of an answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bench.api import Arrays, Outputs, Samples, Task
from bench.api.decoder import IDS
from bench.api.errors import GenerationError
from bench.api.generation import Generator, Stepper
from bench.measure import tokens
from bench.onnxfile.deferred import np
from bench.pipeline import quality
from bench.plugins.generating import LOGPROBS, MARGINS, TOKENS
from bench.records.lines import Quality

NUM_ANSWERED = 8
"""Texts that are also answered: the first of a split. Of the others the tokens are `NOT_ASKED`."""
NOT_ASKED = -1
AGREEMENT = "greedy_agreement"
"""Among the metrics: the share of tokens that agree up to the first that counts as different."""
_LEAST_MARGIN = 1e-3
"""In nats: likelihoods that are closer are equal, whatever the precision."""
_SAFETY = 4.0
"""A choice may flip where two likeliest ids are closer than twice the largest error of such ids, which is doubled for
tokens that are not scored."""
_LONG_PROMPT = 64
"""Tokens of a prompt whose prefill takes much longer than one token."""
_FEWEST_KNOWN = 3
"""Prompts that are asked twice before an engine is said to keep prompts."""
_NUM_CHECKED = 2
"""Answers of an engine with a loop of its own that are held against its logits after them."""
_OWN_MARGIN = 0.5
"""In nats: an engine computes a token and a prompt in other orders of operations, and rounds what it multiplies. With
weights of 4 bits and products of 8, llama.cpp's logits of the same text differed by 0.07."""
_FORGETS_SHARE = 0.5
"""An engine that keeps prompts answers each known prompt in a smaller share of the time of any new one."""
_LEAST_KEPT_NS = 1_000_000
"""What it gains at least: the processor's own caches make a known prompt faster by less."""
_LEAST_AGREEMENT = 0.5
"""Of an engine that hides its logits: with a smaller share the answers are those of another model."""
_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 2.0**-8, "int4": 2.0**-4}
"""Largest relative error of a rounded number, by precision; of integers, in a block of numbers that share a scale."""


class Answering:
    """What is judged of requests, which an engine answers one by one; each text is new to it.

    Args:
        session: the engine.
        with_margins: whether to tell how far apart the engine's two likeliest tokens are at each token of its answer.
    """

    def __init__(self, session: Generator, *, with_margins: bool = False) -> None:
        self._session, self._with_margins = session, with_margins
        self._num_answered = 0
        self._new_ns: list[int] = []
        self._known_ns: list[int] = []

    def __call__(self, feeds: Arrays) -> Outputs:
        """Answer one request.

        Args:
            feeds: a text of the task.

        Returns:
            In the order of the task's outputs: logarithms of probabilities, float32 (F, V), NaN where the engine hides
            its logits; the ids of the answer, int64 (A,); margins, float32 (A,), NaN where they are not wanted.

        Raises:
            GenerationError: the engine did not generate what it was asked for, or keeps prompts.
        """
        session, request = self._session, self._session.request
        prompt, forced = session.prompt_of(feeds), feeds[IDS].reshape(-1)[request.num_prompt :]
        ids = np.full(request.num_greedy, NOT_ASKED, np.int64)
        margins = np.full(len(ids), np.nan, np.float32)
        if is_answered := self._num_answered < NUM_ANSWERED:
            self._num_answered += 1
            self._generate(prompt, 1, self._new_ns)
            self._generate(prompt, 1, self._known_ns)
            self._check_forgets()
            ids[:] = self._generate(prompt, request.num_greedy, [])
            self._check_choice(prompt, ids)
        if not session.scores:
            return [np.full((len(forced), request.decoder.vocabulary), np.nan, np.float32), ids, margins]
        logprobs = log_softmax(session.logits_after(prompt, forced))
        if self._with_margins and is_answered:
            top = np.sort(session.logits_after(prompt, ids), axis=1)[:, -2:]
            margins = top[:, 1] - top[:, 0]
        return [logprobs, ids, margins]

    def _generate(self, prompt: np.ndarray, num_new: int, first_ns: list[int]) -> Sequence[int]:
        generation = tokens.timed(self._session, prompt, num_new)
        tokens.check(generation, self._session.request.decoder, len(prompt), num_new)
        first_ns.append(generation.first_ns)
        return generation.ids

    def _check_choice(self, prompt: np.ndarray, ids: np.ndarray) -> None:
        """Ensure that an engine's own loop chooses what its own logits find likeliest: else its cache is wrong."""
        session = self._session
        loops = not isinstance(session, Stepper) or type(session).generate is not Stepper.generate
        if not (session.scores and loops) or self._num_answered > _NUM_CHECKED:
            return
        logits = session.logits_after(prompt, ids)
        lost = logits.max(axis=1) - np.take_along_axis(logits, ids[:, None], 1)[:, 0]
        end_id = session.request.decoder.end_id
        lost[(logits.argmax(axis=1) == end_id) & (ids != end_id)] = 0.0  # some go on by never choosing the end
        if not (lost <= _OWN_MARGIN).all():
            first = int(np.flatnonzero(~(lost <= _OWN_MARGIN))[0])
            raise GenerationError(
                f"token {first + 1} of {len(ids)} of its answer is {ids[first]}, where its own logits find "
                f"{logits[first].argmax()} likelier by {lost[first]:.3g} nats: its cache is wrong, or its choice"
            )

    def _check_forgets(self) -> None:
        """Ensure that a prompt which was asked before takes its time, whatever the engine tells of its caches."""
        new_ns, known_ns = min(self._new_ns), max(self._known_ns)
        is_long = self._session.request.num_prompt >= _LONG_PROMPT
        is_faster = known_ns < min(_FORGETS_SHARE * new_ns, new_ns - _LEAST_KEPT_NS)
        if is_long and len(self._new_ns) >= _FEWEST_KNOWN and is_faster:
            raise GenerationError(
                f"prompts that were asked before took {known_ns / 1e6:.3g} ms at most to the first token, and new ones "
                f"{new_ns / 1e6:.3g} ms at least: it keeps prompts, which must be off"
            )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities, float32 (F, V): engines may tell logits that are shifted."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return (wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))).astype(np.float32)


def comparable(outputs: Arrays, expected: Arrays) -> tuple[Arrays, Arrays]:
    """What can be compared element by element of some answers and of the expected ones.

    Of an engine that hides its logits that is the tokens alone; a text that one of the two did not answer has none.
    """
    both = (outputs[TOKENS] != NOT_ASKED) & (expected[TOKENS] != NOT_ASKED)
    sides = [{TOKENS: np.where(both, arrays[TOKENS], NOT_ASKED)} for arrays in (outputs, expected)]
    if not np.isnan(outputs[LOGPROBS]).any():
        sides = [{LOGPROBS: arrays[LOGPROBS], **side} for arrays, side in zip((outputs, expected), sides, strict=True)]
    return sides[0], sides[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far greedy answers agree with the reference's.

    Attributes:
        share: of tokens, up to the first of each answer that counts as different; None where no token is compared.
        difference: the first difference that counts, in words; None where there is none.
    """

    share: float | None
    difference: str | None


def agreement(outputs: Arrays, expected: Arrays, tolerance: float, end_id: int | None = None) -> Agreement:
    """Compare greedy answers.

    Args:
        outputs: of the engine.
        expected: of the reference, with its margins; where these are not known, no difference is a tie.
        tolerance: margins in nats that are no larger are ties.
        end_id: id that ends a text: engines go on after it in different ways, and some by never choosing it, so
            nothing is compared from where the reference chooses it.
    """
    agreed = compared = 0
    difference = None
    answers = zip(outputs[TOKENS], expected[TOKENS], expected[MARGINS], strict=True)
    for number, (own, right, margins) in enumerate(answers, start=1):
        if NOT_ASKED in (own[0], right[0]):
            continue
        ends = np.flatnonzero(right == end_id)
        length = int(ends[0]) if len(ends) else len(right)
        differs = np.flatnonzero(own[:length] != right[:length])
        first = int(differs[0]) if len(differs) else length
        agreed += first
        compared += first
        if first < length and not margins[first] <= tolerance:
            compared += length - first
            by = "" if np.isnan(margins[first]) else f" by {margins[first]:.3g} nats"
            difference = difference or (
                f"token {first + 1} of {len(right)} of answer {number} is {own[first]}, where the reference's is "
                f"{right[first]}{by}"
            )
    return Agreement(share=agreed / compared if compared else None, difference=difference)


def tolerance_of(precision: str | None, error: float | None, scale: float) -> float:
    """Margins in nats that a row's precision can confuse.

    Args:
        precision: of the row.
        error: the largest error of its logarithms of probabilities, see `_error_of_likeliest`; None where it hides
            its logits.
        scale: the largest magnitude of the reference's.
    """
    if error is None:
        error = _ROUNDOFF.get(precision or "", _ROUNDOFF["int4"]) * scale
    return max(_LEAST_MARGIN, _SAFETY * error)


def _error_of_likeliest(own: np.ndarray, right: np.ndarray) -> float:
    """The largest error of the two ids that the reference finds likeliest: those that are unlikely are not chosen.

    Args:
        own: logarithms of probabilities, float32 (N, F, V).
        right: the reference's.
    """
    ids = np.argpartition(right, -2, axis=2)[..., -2:]
    likeliest, other = np.take_along_axis(own, ids, 2).astype(np.float64), np.take_along_axis(right, ids, 2)
    # An id that is masked is infinitely unlikely to both.
    return float(np.abs(likeliest - other, where=np.isfinite(other), out=np.zeros_like(likeliest)).max())


def judge(task: Task, samples: Samples, outputs: Arrays, expected: Arrays | None, precision: str | None) -> Quality:
    """Judge the answers to all requests of a split; see `bench.pipeline.quality.judge`, which judges the logits.

    Args:
        task: a task with a request.
        samples: the split.
        outputs: output arrays by name, with the N samples along the first axis.
        expected: the reference's; None for the reference itself.
        precision: of the row.
    """
    right = outputs if expected is None else expected
    visible = not np.isnan(outputs[LOGPROBS]).any()
    if visible:
        judged = quality.judge(task, samples, {LOGPROBS: outputs[LOGPROBS]}, {LOGPROBS: right[LOGPROBS]})
    elif np.isnan(outputs[LOGPROBS]).all():
        judged = Quality(metric_name=task.metric_name, higher_is_better=task.higher_is_better, fidelity=quality.CLOSE)
    else:
        return Quality(fidelity=quality.BROKEN, reason="some of its logits are not numbers")
    if judged.fidelity == quality.BROKEN:
        return judged
    scale = float(np.abs(right[LOGPROBS]).max(initial=0.0, where=np.isfinite(right[LOGPROBS])))
    error = _error_of_likeliest(outputs[LOGPROBS], right[LOGPROBS]) if visible else None
    assert task.request is not None
    comparison = agreement(outputs, right, tolerance_of(precision, error, scale), task.request.decoder.end_id)
    figures: dict[str, Any] = {name: getattr(judged, name) for name in judged.__struct_fields__}
    figures["metrics"] = {
        **(judged.metrics or {}),
        **({} if comparison.share is None else {AGREEMENT: comparison.share}),
    }
    if not visible:
        figures["lost"] = "its engine tells no logits"
        if comparison.difference is not None:
            figures["fidelity"] = quality.DRIFTED
        if comparison.share is None:
            reason = "it hides its logits, and the first token of every answer differs where the reference is unsure"
            figures |= {"fidelity": quality.BROKEN, "reason": reason}
        elif comparison.share < _LEAST_AGREEMENT:
            figures |= {
                "fidelity": quality.BROKEN,
                "reason": f"{comparison.share:.0%} of its tokens agree: {comparison.difference}",
            }
    elif comparison.difference is not None and judged.fidelity in (quality.EXACT, quality.CLOSE):
        # Its logits along a given text are right, so what it chooses by itself must be, too.
        figures |= {"fidelity": quality.BROKEN, "reason": f"{comparison.difference}, though its logits are right"}
    return Quality(**figures)
