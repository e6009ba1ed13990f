"""Tables of rows made by hand: order, units, escapes, and the sign for a figure that was not measured."""

import csv
import dataclasses
import io
import json
import re

import pytest
from rich.console import Console

from bench.api.errors import InputError
from bench.records.ranking import select
from bench.records.rows import COLUMNS
from bench.report import tables
from bench.report.columns import scale
from bench.report.tables import LEGEND, TerminalTable, legend_of, render
from bench.report.writing import DASH, share
from support.rows import BASELINE, FAST, make, timed

SLOW = timed("crnn/tf/native/raw/tensorflow/cpu/b1t2", 51.0, 1.5, "slower", num_launches=5)
BROKEN = timed(
    "crnn/torch/torch_onnx/int8_dynamic/onnxruntime/cpu/b1t2",
    1.7,
    0.05,
    "faster",
    fidelity="broken",
    reason="accuracy fell to 0.1",
)
TWIN = make("crnn/torch/torch_onnx/onnxsim/onnxruntime/cpu/b1t2", same_as=FAST.cell, fidelity="exact")
LOST_TWIN = make("crnn/torch/torch_onnx/dedup/onnxruntime/cpu/b1t2", same_as="crnn/a/b/c/d/e/b1t2")
UNTIMED = make("crnn/torch/torch_onnx/raw/null/cpu/b1t2")
FAILED = make("crnn/torch/torch_onnx/x/onnxruntime/cpu/b1t2", status="failed", reason="died: a|b & 5% of_it\\n")
SKIPPED = make("crnn/torch/torch_onnx/raw/onnxruntime/cuda/b1t2", status="skipped", reason="no CUDA")
EVERY = [SKIPPED, FAILED, TWIN, LOST_TWIN, BROKEN, UNTIMED, SLOW, BASELINE, FAST]


def names(rows) -> list[str]:
    return [row.cell for row in rows]


def body(text: str) -> list[list[str]]:
    """Cells of the lines of a Markdown table under its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[2:]]


def test_order_is_ranked_then_untimed_then_broken_then_failed_then_skipped_and_a_twin_is_under_its_twin():
    expected = [FAST, TWIN, BASELINE, SLOW, UNTIMED, BROKEN, LOST_TWIN, FAILED, SKIPPED]
    assert names(select(EVERY).rows) == names(expected)
    assert names(select(EVERY[::-1]).rows) == names(expected)


def test_only_ranked_rows_are_numbered():
    (group,) = select(EVERY).groups
    assert group.numbers == {FAST.cell: 1, BASELINE.cell: 2, SLOW.cell: 3}


@pytest.mark.parametrize("sort", ["latency_p50_ns", "ratio", "-ratio", "size_bytes", "-size_bytes", "cell", "-cell"])
def test_a_broken_row_is_under_every_ranked_one_however_sorted(sort):
    order = names(select([BROKEN, SLOW, FAST, BASELINE], sort=sort).rows)
    assert order[-1] == BROKEN.cell


def test_sort_is_smallest_first_largest_first_after_a_dash_and_missing_last():
    small, large = (dataclasses.replace(row, size_bytes=size) for row, size in ((SLOW, 1), (BASELINE, 2)))
    missing = dataclasses.replace(FAST, size_bytes=None)
    rows = [missing, large, small]
    assert names(select(rows, sort="size_bytes").rows) == names([small, large, missing])
    assert names(select(rows, sort="-size_bytes").rows) == names([large, small, missing])


def test_twins_of_one_row_keep_their_order_under_it():
    other = dataclasses.replace(TWIN, cell=TWIN.cell.replace("onnxsim", "zzz"))
    assert names(select([other, SLOW, TWIN, FAST]).rows) == names([FAST, TWIN, other, SLOW])


def test_over_two_baselines_latency_ranks_since_ratios_do_not_compare():
    other = timed("crnn/tf/native/raw/tensorflow/cpu/b1t2", 10.0, 1.0, None)
    assert names(select([BASELINE, FAST, other]).rows) == names([other, FAST, BASELINE])


def test_groups_are_in_the_order_of_task_batch_and_threads():
    def at(path):
        return make(f"{path.split()[0]}/torch/native/raw/pytorch/cpu/{path.split()[1]}")

    rows = [at("b b1t1"), at("a b8t1"), at("a b1t10"), at("a b1t2")]
    titles = [group.title for group in select(rows).groups]
    assert titles == ["a, batch 1, 2 threads", "a, batch 1, 10 threads", "a, batch 8, 1 thread", "b, batch 1, 1 thread"]


def test_json_has_every_key_and_null_for_what_was_not_measured():
    (record,) = json.loads(render([UNTIMED], format="json"))
    assert list(record) == list(COLUMNS)
    assert record["cell"] == UNTIMED.cell
    assert record["batch"] == 1
    measured = {"cell", "task", "source", "exporter", "variant", "runtime", "provider", "batch", "threads", "status"}
    assert {key for key, value in record.items() if value is not None} == measured | {"num_launches", "num_samples"}


def test_json_keeps_raw_units_and_has_no_nan():
    (record,) = json.loads(render([dataclasses.replace(FAST, metric=float("nan"))], format="json"))
    assert record["latency_p50_ns"] == 17_400_000.0
    assert record["size_bytes"] == 33_400_000
    assert record["metric"] is None


def test_csv_has_every_key_raw_units_blanks_and_quotes():
    reason = 'a "b", c\nd'
    row = dataclasses.replace(FAST, reason=reason)
    text = render([row], format="csv")
    (record,) = csv.DictReader(io.StringIO(text))
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert '"a ""b"", c' in text
    assert (record["reason"], record["size_bytes"], record["latency_p99_ns"]) == (reason, "33400000", "")
    assert record["latency_p50_ns"] == "17400000.0"


def test_no_rows_are_an_empty_list_a_head_and_a_sentence():
    assert render([], format="json") == "[]\n"
    assert render([], format="csv") == ",".join(COLUMNS) + "\n"
    assert {render([], format=name) for name in ("table", "md", "latex")} == {"No rows.\n"}


def test_columns_choose_and_order_the_keys():
    columns = ("size_bytes", "cell", "size_bytes")
    assert json.loads(render([FAST], format="json", columns=columns)) == [{"size_bytes": 33_400_000, "cell": FAST.cell}]
    assert render([FAST], format="csv", columns=columns) == f"size_bytes,cell\n33400000,{FAST.cell}\n"
    assert "| \\# | size (MB) | cell |\n" in render([FAST], format="md", columns=columns)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"format": "csv", "columns": ("cell", "latency_p5_ns")}, "no column named 'latency_p5_ns'; did you mean"),
        ({"format": "md", "sort": "-ratios"}, "no column named 'ratios'; did you mean 'ratio'?"),
        ({"format": "jsn"}, "no format named 'jsn'; did you mean 'json'?"),
        ({"format": "html5"}, "no format named 'html5'; there are: table, md, csv, json, latex"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(wanted, message):
    with pytest.raises(InputError) as caught:
        render([FAST], **wanted)
    assert str(caught.value).startswith(message)


def test_markdown_in_human_units():
    text = render([SLOW, BASELINE, FAST], format="md")
    head = next(line for line in text.splitlines() if line.startswith("| "))
    assert text.startswith("### crnn, batch 1, 2 threads\n")
    assert head == (
        "| \\# | cell | latency p50 (ms) [95 %] | ratio [95 %] | verdict | precision | memory (MB) | size (MB) "
        "| parameters | metric (accuracy) | max drop (%) | fidelity | notes |"
    )
    assert body(text) == [
        [
            *("1", "torch/torch\\_onnx/raw/onnxruntime/cpu", "17.40 [17.23, 17.57]", "0.512 [0.505, 0.519]", "faster"),
            *("int8", "123.5", "33.40", DASH, "0.9877", "0.446", "close", ""),
        ],
        [
            *("2", "torch/native/raw/pytorch/cpu", "34.00 [33.66, 34.34]", "1.000", "baseline"),
            *(DASH, DASH, DASH, DASH, DASH, DASH, "exact", ""),
        ],
        [
            *("3", "tf/native/raw/tensorflow/cpu", "51.00 [50.49, 51.51]", "1.500 [1.493, 1.507]", "slower"),
            *(DASH, DASH, DASH, DASH, DASH, DASH, "close", ""),
        ],
    ]


def test_the_caption_names_baseline_noise_floor_and_launches():
    caption = render([SLOW, BASELINE, FAST], format="md").strip().splitlines()[-1]
    assert caption == (
        "Baseline: torch/native/raw/pytorch/cpu. The baseline's second copy over its first, truly 1: 0.991 to 1.012. "
        "3 to 5 launches of each cell; brackets: 95 % interval of each row alone. "
        f"Max drop: the largest share of the metric that may be lost, with 95 % confidence. {LEGEND}"
    )


def test_the_caption_says_what_is_known_of_the_lost_metric():
    shown = [dataclasses.replace(FAST, metric_loss_high=None, metric_loss_note="fidelity alone judges it"), FAST]
    assert "No bound on the lost metric: fidelity alone judges it." in render(shown, format="md")
    assert "Max drop: the largest share of the metric that may be lost" in render([FAST], format="md")
    assert "lost metric" not in render([FAST], format="md")


def test_the_caption_says_what_is_not_known():
    alone = dataclasses.replace(SLOW, num_launches=1)
    assert "The baseline is not among these rows. No alarm is possible" in render([alone], format="md")
    text = render([dataclasses.replace(alone, ratio=None)], format="md")
    assert (
        "The baseline was not timed. The baseline's second copy over its first, truly 1: not measured. 1 launch of"
        in text
    )
    assert "Nothing was timed." in render([SKIPPED], format="md")


def test_the_caption_says_where_no_alarm_is_possible():
    few = [dataclasses.replace(row, aa_low=None, aa_high=None) for row in (BASELINE, FAST)]
    text = render(few, format="md")
    assert "No alarm is possible: fewer than three blocks held the baseline's second copy." in text
    assert "truly 1" not in text


def test_one_unit_for_a_column_and_for_the_groups_of_a_task():
    large = timed("crnn/torch/native/raw/pytorch/cpu/b8t2", 250.0, 1.0, None)
    text = render([timed("crnn/tf/native/raw/tensorflow/cpu/b1t2", 0.75, 0.5, "faster"), BASELINE, large], format="md")
    assert text.count("latency p50 (ms)") == 2
    assert [line[2].split()[0] for line in body(text) if line[2].endswith("]")][:2] == ["0.75", "34.00"]


@pytest.mark.parametrize(
    ("ns", "expected"),
    [(17_520, "17.52 [17.34, 17.70]"), (1_752_000, "1.752 [1.734, 1.770]"), (2.5e9, "2.500 [2.475, 2.525]")],
)
def test_latency_to_four_digits_in_the_unit_that_suits_it(ns, expected):
    text = render([timed(FAST.cell, ns / 1e6, 0.5, "faster")], format="md")
    unit = {17_520: "µs", 1_752_000: "ms", 2.5e9: "s"}[ns]
    assert f"latency p50 ({unit})" in text
    assert body(text)[0][2] == expected


def test_every_other_kind_of_figure():
    row = dataclasses.replace(
        FAST,
        latency_p90_ns=18.1e6,
        load_ns=2.5e5,
        macs=1_234_000_000,
        num_params=1_492_398,
        throughput_per_s=12_345.6,
        max_abs_error=3.25e-6,
        loss=0.0,
        num_samples=300,
    )
    columns = ("latency_p90_ns", "latency_p99_ns", "load_ns", "macs", "num_params", "throughput_per_s")
    columns += ("max_abs_error", "loss", "num_samples", "latency_p50_low_ns")
    text = render([row], format="md", columns=columns)
    head = next(line for line in text.splitlines() if line.startswith("| "))
    assert head == (
        "| \\# | latency p90 (ms) | latency p99 (ms) | load (µs) | MACs (billion) | parameters "
        "| throughput (1/s) | max abs error | loss | num samples | latency p50, low (ms) |"
    )
    expected = ["1", "18.10", DASH, "250.0", "1.234", "1,492,398", "12346", "3.250e-06", "0", "300", "17.23"]
    assert body(text)[0] == expected


MORE = "500 parameters more than the source's 1,000: 500 are stored again: table as head"


@pytest.mark.parametrize("format", ["md", "table", "latex"])
def test_parameters_of_the_source_are_marked_and_the_mark_is_explained(format):
    own = dataclasses.replace(FAST, num_params=1_500, num_params_from="file", num_params_note=MORE)
    borrowed = dataclasses.replace(SLOW, num_params=1_000, num_params_from="source")
    text = render([own, borrowed], format=format, columns=("cell", "num_params"), width=160)
    assert "1,000" in text
    assert text.count("parameters of the source") == 1
    assert text.count("*") == 2
    for rows, columns in (([own], ("cell", "num_params")), ([own, borrowed], ("cell", "ratio"))):
        assert "parameters of the source" not in render(rows, format=format, columns=columns)


def test_parameters_in_raw_units_say_where_they_were_counted_and_why_there_are_more():
    own = dataclasses.replace(FAST, num_params=1_500, num_params_from="file", num_params_note=MORE)
    columns = ("num_params", "num_params_from", "num_params_note")
    assert render([own], format="csv", columns=columns).splitlines()[1] == f'1500,file,"{MORE}"'
    assert json.loads(render([own], format="json", columns=columns)) == [
        dict(zip(columns, (1500, "file", MORE), strict=True))
    ]


def test_a_warning_has_no_verdict_as_its_name() -> None:
    """`undecided: only 16 % are quantized` reads as if that were undecided."""
    warned = dataclasses.replace(FAST, verdict="undecided", warning="only 16 % of the weights are quantized")
    text = tables.render([warned], format="table", width=200)
    assert "note on row 1: only 16 % of the weights are quantized" in text
    assert "undecided: " not in text
    broken = dataclasses.replace(FAST, fidelity="broken", reason="it differs by 30 dB")
    assert "broken: it differs by 30 dB" in tables.render([broken], format="table", width=200)


@pytest.mark.parametrize(("warning", "note"), [(None, MORE), ("falls back", f"falls back; {MORE}")])
@pytest.mark.parametrize("format", ["md", "table"])
def test_the_notes_of_a_row_say_why_it_has_more_parameters(warning, note, format):
    own = dataclasses.replace(FAST, num_params=1_500, num_params_note=MORE, warning=warning)
    assert " ".join(note.split()) in " ".join(render([own], format=format, width=200).split())


@pytest.mark.parametrize(
    ("row", "verdict", "note"),
    [
        (TWIN, "same as 1", ""),
        (LOST_TWIN, "same", "the same graph and weights as crnn/a/b/c/d/e/b1t2"),
        (BROKEN, "broken", "accuracy fell to 0.1"),
        (SKIPPED, "skipped", "no CUDA"),
        (FAILED, "failed", "died: a\\|b &amp; 5% of\\_it\\\\n"),
        (UNTIMED, DASH, ""),
    ],
)
def test_what_is_said_of_a_row_without_a_rank(row, verdict, note):
    (line,) = (cells for cells in body(render([FAST, row], format="md")) if cells[0] == "")
    assert (line[4], line[-1]) == (verdict, note)


def test_latex_escapes_and_keeps_brackets_out_of_row_options():
    text = render([FAST, FAILED], format="latex")
    assert r"  1 & torch/torch\_onnx/raw/onnxruntime/cpu & 17.40 {[}17.23, 17.57{]} & " in text
    assert r"died: a\textbar{}b \& 5\% of\_it\textbackslash{}n \\" in text
    assert r"\begin{tabular}{rlrrllrrrrrll}" in text
    assert DASH not in text


def test_table_names_each_reason_once_over_its_cells_and_counts_those_that_were_skipped():
    """A skipped row is no error, and there are many; they have their reasons where nothing else was timed."""
    other = dataclasses.replace(FAILED, cell=FAILED.cell.replace("/x/", "/y/"), variant="y")
    skipped = [SKIPPED, dataclasses.replace(SKIPPED, cell=SKIPPED.cell.replace("raw", "onnxsim"), variant="onnxsim")]
    lines = render([FAST, FAILED, other, *skipped], format="table", width=100).splitlines()
    start = lines.index("failed: died: a|b & 5% of_it\\n")
    assert lines[start + 1 : start + 4] == [
        "  x/onnxruntime/cpu",
        "  y/onnxruntime/cpu",
        "skipped: 2 rows; bench show --columns cell,reason says why",
    ]
    assert not any("no CUDA" in line for line in lines)
    alone = render(skipped, format="table", width=100).splitlines()
    start = alone.index("skipped: no CUDA")
    assert alone[start + 1 : start + 4] == ["  onnxsim/onnxruntime", "  raw/onnxruntime", "Nothing was timed."]


def test_a_remark_on_sound_rows_names_their_numbers():
    rows = [dataclasses.replace(row, warning="falls back") for row in (FAST, SLOW)]
    text = render([*rows, BASELINE], format="table", width=80)
    assert "note on rows 1, 3: falls back\n" in text


def test_a_terminal_has_so_many_rows_and_says_how_many_more(monkeypatch):
    """Those that rank first are shown; a file has all of them."""
    monkeypatch.setattr(tables, "MOST_ROWS", 6)
    monkeypatch.setattr(tables, "LEAST_ROWS", 2)
    cells = [f"{task}/torch/torch_onnx/v{number}/null/cpu/b1t2" for number in range(5) for task in ("crnn", "albert")]
    rows = [timed(cell, 1.0 + number / 10, 1.0, "noise") for number, cell in enumerate(cells)]
    text = render(rows, format="table", width=160)

    for shown, number in ((True, 2), (False, 3)):
        assert (f"v{number}/null" in text) == shown
    assert text.count("2 more rows are not shown: name cells, or print all with --format csv.") == 2
    assert render(rows, format="csv").count("/null/") == 10


LONG = "torch/torch_onnx_legacy/onnxoptimizer+onnxsim+int8_dynamic/onnxruntime/cpu"


@pytest.mark.parametrize("width", [50, 60, 80, 120, 160, 240])
def test_table_fits_its_width_and_never_cuts_a_name(width):
    text = render([*EVERY, timed(f"crnn/{LONG}/b1t2", 20.0, 0.6, "faster")], format="table", width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    # A name broken over lines starts at the same place in each; no other column is glued to it.
    joined = "".join(line[3:].split("  ")[0].strip() for line in text.splitlines())
    assert LONG in joined


FULL = [
    dataclasses.replace(
        row,
        model_rss_bytes=123_456_789,
        size_bytes=33_400_000,
        metric=0.98765,
        metric_name="accuracy",
        metric_loss_high=0.004464,
        precision="float32",
        num_params=1_492_398,
    )
    for row in (FAST, BASELINE, SLOW, BROKEN)
]


def test_80_columns_have_what_one_decides_by_with_every_figure_whole():
    lines = render([*FULL, TWIN, UNTIMED, SKIPPED, FAILED], format="table", width=80).splitlines()
    assert lines[: lines.index("failed: died: a|b & 5% of_it\\n")] == EXPECTED.splitlines()


EXPECTED = f"""\
crnn, batch 1, 2 threads: cells crnn/CELL/b1t2
#  cell                                                             verdict
    latency                        memory   size  metric (accuracy)
   p50 (ms)          ratio [95 %]    (MB)   (MB)       (max drop %)  fidelity
─────────────────────────────────────────────────────────────────────────────
1  torch/torch_onnx/raw/onnxruntime/cpu                             faster
      17.40  0.512 [0.505, 0.519]   123.5  33.40     0.9877 (0.446)  close
   torch/torch_onnx/onnxsim/onnxruntime/cpu                         same as 1
2  torch/native/raw/pytorch/cpu                                     baseline
      34.00  1.000                  123.5  33.40     0.9877 (0.446)  exact
3  tf/native/raw/tensorflow/cpu                                     slower
      51.00  1.500 [1.493, 1.507]   123.5  33.40     0.9877 (0.446)  close
   torch/torch_onnx/raw/null/cpu                                    {DASH}
   torch/torch_onnx/int8_dynamic/onnxruntime/cpu                    broken
       1.70  0.050 [0.043, 0.057]   123.5  33.40     0.9877 (0.446)  broken
broken: accuracy fell to 0.1
  torch/torch_onnx/int8_dynamic/onnxruntime/cpu
"""


def test_names_have_the_parts_that_differ_and_the_title_has_the_others():
    """With the title, a name is a path; variant and runtime always stay."""
    cells = [
        f"m/onnx/native/{name}/cpu/b1t1" for name in ("raw/onnxruntime", "int8_dynamic/onnxruntime", "raw/openvino")
    ]
    rows = [timed(cell, 1.0 + number, 1.0 + number, "slower") for number, cell in enumerate(cells)]
    lines = render(rows, format="table", width=80).splitlines()
    assert lines[0] == "m, batch 1, 1 thread: cells m/onnx/native/CELL/cpu/b1t1"
    named = [line.split()[1] for line in lines if line.endswith("slower") or " slower " in line]
    assert named == ["raw/onnxruntime", "int8_dynamic/onnxruntime", "raw/openvino"]
    assert [lines[0].split()[-1].replace("CELL", name) for name in named] == cells
    (alone, *_) = render(rows[:1], format="table", width=80).splitlines()
    assert alone == "m, batch 1, 1 thread: cells m/CELL/b1t1"
    bf16 = timed("m/onnx/native/raw/openvino/cpu-bf16/b1t1", 1.0, 1.0, "slower")
    text = render([*rows, bf16], format="table", width=80)
    assert "cells m/onnx/native/CELL/b1t1\n" in text
    assert " raw/openvino/cpu-bf16 " in text


def test_a_row_has_one_line_where_what_one_decides_by_has_room():
    """Columns that say more are left out before that."""
    text = render(FULL, format="table", width=130)
    rows = [line for line in text.splitlines() if "native/raw/pytorch" in line]
    assert len(rows) == 1
    figures = "34.00 1.000 baseline 123.5 33.40 0.9877 (0.446) exact"
    assert rows[0].split() == ["2", "torch/native/raw/pytorch", *figures.split()]
    assert " bench show adds latency interval, parameters, precision.\n" in text


@pytest.mark.parametrize("width", [80, 100, 130])
def test_the_width_that_is_told_is_the_least_that_leaves_nothing_out(width):
    said = " ".join(render(FULL, format="table", width=width).split())
    whole = int(re.search(r"COLUMNS=(\d+) bench show adds", said)[1])
    assert "bench show adds" not in render(FULL, format="table", width=whole)
    for less in range(width, whole):
        assert "bench show adds latency interval" in " ".join(render(FULL, format="table", width=less).split())


def test_what_does_not_fit_80_columns_is_left_out_size_and_memory_last():
    """Ratios, latencies and the verdict stay in a terminal of 54 columns."""
    left = {width: render(FULL, format="table", width=width) for width in (70, 62, 54)}
    usual = "bench show adds latency interval, parameters, precision, fidelity"
    assert f"{usual}." in " ".join(left[70].split())
    assert f"{usual}, size (MB)." in " ".join(left[62].split())
    assert f"{usual}, size (MB), memory (MB)." in " ".join(left[54].split())
    for text in left.values():
        assert "0.512 [0.505, 0.519]" in text
        assert "17.40" in text
        assert {"faster", "slower", "baseline", "broken"} <= set(text.split())


def test_at_most_six_lines_explain_a_table_of_80_columns():
    """Those of a terminal; Markdown has whole sentences."""
    rows = [
        dataclasses.replace(
            row,
            q_value=0.001,
            metric_samples=300,
            num_params_from="source",
            judged_as="the class with the largest of 10 scores of output 'logits'",
        )
        for row in FULL
    ]
    lines = render(rows, format="table", width=80).splitlines()
    last = max(number for number, line in enumerate(lines) if "accuracy fell to 0.1" in line) + 2
    assert len(lines[last:]) <= 6
    said = " ".join(lines[last:])
    for text in (
        "A/A control, truly 1: 0.991 to 1.012; 3 to 5 launches a cell.",
        "accuracy: the class with the largest of 10 scores of output 'logits'.",
        "Metric of 3 cells: 300 samples or more",
        "bench show adds latency interval",
        "Ratio: latency over the baseline's; below 1 is faster.",
        "are expected to be false.",
        "docs/reading-the-table.md",
    ):
        assert text in said


def test_a_brief_caption_says_what_is_not_known():
    alone = dataclasses.replace(SLOW, num_launches=1)
    text = render([alone], format="table", width=200)
    assert "The baseline is not among these rows. No A/A control yet: it takes three blocks; 1 launch a cell." in text
    assert "The baseline was not timed." in render([dataclasses.replace(alone, ratio=None)], format="table", width=200)
    twice = dataclasses.replace(SLOW, verdict=None)
    assert "Baselines: torch/native/raw/pytorch; tf/native/raw/tensorflow." in render(
        [BASELINE, twice], format="table", width=200
    )
    unknown = dataclasses.replace(FAST, metric_loss_high=None, metric_loss_note="an earlier version verified it")
    text = render([unknown], format="table", width=200)
    assert "No bound on the lost metric: an earlier version verified it." in text
    assert "Max drop" not in text
    taken = dataclasses.replace(FAST, convention="a photograph is taken to lose at most 1 dB")
    assert "Max drop: by convention, a photograph is taken to lose at most 1 dB." in render(
        [taken], format="table", width=200
    )


def test_table_of_chosen_columns_has_the_rows_without_figures_too():
    text = render([FAST, SKIPPED], format="table", columns=("cell", "status", "reason"), width=100)
    assert [line.split() for line in text.splitlines()[3:5]] == [
        ["1", "raw/onnxruntime/cpu", "ok", DASH],
        ["raw/onnxruntime/cuda", "skipped", "no", "CUDA"],
    ]


def test_a_long_reason_is_wrapped_in_the_room_that_is_left():
    reason = " ".join(f"word{number}" for number in range(40))
    rows = [FAST, dataclasses.replace(FAILED, reason=reason)]
    lines = render(rows, format="table", columns=("cell", "status", "reason"), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert reason in " ".join(" ".join(lines[3:]).split())
    assert len([line for line in lines if "word" in line]) <= 6


def test_brackets_are_text_and_not_markup():
    row = dataclasses.replace(FAILED, reason="[red]ORT[/red] [E] \x1b[31mred\n  next")
    text = render([FAST, row], format="table", width=200)
    assert "failed: [red]ORT[/red] [E] \\x1b[31mred next" in text
    assert "17.40 [17.23, 17.57]" in text
    assert "\x1b" not in text


def test_colour_only_on_a_terminal_and_words_with_it():
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard", width=160).print(
        TerminalTable(select([SLOW, FAST]))
    )
    assert "\x1b[32mfaster" in file.getvalue()
    assert "\x1b" not in render([SLOW, FAST], format="table", width=160)


def test_scale_is_the_unit_of_the_median():
    assert scale([1e6, 2e6, 3e9], ((1e3, "µs"), (1e6, "ms"), (1e9, "s"))) == (1e6, "ms")
    assert scale([], ((1e3, "µs"), (1e6, "ms"))) == (1e3, "µs")
    assert scale([0, float("nan")], ((1e3, "kB"), (1e6, "MB"))) == (1e3, "kB")


def test_calls_that_may_be_false_are_counted_over_all_tested_rows():
    """A row without a difference is called at the rate of all rows, so rows that were not called count, too."""
    called = make("toy/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", verdict="faster", q_value=0.04)
    others = [
        make(f"toy/torch/torch_onnx/v{number}/onnxruntime/cpu/b1t1", verdict="undecided", q_value=0.5)
        for number in range(19)
    ]
    assert legend_of([called, *others]).endswith("Of the 1 verdict here, at most 0.8 are expected to be false.")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.5034, "0.503"), (0.0731, "0.073"), (0.00731, "0.0073"), (0.000231, "0.00023"), (1, "1.000")],
)
def test_small_ratios_keep_two_digits(ratio: float, text: str) -> None:
    assert share(ratio) == text
