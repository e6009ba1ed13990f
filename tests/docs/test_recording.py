"""The recording in the README: what the script makes of a terminal's output, and that the pictures show the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bench.api.loading import load_module

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
THEMES = ("light", "dark")
NAMESPACE = "http://www.w3.org/2000/svg"
LIVE = (
    "\x1b[?25l\r\x1b[2K\x1b[1m0:01 preparing 1 of 2 cells\x1b[0m"
    "\r\x1b[2Kmodel: 3 inputs are made up\r\n\x1b[1m0:02 measuring\x1b[0m\r\n\x1b[1mtwo\x1b[0m"
    "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1m0:03 measuring\x1b[0m\r\n\r\x1b[1A\x1b[2K\x1b[?25h"
    "cell   ratio\r\n\x1b[32mone     0.50\x1b[0m\r\nnext: bench pick model\r\n"
)
"""A line of progress that is redrawn, once two lines high, with a message above it; and then what stays."""


@pytest.fixture(scope="module")
def recording() -> Any:
    return load_module(PICTURES / "recording.py")


def lines_of(picture: str) -> list[str]:
    """The lines on the terminal in a picture, without the title."""
    rows: dict[float, str] = defaultdict(str)
    (matrix,) = (
        group for group in ET.fromstring(picture).iter(f"{{{NAMESPACE}}}g") if "matrix" in group.get("class", "")
    )
    for text in matrix.iter(f"{{{NAMESPACE}}}text"):
        line, at = rows[float(text.get("y", ""))], round(float(text.get("x", "")) / 12.2)
        rows[float(text.get("y", ""))] = line.ljust(at) + (text.text or "").replace("\N{NO-BREAK SPACE}", " ")
    return [rows[y].rstrip() for y in sorted(rows)]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours such as `#0072b2`, from 1 to 21.

    Source: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
    """

    def luminance(colour: str) -> float:
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_what_stands_on_the_screen_in_the_end(recording: Any) -> None:
    assert recording.final_screen(LIVE).splitlines() == [
        "model: 3 inputs are made up",
        "cell   ratio",
        "\x1b[32mone     0.50\x1b[0m",
        "next: bench pick model",
    ]


@pytest.mark.parametrize("output", ["one\rtwo", "one\x1b[5Gtwo", "one\x1b]0;title\x07"])
def test_what_the_screen_would_not_show_as_it_is_is_refused(output: str, recording: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown code|is written over"):
        recording.final_screen(output)


@pytest.mark.parametrize("theme", THEMES)
def test_picture_of_canned_lines(theme: str, recording: Any) -> None:
    whole, long = "x" * 80, "".join(chr(ord("a") + at % 26) for at in range(100))
    lines = ["$ bench <&>", "\x1b[32mfaster\x1b[0m    0.50 µs", "", whole, long]
    picture = recording.drawn("\n".join(lines), theme, title="a title")
    assert lines_of(picture) == ["$ bench <&>", "faster    0.50 µs", "", whole, long[:80], long[80:]]
    root = ET.fromstring(picture)
    width = float(root.get("viewBox", "").split()[2])
    assert 80 * 12.2 < width < 82 * 12.2 + 20
    texts = [(text.text or "").replace("\N{NO-BREAK SPACE}", " ") for text in root.iter(f"{{{NAMESPACE}}}text")]
    assert texts[0] == "a title"
    green = recording.THEMES[theme].ansi_colors[2]
    assert f"fill: #{green[0]:02x}{green[1]:02x}{green[2]:02x}" in picture


def test_command_has_a_terminal_of_its_width(recording: Any, tmp_path: Path) -> None:
    code = (
        "import os, sys; print(os.get_terminal_size().columns, os.getcwd()); print(sys.stdin.isatty(), file=sys.stderr)"
    )
    output = recording.recorded([sys.executable, "-c", code], tmp_path, dict(os.environ), columns=80)
    assert output == f"80 {tmp_path}\r\nTrue\r\n"


def test_command_that_fails_is_no_recording(recording: Any, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        recording.recorded([sys.executable, "-c", "print('why'); exit(3)"], tmp_path, dict(os.environ))
    assert (raised.value.returncode, raised.value.output) == (3, "why\r\n")


def test_readme_shows_the_pictures_below_their_command(recording: Any) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, after = readme.partition("docs/pictures/recording-dark.svg")
    assert f"{recording.COMMAND}\n" in before.rpartition("## Your own model")[2]
    assert "docs/pictures/recording-light.svg" in after.partition("\n## ")[0]


def test_both_pictures_show_the_same_run_of_the_command(recording: Any) -> None:
    light, dark = (lines_of((PICTURES / f"recording-{theme}.svg").read_text(encoding="utf-8")) for theme in THEMES)
    assert light == dark
    assert light[0] == f"$ {recording.COMMAND}"
    assert light[-1].startswith("next: bench pick model") or light[-1].startswith("bench: next: bench pick model")
    assert max(map(len, light)) <= recording.COLUMNS
    assert not any("busy" in line for line in light), "it is recorded where nothing else runs"


@pytest.mark.parametrize("theme", THEMES)
def test_picture_loads_nothing_and_names_no_place(theme: str) -> None:
    picture = (PICTURES / f"recording-{theme}.svg").read_text(encoding="utf-8")
    assert re.findall(r"\w+://[^\"'\s)]*", picture) == [NAMESPACE]
    assert re.findall(r"url\((?!#)", picture) == []
    assert "@import" not in picture
    assert re.findall(r"/(?:tmp|home|root|work|Users|var)\b[^<\"]*", picture) == []


@pytest.mark.parametrize("theme", THEMES)
def test_colours_are_legible(theme: str, recording: Any) -> None:
    picture = (PICTURES / f"recording-{theme}.svg").read_text(encoding="utf-8")
    colours = set(re.findall(r"-r\d+ \{ fill: (#[0-9a-f]{6})", picture))
    assert len(colours) > 2
    background = recording.THEMES[theme].background_color.hex
    assert {
        colour: round(contrast(colour, background), 1) for colour in colours if contrast(colour, background) < 4.5
    } == {}
