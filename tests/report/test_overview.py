"""The figure of the decisions: which deployments are in it, how each is marked, and its two files."""

from __future__ import annotations

from pathlib import Path

from bench.report import words
from bench.report.figures import overview
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

    assert [path.name for path in paths] == ["overview-light.svg", "overview-dark.svg"]
    light, dark = (path.read_text(encoding="utf-8") for path in paths)
    for text, theme in ((light, "light"), (dark, "dark")):
        colours = overview.THEMES[theme]
        assert all(colour.lower() in text for colour in (colours.shipped, colours.baseline, colours.faint))
    assert "<text" not in light, "the reader's machine need not have the font"
    overview.draw(found, tmp_path / "again")
    assert (tmp_path / "again" / "overview-light.svg").read_text(encoding="utf-8") == light


def test_nothing_is_drawn_without_an_answer(tmp_path: Path) -> None:
    assert overview.draw([answer(cell("broken", 0.5, fidelity="broken"))], tmp_path / "new") == []
    assert not (tmp_path / "new").exists()
