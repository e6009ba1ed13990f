"""The figure of the decisions: which deployments are in it, how each is marked, and its two files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from bench.report import words
from bench.report.figures import overview
from support import page_records
from support.answers import answer, baseline, cell


def test_a_bar_for_the_pick_for_the_baseline_and_for_what_is_faster_but_loses_more() -> None:
    lossy = cell("lossy", 0.2, noise=0.001, metric_loss=0.3)
    found = answer(baseline(), cell("fast", 0.5, noise=0.001), cell("slower", 0.7, noise=0.001), lossy)

    bars = overview.bars_of(found)

    names = [bar.row.variant for bar in bars]
    assert names == ["lossy", "fast", "raw"], "of one runtime the fastest alone, and the baseline last"
    assert [bar.is_shipped for bar in bars] == [False, True, False]
    assert [bar.is_lossy for bar in bars] == [True, False, False]


def test_what_is_slower_than_the_baseline_has_no_bar_and_a_baseline_that_is_shipped_has_one() -> None:
    bars = overview.bars_of(answer(baseline(), cell("slow", 1.5, noise=0.001)))

    assert [(bar.row.variant, bar.is_shipped) for bar in bars] == [("raw", True)]


def test_a_runtime_is_named_in_words_with_its_precision() -> None:
    (bar, *_) = overview.bars_of(answer(baseline(), cell("fast", 0.5, noise=0.001, precision="int8")))

    assert words.in_words(bar.row) == "null, int8"
    assert words.title_of("onnxruntime_bytes") == "ONNX Runtime"
    assert words.title_of("gone") == "gone"


def test_none_is_to_be_shipped_where_the_data_do_not_decide() -> None:
    found = answer(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.5, noise=-0.1))

    assert found.choice.shipped is None
    assert [bar.is_shipped for bar in overview.bars_of(found)] == [False, False]


def test_it_is_drawn_for_a_light_and_for_a_dark_page_the_same_each_time(tmp_path: Path) -> None:
    found = [answer(baseline(), cell("fast", 0.5, noise=0.001))]

    paths = overview.draw(found, tmp_path / "new")

    drawn = {path.stem.removeprefix("overview-"): path.read_text(encoding="utf-8") for path in paths}
    assert list(drawn) == ["light", "narrow-light", "dark", "narrow-dark"]
    light = drawn["light"]
    for name, text in drawn.items():
        theme = name.removeprefix("narrow-")
        colours = overview.THEMES[theme]
        assert all(colour.lower() in text for colour in (colours.shipped, colours.baseline, colours.faint))
    assert "<text" not in light, "the reader's machine need not have the font"
    overview.draw(found, tmp_path / "again")
    assert (tmp_path / "again" / "overview-light.svg").read_text(encoding="utf-8") == light


def test_the_narrow_figure_has_one_panel_below_the_other(tmp_path: Path) -> None:
    found = answer(baseline(), cell("fast", 0.5, noise=0.001))

    light, narrow, *_ = overview.draw([found, found], tmp_path)

    wide, high = size(light)
    less_wide, higher = size(narrow)
    assert less_wide < 0.6 * wide
    assert higher > 1.5 * high


def size(path: Path) -> tuple[float, float]:
    """Width and height of a picture, in points."""
    found = re.search(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', path.read_text(encoding="utf-8"))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def test_it_says_how_sure_the_speed_and_the_metric_are() -> None:
    plain = answer(baseline(), cell("fast", 0.5, noise=0.001))
    lost = {"metrics": {"accuracy": 0.745}, "metric_loss": 1 / 150, "lost": page_records.LOST}
    lossy = answer(baseline(), cell("fast", 0.5, noise=0.001, **lost))
    undecided = answer(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.5, noise=-0.1))

    assert overview.sure(plain) == "No other within the limits is faster (95\N{NO-BREAK SPACE}%)"
    assert (
        overview.sure(lossy)
        == "No other within the limits is faster, Accuracy at most 0.93 % worse (95\N{NO-BREAK SPACE}%)"
    )
    assert overview.sure(undecided).startswith("Not decided")


def test_outputs_without_labels_are_off_and_a_metric_is_worse() -> None:
    (bar, *_) = overview.bars_of(answer(baseline(), cell("fast", 0.5, noise=0.001)))
    row = dataclasses.replace(bar.row, metric_name="cer", metric_loss=0.0063)

    assert overview.lost(row) == "0.63 % worse"
    assert overview.lost(dataclasses.replace(row, metric_name="snr_db")) == "0.63 % off"
    assert overview.lost(dataclasses.replace(row, metric_loss=0.0)) == "same"
    assert overview.lost(dataclasses.replace(row, metric_loss=None)) == "\N{EN DASH}"


def test_nothing_is_drawn_without_an_answer(tmp_path: Path) -> None:
    assert overview.draw([answer(cell("broken", 0.5, fidelity="broken"))], tmp_path / "new") == []
    assert not (tmp_path / "new").exists()
