"""Providers with options of the runtime."""

from __future__ import annotations

import pytest

from bench.api import placed
from bench.api.errors import InputError
from bench.plugins import catalog


def test_a_set_of_options_has_one_name() -> None:
    assert placed.name_of("cpu", ()) == "cpu"
    assert placed.name_of("cpu", ("b", "a")) == placed.name_of("cpu+b", ("a", "b")) == "cpu+a+b"
    assert placed.split("cpu-bf16+a+b") == ("cpu-bf16", ("a", "b"))
    assert placed.split("cuda") == ("cuda", ())


@pytest.mark.parametrize(
    ("provider", "expected"), [("cpu", True), ("cpu-bf16+a", True), ("cuda", False), ("openvino-gpu+cpu", False)]
)
def test_options_do_not_tell_the_device(provider: str, expected: bool) -> None:
    assert placed.is_on_cpu(provider) is expected


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("cpu+no_arena+flush_denormals", r"options stand once and in order: cpu\+flush_denormals\+no_arena, not"),
        ("cpu+no_arena+no_arena", "options stand once and in order"),
        ("cpu+no_area", "onnxruntime has no option 'no_area'; did you mean 'no_arena'"),
        ("gpu+no_arena", "onnxruntime has no provider 'gpu' here"),
    ],
)
def test_a_runtime_names_the_options_it_has(provider: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        catalog.runtime("onnxruntime").check_provider(provider)


def test_known_options_are_accepted() -> None:
    catalog.runtime("onnxruntime").check_provider("cpu+flush_denormals+no_arena")
