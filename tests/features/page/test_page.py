"""The page: it has all figures, escapes all names, and requests nothing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.loss_units import AllowedLoss
from bench.decisions.best import best
from bench.features.page import details, scatters, tracks
from bench.features.page.axes import Axis, axis_of
from bench.features.page.document import Shown, embedded, page
from bench.measure.roofline import Peaks
from bench.records import assemble, ranking
from bench.records.launches import MOST_SAMPLES
from bench.records.lines import Cost
from bench.records.measurements import Measurements
from bench.records.rows import Row
from support import page_records as made
from support import records as made_by_hand

records, text = made.records, made.text
BASELINE, HALVE, PRUNE, BROKEN = made.BASELINE, made.HALVE, made.PRUNE, made.BROKEN
HOSTILE, REASON = made.HOSTILE, made.REASON


class Reader(html.parser.HTMLParser):
    """Elements with their attributes, and the text in each kind of element."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "wbr"):
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """Attributes of the elements of one kind that have these."""
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]


@pytest.fixture(scope="module")
def source() -> str:
    return text()


@pytest.fixture(scope="module")
def reader(source: str) -> Reader:
    return Reader(source)


@pytest.fixture(scope="module")
def data(reader: Reader) -> list[dict[str, Any]]:
    return json.loads(reader.texts["script"][0])


def test_every_row_stands_in_a_table_and_in_the_data(reader: Reader, data: list[dict[str, Any]]) -> None:
    rows = [found for found in reader.all("tr") if "data-row" in found]

    assert sorted(str(row["data-row"]) for row in rows) == ["0", "1", "2", "3", "4"]
    assert {found["cell"] for found in data} == set(records())
    for row in rows:
        assert data[int(str(row["data-row"]))]["cell"].lower() in str(row["data-words"])


def test_names_and_reasons_are_text(source: str, reader: Reader, data: list[dict[str, Any]]) -> None:
    assert [found.get("type") for found in reader.all("script")] == ["application/json", None]
    assert reader.all("img") == []
    assert not any(name.startswith("on") for _, found in reader.elements for name in found)
    assert reader.open == []
    assert HOSTILE in reader.texts["h2"]
    assert f"{HOSTILE}: nothing to ship yet" in reader.texts["h2"]
    assert f"bench show '{HOSTILE}'" in reader.texts["code"]
    assert sum(found == REASON for found in reader.texts["p"]) == 2  # of the broken cell and of the one that failed
    assert HOSTILE not in source
    assert HOSTILE in {found["cell"].split("/null/")[0] for found in data}


def test_nothing_is_fetched_and_no_other_script_can_run(source: str, reader: Reader) -> None:
    urls = [(tag, value) for tag, found in reader.elements for name, value in found.items() if name in ("src", "href")]
    policy = str(reader.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"])
    digest = base64.b64encode(hashlib.sha256(reader.texts["script"][1].encode()).digest()).decode()

    assert {tag for tag, value in urls if not str(value).startswith("#")} == {"link"}
    assert [found["href"] for found in reader.all("link")] == ["data:,"]
    assert "url(" not in source
    assert "@import" not in source
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy


def test_the_same_results_make_the_same_page(source: str) -> None:
    assert text() == source


def test_what_to_ship_keeps_its_metric(reader: Reader) -> None:
    best = reader.texts["section"][1]

    assert "null/native/halve/null/cpu" in best  # broken is faster, and never ranked
    assert "2.00\N{MULTIPLICATION SIGN} as fast" in best
    assert "broken" not in best
    assert "0.745 accuracy 0.67 % worse at most 0.93 % worse" in " ".join(best.split())


def test_a_card_stands_before_all_counts_and_intervals(source: str, reader: Reader) -> None:
    hostile, toy = (" ".join(text.split()) for text in reader.texts["article"])

    assert toy.startswith(
        "toy, batch 2: ship null, 1 thread 0.707 ms, 2.0× as fast as the default of null. "  # noqa: RUF001
        "Accuracy 74.5 % (0.67 % worse, at most 0.93 % worse). 31 B file, 400 B peak memory. "
        "winner No other within the limits is faster (95 %)."
    )
    assert toy.endswith("null/native/halve/null/cpu bench pick toyCopy")
    assert hostile.startswith(f"{HOSTILE}: nothing to ship yet none No cell was timed and is right.")
    assert source.rindex("</article>") < source.index('class="counts"') < source.index(" [")


def test_marks_of_a_card_open_the_details_of_their_cells(reader: Reader, data: list[dict[str, Any]]) -> None:
    marks = [found for found in reader.all("g") if "data-open" in found]
    circles = reader.all("circle")

    cells = [data[int(str(found["data-open"]))]["cell"] for found in marks]
    assert cells == [BROKEN, BASELINE, PRUNE, HALVE], "the pick is drawn last"
    looks = [str(circle["class"]).split() for circle in circles if "class" in circle]
    assert looks == [["hollow"], ["hollow"], [], ["pick"]], "of the baseline it is not known what is lost"


def test_a_column_without_a_value_is_left_out(reader: Reader) -> None:
    """No cell was related to the machine's peak, and the task with the hostile name has a failed row alone."""
    keys = [str(found["data-key"]) for found in reader.all("th") if "data-key" in found]
    hostile, toy = keys[: keys.index("#", 1)], keys[keys.index("#", 1) :]

    assert {"cell", "latency_p50_ns", "ratio", "verdict", "metric", "metric_loss_high"} < {*toy}
    assert not {"gmacs_per_s", "peak_share"} & {*keys}
    assert hostile == ["#", "cell", "verdict"]


def test_a_framework_without_a_default_to_compare_with_has_no_column(source: str) -> None:
    assert "Over null's default" in source
    (found,) = best(Measurements(records()), toy_rows(), max_metric_loss=AllowedLoss())
    one = dataclasses.replace(found, over={"null": None})
    html = page([Shown(records=records(), rows=toy_rows(), best=[one])], margin=0.02)
    assert "null/native/halve/null/cpu" in html
    assert "Over null's default" not in html


def test_no_loss_has_no_bound_to_tell() -> None:
    (found,) = best(Measurements(records()), toy_rows(), max_metric_loss=AllowedLoss())
    one = dataclasses.replace(found, row=dataclasses.replace(found.row, metric_loss=0.0, metric_loss_high=0.0))
    html = page([Shown(records=records(), rows=toy_rows(), best=[one])], margin=0.02)
    assert "0.745 <small>accuracy</small></td>" in html


def test_long_launches_are_thinned_to_quantiles(data: list[dict[str, Any]]) -> None:
    (prune,) = [found for found in data if found["cell"] == PRUNE]
    first, second = prune["launches"]

    assert first["num_samples"] == made.NUM_SAMPLES
    assert len(first["samples_us"]) == MOST_SAMPLES
    assert first["samples_us"] == sorted(first["samples_us"])
    assert (first["samples_us"][0], first["samples_us"][-1]) == pytest.approx((1500.0, 1504.0), abs=0.1)
    assert first["median_us"] == pytest.approx(1502.0, abs=0.1)
    assert second["num_samples"] == len(second["samples_us"]) == 10


def test_details_say_how_a_cell_was_made() -> None:
    found = made.made.with_artifact(
        made.made.record(BASELINE, quality=made.made.QUALITY),
        info={"opset": 20, "passes": ["a", "b"], "fused": {"Gelu": 2}, "versions": {"maker": "1.2"}},
        operators={"Add": 1, "MatMul": 12},
    )
    origin = "hf:org/net@0123:model.onnx"
    found = dataclasses.replace(found, header=replace(found.header, versions={"runner": "3"}, origin=origin))
    (row,) = assemble.rows({BASELINE: found})
    sections = {section["title"]: section["lines"] for section in details.details(row, found, ())["sections"]}

    made_of = dict(sections["How it was made"])
    assert (made_of["opset"], made_of["passes"], made_of["fused.Gelu"]) == ("20", "a, b", "2")
    assert made_of["size"] == "31 B"
    assert made_of["model"] == origin
    assert sections["Packages that made it"] == [["maker", "1.2"]]
    assert sections["Packages that ran it"] == [["runner", "3"]]
    assert sections["Operators"] == [["MatMul", "12"], ["Add", "1"]]
    assert dict(sections["Figures"])["loss"] == "0.25"


def test_embedded_json_cannot_end_its_element() -> None:
    value = ["</script><!--", "&", "\u2028", "a\\u003c"]

    found = embedded(value)

    assert not set("<>&\u2028") & set(found)
    assert json.loads(found) == ["</script><!--", "&", "\\u2028", "a\\u003c"]


def shown(rows: list[Row]) -> ranking.Group:
    (group,) = ranking.select(rows).groups
    return group


def toy_rows() -> list[Row]:
    found = records()
    return [row for row in assemble.rows(found) if row.task == "toy"]


def test_memory_grows_by_phase() -> None:
    rows, found = toy_rows(), records()
    group = shown(rows)
    launches = {row.cell: found[row.cell].launches for row in rows}

    lines = tracks.lines(group, rows, launches)

    # imports leave 100 bytes, loading peaks at 150, the first inference at 400; steady ones at 200 add nothing
    whole = 400 * 1.04
    expected = [("imports", 0, 100), ("load", 100, 50), ("first_inference", 150, 250)]
    for line in lines.lines:
        assert [kind for kind, *_ in line.bars[1].segments] == [kind for kind, *_ in expected]
        for (_, start, length), (_, low, more) in zip(line.bars[1].segments, expected, strict=True):
            assert (start, length) == pytest.approx((100 * low / whole, 100 * more / whole), abs=0.02)
    assert [line.row.cell for line in lines.lines] == [HALVE, BASELINE, PRUNE, BROKEN]
    assert lines.baseline == lines.lines[1].bars[0].point[1]  # type: ignore[index]


def test_the_front_is_what_no_cell_beats_in_both() -> None:
    rows = toy_rows()

    accuracy, size, _ = scatters.against_latency(shown(rows), rows, higher_is_better=True)

    assert list(accuracy.front) == [HALVE, BASELINE, PRUNE]
    assert list(size.front) == [HALVE]  # all are as large
    labels = {mark.row.cell: mark.label for mark in accuracy.marks}
    assert labels == {HALVE: "1", BASELINE: "2", PRUNE: "3", BROKEN: ""}
    by_cell = {mark.row.cell: mark for mark in accuracy.marks}
    assert by_cell[HALVE].x < by_cell[BASELINE].x < by_cell[PRUNE].x
    assert by_cell[HALVE].y > by_cell[BASELINE].y > by_cell[PRUNE].y  # from the top
    assert accuracy.steps[0][:2] == (by_cell[HALVE].x, by_cell[HALVE].y)
    assert accuracy.steps[-1][2] == 100.0


def test_marks_of_broken_cells_are_hollow(reader: Reader, data: list[dict[str, Any]]) -> None:
    marks = [
        (data[int(str(found["data-row"]))]["cell"], use)
        for (tag, found), (inner, _), (_, use) in zip(
            reader.elements, reader.elements[1:], reader.elements[2:], strict=False
        )
        if (tag, inner) == ("g", "title") and "data-row" in found
    ]

    assert {cell for cell, _ in marks} == {HALVE, BASELINE, PRUNE, BROKEN}
    assert {cell for cell, use in marks if "hollow" in str(use["class"])} == {BROKEN}


def test_the_roofline_is_drawn_where_it_is_known() -> None:
    rows = toy_rows()
    cost: dict[str, Any] = {"macs_per_byte": 4.0, "gmacs_per_s": 10.0, "peak_share": 0.25, "bound": "compute"}
    group = shown([Row(**{**dataclasses.asdict(row), **cost}) for row in rows])
    peaks = Peaks(macs_per_s={"float32": 40e9, "int8": 90e9}, libraries={}, bytes_per_s=20e9)

    assert scatters.roofline(shown(rows), peaks) is None
    assert scatters.roofline(group, None) is None
    found = scatters.roofline(group, peaks)

    assert found is not None
    assert len(found.marks) == 4
    assert [name for _, name in found.roofs] == ["memory, 20 GB/s", "float32, 40 GMAC/s"]  # nothing ran in int8
    (*_, ridge, top), (start, level, end, same) = (segment for segment, _ in found.roofs)
    assert (ridge, top) == (start, level)
    assert (end, same) == (100.0, level)
    assert ridge == found.x.at(2.0)


def test_a_logarithmic_axis_of_a_narrow_range_has_ticks() -> None:
    axis = Axis(title="", low=1.1, high=1.9, is_log=True)
    assert [text for _, text in axis.ticks] == ["1.2", "1.4", "1.6", "1.8"]
    assert axis.ticks[0][0] == axis.at(1.2)


def test_axes() -> None:
    linear = Axis(title="", low=0.0, high=50e6, factor=1e6)
    log = Axis(title="", low=2.0, high=2000.0, is_log=True)

    assert (linear.at(25e6), linear.at(99e6), linear.at(-1.0)) == (50.0, 100.0, 0.0)
    assert linear.ticks == [(20.0 * step, str(10 * step)) for step in range(6)]
    assert log.at(2000.0**0.5 * 2.0**0.5) == pytest.approx(50.0, abs=0.01)
    assert [name for _, name in log.ticks] == ["10", "100", "1000"]


@pytest.mark.parametrize(("most", "is_log"), [(19e6, False), (21e6, True)])
def test_a_wide_range_gets_a_logarithmic_axis(most: float, is_log: bool) -> None:
    values, unit = [1e6, 0.0, most], (1e6, "ms")

    axis = axis_of("time", values, unit)

    assert axis.is_log is is_log
    assert axis.title == ("time (ms, log scale)" if is_log else "time (ms)")
    assert axis_of("time", values, unit, from_zero=True).low == 0.0


def test_the_ticks_of_a_narrow_track_do_not_touch() -> None:
    unit = (1e6, "MB")
    assert [text for _, text in axis_of("memory", [842e6], unit, from_zero=True).ticks] == ["0", "500"]
    assert [text for _, text in axis_of("memory", [842e6], unit).ticks] == ["0", "200", "400", "600", "800"]


def test_axis_of_values_below_zero_reaches_down_to_them() -> None:
    axis = axis_of("memory", [-1000.0, 5.0], (1.0, "B"))
    assert not axis.is_log
    assert 0.0 < axis.at(-1000.0) < axis.at(0.0) < 100.0
    assert axis.ticks
    assert axis_of("memory", [-2.0, -1.0], (1.0, "B")).high == 0.0


def test_whiskers_are_of_the_comparison_and_the_caption_says_so(reader: Reader) -> None:
    """The latency's own interval, from half to twice of it, is that of the machine's state, which all cells share."""
    rows = [
        dataclasses.replace(row, latency_p50_low_ns=row.latency_p50_ns / 2, latency_p50_high_ns=2 * row.latency_p50_ns)
        for row in toy_rows()
        if row.latency_p50_ns
    ]
    found = tracks.lines(shown(rows), rows, {row.cell: records()[row.cell].launches for row in rows})
    axis, by_cell = found.axes[0], {line.row.cell: line for line in found.lines}

    for cell in (HALVE, PRUNE):
        row = by_cell[cell].row
        assert row.latency_p50_ns
        assert row.ratio
        assert row.ratio_low
        assert row.ratio_high
        scale = row.latency_p50_ns / row.ratio
        ends = (axis.at(scale * row.ratio_low), axis.at(row.latency_p50_ns), axis.at(scale * row.ratio_high))
        assert by_cell[cell].bars[0].point == ends
        assert ends[0] < ends[1] < ends[2]
    low, value, high = by_cell[BASELINE].bars[0].point or (0.0, 0.0, 0.0)
    assert low == value == high
    assert any("95\N{NO-BREAK SPACE}% interval of the ratio to the baseline" in text for text in reader.texts["p"])


def test_no_line_ends_between_a_number_and_its_unit(source: str, reader: Reader) -> None:
    broken = re.findall(r"\d (?:%|ms|µs|ns|kB|MB|GB|GiB|dB)\b|\d %", source)
    texts = " ".join(reader.texts["section"])

    assert broken == []
    assert re.search(r"\d\N{NO-BREAK SPACE}ms", texts)
    assert "95\N{NO-BREAK SPACE}% confidence" in texts


def test_results_without_anything_timed_have_a_page() -> None:
    (hostile,) = [path for path in records() if HOSTILE in path]
    found = {hostile: records()[hostile]}

    assert "No cell that was timed keeps its metric for sure." in page(
        [Shown(records=found, rows=assemble.rows(found))], margin=0.02
    )


def test_the_page_says_how_noisy_the_machine_was_and_why_a_row_is_above_the_peak() -> None:
    found = records()
    found[HALVE] = made_by_hand.replaced_quality(
        found[HALVE], cost=Cost(macs=10**9, weight_bytes=1), io_bytes=1, precision="float32"
    )
    peaks = {1: Peaks(macs_per_s={"float32": 1e9}, libraries={"float32": "a"}, bytes_per_s=1e9)}
    rows = assemble.rows(found, peaks=peaks)
    said = page([Shown(records=found, rows=rows, peaks=peaks, noise="The machine was noisy: so much.")], margin=0.02)
    assert "The machine was noisy: so much." in said
    assert "1 row is above the peak in float32 at 1 thread" in said
    assert "raises it if it was" in said
    assert "above the peak" not in text()
