"""Names of microarchitectures: those of the machines whose results are published, and none where none is known."""

from __future__ import annotations

from typing import Any

import pytest

from bench.measure import processors


def facts(*family: str, **more: Any) -> dict[str, Any]:
    return {"processor": "AMD EPYC", "family": list(family), "num_cores": 2, **more}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (("23", "1", "2"), "Zen 1"),
        (("23", "49", "0"), "Zen 2"),
        (("25", "1", "1"), "Zen 3"),
        (("25", "17", "1"), "Zen 4"),
        (("25", "97", "2"), "Zen 4"),
        (("26", "2", "1"), "Zen 5"),
        (("26", "68", "0"), "Zen 5"),
        (("26", "255", "0"), None),
        (("6", "85", "4"), "Skylake"),
        (("6", "85", "7"), "Cascade Lake"),
        (("6", "85", "11"), "Cooper Lake"),
        (("6", "106", "6"), "Ice Lake"),
        (("6", "143", "8"), "Sapphire Rapids"),
        (("6", "173", "1"), "Granite Rapids"),
        (("6", "207", "2"), "Emerald Rapids"),
        (("6", "167", "1"), None),  # a machine with AMX tells this number, which no processor with AMX has
        (("15", "143", "8"), None),
        (("", "", ""), None),
    ],
)
def test_x86(family: tuple[str, ...], name: str | None) -> None:
    assert processors.microarchitecture(facts(*family)) == name


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        (["0x41", "0xd0c"], "Neoverse N1"),
        (["0x41", "0xd4f"], "Neoverse V2"),
        (["0xc0", "0xac3"], "Ampere-1"),
        (["0x41", "0x123"], None),
    ],
)
def test_arm(arm: list[str], name: str | None) -> None:
    assert processors.microarchitecture(facts("", "", "", arm=arm)) == name


def test_a_machine_in_words() -> None:
    assert processors.description(facts("26", "2", "1")) == "AMD EPYC, Zen 5 (family 26, model 2), 2 cores"
    xeon = facts("6", "207", "2", processor="Intel(R) Xeon(R) Processor", num_cores=16, gpus=["NVIDIA H200"])
    described = "Intel Xeon Processor, Emerald Rapids (family 6, model 207), 16 cores, NVIDIA H200"
    assert processors.description(xeon) == described
    assert processors.description(facts("6", "167", "1")) == "AMD EPYC (family 6, model 167), 2 cores"
    arm = facts("", "", "", arm=["0x41", "0xd4f"], processor="aarch64", num_cores=1)
    assert processors.description(arm) == "aarch64, Neoverse V2 (implementer 0x41, part 0xd4f), 1 core"


def test_facts_that_are_missing_or_damaged_are_left_out() -> None:
    assert processors.description({}) == "an unknown processor"
    for family in ("26", ["26"], ["26", "two", "1"], [[], {}, None], None):
        assert processors.description(facts() | {"family": family}) == "AMD EPYC, 2 cores"
    assert processors.description(facts("26", "2", "1", gpus="H100")) == "AMD EPYC, Zen 5 (family 26, model 2), 2 cores"
