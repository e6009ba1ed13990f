"""Sizes as expressions: equal when they mean the same, exact when evaluated."""

from __future__ import annotations

import itertools
import operator
import random

import numpy as np
import pytest

from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import symbol
from bench.onnxfile.shapes.engine import compile_shapes

N, T, H = symbol("N"), symbol("T"), symbol("H")
NAMES = ("N", "T", "H")


def value(size: dims.Size, **sizes: int) -> int:
    given = {name: sizes.get(name, 0) for name in NAMES}
    return compile_shapes({"x": (size,)}, NAMES)(*given.values())["x"][0]


def test_expressions_that_mean_the_same_are_equal() -> None:
    assert N * T - T * N == 0
    assert (N + 1) * (N - 1) == N * N - 1
    assert (N * T + N) // N == T + 1
    assert 64 * N * T // (N * T) == 64
    assert (12 * T - 12) // (T - 1) == 12
    assert (N * T * T - N) // (T - 1) == N * (T + 1)
    assert {N * T: 1}[T * N] == 1
    assert N != T


def test_what_does_not_divide_rounds_down() -> None:
    halved = (H + 2 - 3) // 2 + 1

    assert [value(halved, H=size) for size in (223, 224, 225)] == [112, 112, 113]
    assert (2 * H + 3) // 2 == H + 1
    assert (H // 2) // 3 == H // 6
    assert str(halved) == "(H + 1) // 2"
    assert value(dims.ceil_div(H, 4), H=9) == 3


def test_mod_of_a_multiple_is_0() -> None:
    assert 6 * N % 3 == 0
    assert value(N % 4, N=11) == 3
    assert value(11 % N, N=4) == 3


def test_bounds_that_can_be_proved_are_not_asked_again() -> None:
    assert dims.minimum(N, N + T) == N
    assert dims.maximum(N - dims.minimum(N, 1), 0) == N - dims.minimum(N, 1)
    assert dims.equal(N, -1) == 0
    assert dims.less(N, N + 1) == 1
    assert dims.select(dims.equal(T, T), N, H) == N


@pytest.mark.parametrize(("one", "other", "expected"), [(1, 5, 5), (5, 1, 5), (1, 1, 1), (4, 4, 4), (0, 1, 0)])
def test_broadcast_of_unknown_sizes_is_decided_by_their_values(one: int, other: int, expected: int) -> None:
    joined = dims.broadcast(N, T)

    assert joined is not None
    assert value(joined, N=one, T=other) == expected
    assert dims.broadcast(one, other) == expected


def test_broadcast_of_known_sizes() -> None:
    assert dims.broadcast(N, 1) == N
    assert dims.broadcast(7, N) == 7
    assert dims.broadcast(7, 8) is None


def test_scaling_rounds_as_float32_does() -> None:
    assert dims.scaled(10, 0.1) == 1  # in double precision, the float32 nearest to 0.1 gives a little more than 1
    assert value(dims.scaled(H, 0.7), H=10) == 7  # as in float32, where 10 * 0.7 is 7
    assert dims.scaled(H, 2.0) == 2 * H


def test_truncated_quotient_is_that_of_onnx() -> None:
    assert dims.truncated_quotient(-7, 2) == -3
    assert value(dims.truncated_quotient(N - 10, 4), N=3) == -1


def test_random_expressions_are_what_python_computes() -> None:
    generator = random.Random(0)
    operations = (operator.add, operator.sub, operator.mul, dims.minimum, dims.maximum, operator.floordiv, operator.mod)
    numeric = (operator.add, operator.sub, operator.mul, min, max, operator.floordiv, operator.mod)
    for _ in range(300):
        sizes = {name: generator.randint(0, 9) for name in NAMES}
        pool: list[tuple[dims.Size, int]] = [(symbol(name), size) for name, size in sizes.items()]
        pool += [(number, number) for number in (1, 2, 3, 5)]
        for _ in range(8):
            which = generator.randrange(len(operations))
            (one, first), (other, second) = generator.choice(pool), generator.choice(pool)
            if which >= 5:
                other, second = max(abs(second), 1), max(abs(second), 1)
            pool.append((operations[which](one, other), numeric[which](first, second)))
        result, expected = pool[-1]
        assert value(result, **sizes) == expected, str(result)


def test_names_are_never_code() -> None:
    name = 'N"); raise SystemExit #'
    shapes = compile_shapes({"a'b\n": (symbol(name) * 2, 3)}, [name])

    assert shapes(5) == {"a'b\n": (10, 3)}


@pytest.mark.parametrize("name", ["batch size", "{{ 7 * 7 }}", "n + -1", "(n + 1", "-n", "3"])
def test_a_name_is_written_as_it_is(name: str) -> None:
    assert str(symbol(name)) == name
    assert str(N * 0 + symbol(name)) == name


def test_a_name_of_words_is_set_apart_in_expressions() -> None:
    assert str(symbol("batch size") * 2 + N) == "N + 2*(batch size)"


def test_deep_expressions_are_cheap() -> None:
    size: dims.Size = N
    for step in itertools.count(1):
        size = dims.minimum(size, size - step + T)
        if step == 60:
            break

    assert len(str(size)) < 200
    assert value(size, N=100, T=5) == 100 + sum(min(0, 5 - step) for step in range(1, 61))


def test_whole_floats_are_sizes_and_other_floats_are_refused() -> None:
    assert 2.0 * N + 1.0 == 2 * N + 1
    assert dims.true_quotient(6 * N, 3.0) == 2 * N
    assert dims.minimum(N, N + 2.0) == N
    for operation in (operator.add, operator.mul, dims.minimum, dims.equal, dims.true_quotient):
        with pytest.raises(TypeError):
            operation(N, 0.5)


def test_numpy_integers_become_ints() -> None:
    assert type((N * np.int64(3)).terms[next(iter(N.terms))]) is int


def test_floats_are_compared_as_numbers() -> None:
    assert [dims.less(0.25, 0.5), dims.less(0.5, 0.25), dims.equal(0.25, 0.5)] == [1, 0, 0]
    assert [dims.maximum(-1.5, 0), dims.minimum(0.25, 0.5)] == [0, 0.25]
