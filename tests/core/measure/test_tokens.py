"""The times of tokens by a clock that the tests turn, and the checks of what an engine did."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from bench.api.decoder import IDS, Decoder, Request
from bench.api.errors import GenerationError
from bench.api.generation import Emit, Generator, Told
from bench.measure import tokens
from bench.measure.clock import BurstPlan

MS = 1_000_000
DECODER = Decoder(
    num_layers=1,
    num_heads=2,
    num_groups=1,
    head_size=4,
    vocabulary=50,
    max_positions=512,
    weights_read=1000,
    pad_id=0,
)
PROMPT = np.arange(1, 33)
PLAN = BurstPlan(warm_ns=5 * MS, target_ns=100 * MS, max_runs=1000)


class Clock:
    """A clock that stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = 0

    def turn(self, time_ns: int) -> None:
        self.now += time_ns

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("bench.measure.tokens.time.perf_counter_ns", found)
    return found


def asked(num_new: int) -> Request:
    return Request(decoder=DECODER, num_prompt=len(PROMPT), num_new=num_new, num_scored=8, num_greedy=8)


class Engine(Generator):
    """Takes 20 ms to the first token and 2 ms to each further one, which is the number of the token before plus 1."""

    def __init__(self, clock: Clock, num_new: int, told: Told | None = None) -> None:
        super().__init__(asked(num_new))
        self.clock, self.told, self.requests = clock, told, 0

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        self.requests += 1
        self.clock.turn(18 * MS)
        for number in range(num_new):
            self.clock.turn(2 * MS)
            emit(1 + number % 40)
        return self.told or Told(num_prompt=len(prompt), num_cached=0)


def found(ids: Sequence[int], *, told: Told | None = None, gap_ns: int = 2 * MS) -> tokens.Timed:
    at_ns = [20 * MS + gap_ns * number for number in range(len(ids))]
    told = told or Told(num_prompt=len(PROMPT), num_cached=0)
    return tokens.Timed(ids=ids, at_ns=at_ns, whole_ns=at_ns[-1] + MS, report=told)


def check(one: tokens.Timed, num_new: int) -> None:
    tokens.check(one, DECODER, len(PROMPT), num_new)


def test_tokens_are_timed_when_they_come(clock: Clock) -> None:
    one = tokens.timed(Engine(clock, 4), PROMPT, 4)
    assert one.ids == [1, 2, 3, 4]
    assert (one.first_ns, one.gaps_ns, one.whole_ns) == (20 * MS, [2 * MS] * 3, 26 * MS)
    check(one, 4)


def test_a_burst_of_first_tokens(clock: Clock) -> None:
    engine = Engine(clock, 1)
    cold, steady = tokens.burst(engine, {IDS: PROMPT[None]}, PLAN)
    assert cold == [20 * MS]  # longer than the time in which samples are cold
    assert steady == [20 * MS] * 5  # in 100 ms
    assert engine.requests == 6


def test_a_burst_of_further_tokens_has_no_cold_ones(clock: Clock) -> None:
    engine = Engine(clock, 11)
    cold, steady = tokens.burst(engine, {IDS: PROMPT[None]}, PLAN)
    assert cold == []
    assert steady == [2 * MS] * 10 * 3  # requests of 40 ms
    assert engine.requests == 3


def test_a_burst_has_few_samples_where_few_are_wanted(clock: Clock) -> None:
    plan = BurstPlan(warm_ns=0, min_cold=0, target_ns=0, min_runs=1)
    assert tokens.burst(Engine(clock, 3), {IDS: PROMPT[None]}, plan) == ([], [2 * MS, 2 * MS])


def test_the_prompt_is_cut_to_the_length_of_the_request(clock: Clock) -> None:
    longer = np.arange(1, 49)
    engine = Engine(clock, 2)
    assert engine.prompt_of({IDS: longer[None]}).tolist() == PROMPT.tolist()
    assert engine.run({IDS: longer[None]})[0].tolist() == [1, 2]


@pytest.fixture
def collecting() -> Iterator[None]:
    assert gc.isenabled()
    yield
    assert gc.isenabled()


@pytest.mark.usefixtures("collecting")
def test_a_burst_ends_where_an_answer_is_not_the_one_asked_for(clock: Clock) -> None:
    engine = Engine(clock, 4, told=Told(num_prompt=40))
    with pytest.raises(GenerationError, match="it ran 40 tokens for a prompt of 32: padding"):
        tokens.burst(engine, {IDS: PROMPT[None]}, PLAN)
    assert engine.requests == 1


IDS_OF_12 = list(range(1, 13))


@pytest.mark.parametrize(
    ("one", "num_new", "message"),
    [
        pytest.param(found(IDS_OF_12), 64, "it gave 12 of 64 tokens and ended: no time after the end", id="ended"),
        pytest.param(found(IDS_OF_12), 8, "it gave 12 tokens; 8 were asked for", id="more"),
        pytest.param(found([*IDS_OF_12, 0, 0]), 14, r"tokens 13 to 14 are padding \(id 0\)", id="padded answer"),
        pytest.param(found([0, 0, 0]), 3, r"tokens 1 to 3 are padding", id="nothing but padding"),
        pytest.param(found([1, 50]), 2, "it gave the id 50; there are 50 ids", id="no id"),
        pytest.param(found([1, -1]), 2, "it gave the id -1", id="negative id"),
        pytest.param(
            found([1, 2], told=Told(num_prompt=31)),
            2,
            "it ran 31 tokens for a prompt of 32: the ids were cut, or decoded to text and encoded anew",
            id="encoded anew",
        ),
        pytest.param(
            found([1, 2], told=Told(num_prompt=1024)), 2, "it ran 1024 tokens for a prompt of 32: padding", id="padded"
        ),
        pytest.param(
            found([1, 2], told=Told(num_prompt=32, num_cached=31)), 2, "31 of 32 tokens of the prompt came", id="cached"
        ),
        pytest.param(
            found([1, 2], told=Told(num_new=3)), 2, "it tells of 3 new tokens, and handed out 2", id="counts otherwise"
        ),
        pytest.param(found([1, 2, 3], gap_ns=300), 3, "token 2 came 300 ns after token 1: tokens", id="in groups"),
        pytest.param(
            found([1, 2, 3], told=Told(first_ns=20 * MS, gaps_ns=[1_958_228_200 * MS, 2 * MS])),
            3,
            r"by its own clock token 2 took 1\.95823e\+09 ms, in a request of 25 ms altogether",
            id="absurd second token",
        ),
        pytest.param(
            found([1, 2, 3], told=Told(first_ns=20 * MS, gaps_ns=[-1.0, 2 * MS])), 3, "token 2 took -1e-06", id="back"
        ),
        pytest.param(
            found([1, 2, 3], told=Told(first_ns=20 * MS, gaps_ns=[20 * MS, 20 * MS])),
            3,
            "token 2 took 20 ms, in a request of 25 ms",
            id="more than the request altogether",
        ),
    ],
)
def test_what_was_not_asked_for_is_told(one: tokens.Timed, num_new: int, message: str) -> None:
    with pytest.raises(GenerationError, match=message):
        check(one, num_new)


@pytest.mark.parametrize(
    ("one", "num_new"),
    [
        pytest.param(found([*IDS_OF_12, 0]), 13, id="one id of padding may be the likeliest"),
        pytest.param(found([1, 2], told=Told()), 2, id="nothing told"),
        pytest.param(found([1, 2], told=Told(num_prompt=32, num_new=2, first_ns=20 * MS)), 2, id="the first alone"),
        pytest.param(found([1, 2, 3], told=Told(first_ns=20.5 * MS, gaps_ns=[2 * MS] * 2)), 3, id="rounded"),
    ],
)
def test_what_was_asked_for_passes(one: tokens.Timed, num_new: int) -> None:
    check(one, num_new)


def test_a_stepper_counts_what_its_engine_has(clock: Clock) -> None:
    from bench.api.generation import Stepper

    class Counting(Stepper):
        def __init__(self, request: Request, loses: Callable[[int], int]) -> None:
            super().__init__(request)
            self._depth, self._loses = 0, loses

        @property
        def depth(self) -> int:
            return self._depth

        def start(self, prompt: np.ndarray) -> np.ndarray:
            self._depth = self._loses(len(prompt))
            return np.eye(50)[3]

        def step(self, token: int) -> np.ndarray:
            self._depth += 1
            return np.eye(50)[token + 1]

    ids: list[int] = []
    told = Counting(asked(4), lambda number: number).generate(PROMPT, 4, ids.append)
    assert (ids, told.num_prompt) == ([3, 4, 5, 6], 32)
    told = Counting(asked(4), lambda number: number - 2).generate(PROMPT, 4, ids.append)
    assert told.num_prompt == 30
    rows = Counting(asked(4), int).logits_after(PROMPT, np.array([7, 9, 2]))
    assert rows.argmax(axis=1).tolist() == [3, 8, 10]  # after the prompt, after 7, after 9
