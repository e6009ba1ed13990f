"""One pass of the codegen_lm decoder, in each of its sources: the logits are those of scoring the whole text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from bench.api.errors import InputError
from bench.plugins import catalog

pytest.importorskip("tokenizers")

NUM_PROMPT, NUM_STEPS = 20, 3
ROOM = 32
"""Tokens for which caches that stay in their place have room."""

Pass: TypeAlias = Callable[..., list[np.ndarray]]
"""Takes arrays in the order of `Decoder.inputs`, and gives those of `Decoder.outputs`."""


@pytest.fixture(scope="module")
def task() -> Any:
    return catalog.task("codegen_lm")


@pytest.fixture(scope="module")
def ids(task: Any) -> np.ndarray:
    found: np.ndarray = task.texts("test", NUM_PROMPT + NUM_STEPS).inputs["input_ids"][:1]
    return found


@pytest.fixture(scope="module")
def torch_models(task: Any) -> tuple[Callable[[np.ndarray], np.ndarray], Pass]:
    torch = pytest.importorskip("torch")
    score, step = task.build("torch", task.weights_path), task.build_step("torch", task.weights_path)

    def run(model: Any, *arrays: np.ndarray) -> Any:
        with torch.no_grad():
            return model(*map(torch.from_numpy, arrays))

    return (lambda texts: run(score, texts).numpy()), lambda *arrays: [one.numpy() for one in run(step, *arrays)]


@pytest.fixture(scope="module")
def tf_step(task: Any) -> Any:
    pytest.importorskip("tensorflow")
    return task.build_step("tf", task.weights_path)


def empty(decoder: Any) -> list[np.ndarray]:
    return [np.zeros((1, decoder.num_groups, 0, decoder.head_size), np.float32)] * (2 * decoder.num_layers)


def parts(ids: np.ndarray) -> Sequence[np.ndarray]:
    """The prompt, and each token after it."""
    return np.split(ids, range(NUM_PROMPT, NUM_PROMPT + NUM_STEPS), axis=1)


def along(step: Pass, task: Any, ids: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The logits (1, 1, V) after the prompt and after each token that follows, and the cache in the end."""
    made, caches = [], empty(task.decoder)
    for part in parts(ids):
        logits, *caches = step(part, *caches)
        made.append(logits)
    return made, caches


def check(made: list[np.ndarray], scored_1TV: np.ndarray) -> None:
    assert [logits.shape for logits in made] == [(1, 1, scored_1TV.shape[2])] * (1 + NUM_STEPS)
    np.testing.assert_allclose(np.concatenate(made, axis=1), scored_1TV[:, NUM_PROMPT - 1 :], rtol=0, atol=1e-4)


@pytest.mark.framework
def test_steps_of_torch_give_the_logits_of_scoring(task: Any, torch_models: Any, ids: np.ndarray) -> None:
    score, step = torch_models
    check(along(step, task, ids)[0], score(ids))


@pytest.mark.framework
def test_steps_of_keras_give_the_logits_of_scoring(task: Any, tf_step: Any, ids: np.ndarray) -> None:
    made, _ = along(lambda *arrays: [one.numpy() for one in tf_step(*arrays)], task, ids)
    check(made, tf_step.decoder(ids).numpy())


@pytest.mark.framework
def test_steps_of_both_sources_agree(task: Any, torch_models: Any, tf_step: Any, ids: np.ndarray) -> None:
    ours, caches = along(lambda *arrays: [one.numpy() for one in tf_step(*arrays)], task, ids)
    theirs, their_caches = along(torch_models[1], task, ids)

    for own, other in zip([*ours, *caches], [*theirs, *their_caches], strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-4)


@pytest.mark.framework
def test_caches_that_stay_in_their_place_change_nothing(task: Any, tf_step: Any, ids: np.ndarray) -> None:
    import tensorflow as tf

    placed = tf.function(tf_step.placed, jit_compile=True)
    room = [(0, 0), (0, 0), (0, ROOM), (0, 0)]
    # What an earlier text left behind the pass counts for nothing.
    made, caches, depth = [], [np.pad(cache, room, constant_values=3) for cache in empty(task.decoder)], 0
    for part in parts(ids):  # a single token as it is compiled, for each length takes seconds
        step = placed if part.shape[1] == 1 else tf_step.placed
        logits, *caches = step(tf.constant(part), tf.constant(depth), *caches)
        made.append(logits.numpy())
        depth += part.shape[1]
    check(made, tf_step.decoder(ids).numpy())
    assert caches[0].shape == (1, task.decoder.num_groups, ROOM, task.decoder.head_size)


def test_a_step_of_an_unknown_source_is_refused(task: Any) -> None:
    with pytest.raises(InputError, match="torch, tf"):
        task.build_step("jax", task.weights_path)
