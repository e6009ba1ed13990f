"""The tasks made of a decoder: to generate text with it, and one pass of it, which is what exporters take.

A cell of the first is measured on one request: prompts of `prompt` ids and `new` tokens after each. With one new token
its latency is the time to first token (TTFT: the prefill); with more it is the time per output token (TPOT) with
`prompt` and more tokens in the cache (KV depth). Every engine gets the same ids, which are texts of the task.

Shapes: N samples, P tokens of a prompt, F scored tokens after it, V vocabulary, A tokens of an answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bench.api import Arrays, Points, Samples, Task, TensorSpec
from bench.api.decoder import IDS, LOGITS, Decoder, Request
from bench.api.errors import InputError
from bench.api.names import NEW, PROMPT, USUAL_NEW, USUAL_PROMPT, Role, TaskName
from bench.onnxfile.deferred import np
from bench.plugins.view import View

NUM_SAMPLES = 64
"""Texts at most: with half of them the best of 25 deployments is not shown to lose at most 1 % of the metric."""
_NUM_SCORED = 32
_NUM_GREEDY = 256
LOGPROBS, TOKENS, MARGINS = "logprobs", "tokens", "margins"
_NUM_PASSES = 2
_STEP_TOKENS, _STEP_DEPTH = 5, 7
"""Of the passes that exporters trace: numbers that no size of a model equals by chance."""


class Generating(View):
    """A task that generates text with a decoder."""

    request: Request
    batched = False
    metric: Any = Task.metric

    @property
    def differs_by(self) -> object:
        """See `View`."""
        return dataclasses.asdict(self.request)

    def samples(self, split: str) -> Samples:
        """The first texts of a split: int64 (N, 1, P + F) ids, of which the first P are a prompt.

        The targets are those of the decoder's task for the last F tokens.
        """
        request = self.request
        texts = self.of.texts(split, request.num_prompt + request.num_scored)
        ids = texts.inputs[IDS][:NUM_SAMPLES, None, :]
        # What follows an id stands at its place among the targets.
        rows = slice(request.num_prompt - 1, request.num_prompt - 1 + request.num_scored)
        targets = None if texts.targets is None else [each[..., rows] for each in texts.targets]
        return Samples(
            inputs={IDS: ids},
            targets=None if targets is None else targets[:NUM_SAMPLES],
            names=texts.names[:NUM_SAMPLES],
        )

    def confirmation(self) -> Samples | None:
        return None

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """That of the decoder's task for the scored tokens."""
        return self.of.loss(_scored(outputs, targets), targets)

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """Those of the decoder's task for the scored tokens."""
        return self.of.metrics(_scored(outputs, targets), targets)

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """Those of the decoder's task for the scored tokens."""
        return self.of.points(_scored(outputs, targets), targets)


def _scored(outputs: Arrays, targets: Sequence[Any]) -> Arrays:
    """What the decoder's task judges: logarithms of probabilities as its logits, or else against the reference's."""
    if LOGPROBS not in outputs:  # a loss may ask for a metric, or the other way round
        return outputs
    name = LOGPROBS if isinstance(targets[0], Mapping) else LOGITS
    return {name: outputs[LOGPROBS]}


class Stepping(View):
    """One pass of a decoder."""

    inputs: tuple[TensorSpec, ...]
    batched = False

    def build(self, source: str, weights: Any) -> Any:
        """The pass in one framework."""
        return self.of.build_step(source, weights)

    def samples(self, split: str) -> Samples:
        """Two passes to trace with, whose ids and caches are made up: texts would be tokens of a whole data set."""
        generator = np.random.default_rng(0)
        shapes = {
            spec.name: [size if isinstance(size, int) else _STEP_DEPTH for size in spec.shape]
            for spec in self.inputs[1:]
        }
        caches = {name: generator.standard_normal((_NUM_PASSES, *shape), np.float32) for name, shape in shapes.items()}
        ids = generator.integers(_decoder(self.of).vocabulary, size=(_NUM_PASSES, 1, _STEP_TOKENS))
        return Samples(inputs={IDS: ids, **caches}, targets=None)


def pass_feeds(request: Request, text: np.ndarray) -> Arrays:
    """Inputs of the pass that is timed, for a look into it: its cache is made up, and costs the same as a real one.

    Args:
        request: the request.
        text: ids, int64 (P + F,).
    """
    (_, ids), *caches = request.pass_shapes().items()
    generator = np.random.default_rng(0)
    made_up = {name: generator.standard_normal(shape, np.float32) for name, shape in caches}
    return {IDS: text[request.depth : request.depth + ids[1]].reshape(ids), **made_up}


def fitted(sizes: Mapping[str, int], max_positions: int) -> dict[str, int]:
    """The sizes of a request to generate with a decoder: where the usual ones are too long for it, shorter ones."""
    prompt, new = sizes.get(PROMPT, USUAL_PROMPT), sizes.get(NEW, USUAL_NEW)
    if prompt + new <= max_positions:
        return dict(sizes)
    prompt = sizes.get(PROMPT, max_positions - sizes[NEW] if NEW in sizes else max_positions // 2)
    new = sizes.get(NEW, min(USUAL_NEW, max_positions - prompt))
    return dict(sizes) if min(prompt, new) < 1 else {**sizes, PROMPT: prompt, NEW: new}


def generating(task: Task, sizes: Mapping[str, int]) -> Task:
    """The task that generates with a decoder.

    Args:
        task: the decoder's task.
        sizes: any of `prompt` and `new`.

    Raises:
        InputError: the task is no decoder, a size is unknown, or the text would be longer than the decoder takes.
    """
    decoder = _decoder(task)
    if unknown := [name for name in sizes if name not in (PROMPT, NEW)]:
        raise InputError(f"a request to generate has the sizes {PROMPT} and {NEW}, not {unknown[0]!r}")
    own = TaskName(task.name, Role.GENERATION)
    name = own.at(sizes)
    prompt, new = name.num_prompt, name.num_new
    if min(prompt, new) < 1:
        usual = own.at({PROMPT: USUAL_PROMPT, NEW: USUAL_NEW})
        raise InputError(f"not sizes of 1 or more: {str(name)!r}; they read {usual}")
    room = decoder.max_positions - prompt
    if room < new:
        raise InputError(
            f"{task.name} takes texts of {decoder.max_positions} tokens, fewer than {prompt} and {new} new"
        )
    request = Request(
        decoder=decoder,
        num_prompt=prompt,
        num_new=new,
        num_scored=min(_NUM_SCORED, room),
        num_greedy=min(_NUM_GREEDY, room),
    )
    view = Generating(
        task,
        name,
        request=request,
        inputs=(TensorSpec(name=IDS, dtype="int64", shape=(1, prompt + request.num_scored)),),
        outputs=(
            TensorSpec(name=LOGPROBS, dtype="float32", shape=(request.num_scored, decoder.vocabulary)),
            TensorSpec(name=TOKENS, dtype="int64", shape=(request.num_greedy,)),
            TensorSpec(name=MARGINS, dtype="float32", shape=(request.num_greedy,)),
        ),
    )
    return cast(Task, view)


def step(task: Task) -> Task:
    """One pass of a decoder as a task.

    Raises:
        InputError: the task is no decoder.
    """
    decoder = _decoder(task)
    name = TaskName(task.name, Role.DECODING_STEP)
    return cast(Task, Stepping(task, name, inputs=decoder.inputs, outputs=decoder.outputs))


def _decoder(task: Task) -> Decoder:
    if task.decoder is None:
        raise InputError(f"{task.name} is no decoder that generates text")
    return task.decoder
