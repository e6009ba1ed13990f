"""Figures of rows made by hand: their files, their texts, the rows that they leave out; people judge the pixels."""

import re
from pathlib import Path

import pytest

from bench.records.pareto import labels
from bench.records.ranking import select, short_name
from bench.records.rows import Row
from bench.report.figures import canvas, plots, whiskers
from bench.report.figures.canvas import COLOURS, MARKERS, looks_of, place_labels
from bench.report.figures.plots import draw

ONLY_TIMED = {"peak_rss_bytes": None, "size_bytes": None, "peak_share": None}  # fewer figures to draw
KINDS = ("latency", "accuracy", "peak", "memory", "size")


def make(index: int = 0, *, task: str = "crnn", runtime: str = "onnxruntime", batch: int = 1, **figures) -> Row:
    """A row with every figure that a plot shows; a longer variant chain for each index."""
    variant = f"v{index}+onnxsim_$x" if index else "raw"
    latency = (10 + index) * 1e6
    usual = {
        "cell": f"{task}/torch/torch_onnx/{variant}/{runtime}/cpu/b{batch}t2",
        "variant": variant,
        "status": "ok",
        "fidelity": "close",
        "latency_p50_ns": latency,
        "latency_p50_low_ns": latency * 0.98,
        "latency_p50_high_ns": latency * 1.03,
        "ratio": 1 + index / 10,
        "verdict": "slower" if index else None,
        "peak_rss_bytes": 200_000_000 + index,
        "model_rss_bytes": 120_000_000,
        "size_bytes": 33_000_000 + index,
        "metric": 0.97,
        "metric_name": "accuracy",
        "precision": "float32",
        "peak_share": 0.25,
        "bound": "compute",
    }
    where = {"task": task, "source": "torch", "exporter": "torch_onnx", "runtime": runtime, "provider": "cpu"}
    return Row(batch=batch, threads=2, **(where | usual | figures))


def texts(path: Path) -> list[str]:
    """Texts of an SVG, in order."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [re.sub(r"<[^>]*>", "", text).strip() for text in found]


def stems(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths if path.suffix == ".png"]


def test_writes_four_figures_in_both_formats_and_nothing_else(tmp_path):
    paths = draw([make(), make(1)], tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"crnn-{kind}.{suffix}" for kind in KINDS for suffix in ("png", "svg")]
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")


@pytest.mark.usefixtures("svg_alone")
def test_names_every_cell_whole(tmp_path):
    others = {"metric": None, "peak_share": None}
    rows = [make(index, runtime=f"runtime{index % 9}", provider="cpu-bf16", **others) for index in range(30)]
    rows += [make(50, fidelity="broken", **others)]
    draw(rows, tmp_path)
    for kind in ("latency", "memory"):
        assert {short_name(row) for row in rows} <= set(texts(tmp_path / f"crnn-{kind}.svg"))
    artifacts = {f"torch/torch_onnx/{row.variant}" for row in rows}
    assert artifacts <= set(texts(tmp_path / "crnn-size.svg"))


@pytest.mark.usefixtures("svg_alone")
def test_the_same_rows_make_the_same_svg(tmp_path):
    rows = [make(), make(1, runtime="openvino")]
    for name in ("a", "b"):
        draw(rows if name == "a" else rows[::-1], tmp_path / name)
    for kind in KINDS:
        first, second = ((tmp_path / name / f"crnn-{kind}.svg").read_text() for name in ("a", "b"))
        assert first == second
        assert "<dc:date>" not in first


@pytest.mark.usefixtures("svg_alone")
def test_latency_is_sorted_with_ratio_and_verdict_and_broken_last(tmp_path):
    rows = [
        make(2, **ONLY_TIMED),
        make(3, fidelity="broken", latency_p50_ns=1e6, **ONLY_TIMED),
        make(**ONLY_TIMED),
        make(1, ratio=None, verdict="undecided", **ONLY_TIMED),
    ]
    draw(rows, tmp_path)
    found = texts(tmp_path / "crnn-latency.svg")
    assert [text for text in found if text.startswith("torch/")] == [short_name(rows[i]) for i in (2, 3, 0, 1)]
    notes = ["baseline", "undecided", "0.83x as fast, slower", "broken"]
    assert [text for text in found if text in notes] == notes
    assert "onnxruntime" in found
    assert "crnn, batch 1, 2 threads: latency" in found
    assert any("95\N{NO-BREAK SPACE}% interval of the ratio to the baseline" in text for text in found)


@pytest.mark.parametrize(
    ("ratio", "verdict", "note"),
    [
        (0.222, "faster", "4.5x as fast"),
        (0.97, "faster", "1.03x as fast"),
        (0.0072, "faster", "139x as fast"),
        (4.0, "slower", "0.25x as fast, slower"),
        (140.0, "slower", "0.0071x as fast, slower"),
        (1.004, "noise", "1.00x as fast, noise"),
        (0.9, "undecided", "1.11x as fast, undecided"),
    ],
)
def test_a_cell_is_so_many_times_as_fast_as_the_baseline(ratio, verdict, note):
    assert plots._note(make(1, ratio=ratio, verdict=verdict)) == note


@pytest.mark.usefixtures("svg_alone")
def test_share_of_the_peak_is_told_the_fastest_first_and_broken_last(tmp_path):
    others = {"metric": None, "peak_rss_bytes": None, "size_bytes": None}
    rows = [
        make(2, peak_share=0.67, **others),
        make(3, latency_p50_ns=1e6, fidelity="broken", **others),
        make(**others),
        make(1, peak_share=0.93, precision="bfloat16", bound="memory", **others),
    ]
    draw(rows, tmp_path)
    found = texts(tmp_path / "crnn-peak.svg")
    assert [text for text in found if text.startswith("torch/")] == [short_name(rows[i]) for i in (2, 3, 0, 1)]
    notes = [text for text in found if " % in " in text]
    assert notes == [
        "25 % in float32, 10.0 ms",
        "93 % in bfloat16, 11.0 ms",
        "67 % in float32, 12.0 ms",
        "25 % in float32, 1.00 ms broken",
    ]


def test_whisker_is_the_interval_of_the_ratio_at_the_latency():
    """Cells of one figure share the machine's state, which the latency's own interval holds."""
    row = make(1, latency_p50_ns=4e6, ratio=0.5, ratio_low=0.45, ratio_high=0.6, latency_p50_high_ns=9e6)
    assert whiskers.whisker(row) == pytest.approx((3.6e6, 4.8e6))
    assert whiskers.drawn_latencies([row, make(latency_p50_ns=5e6)]) == pytest.approx([4e6, 3.6e6, 4.8e6, 5e6])


@pytest.mark.parametrize(
    "figures",
    [
        {"ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0},
        {"ratio": None},
        {"ratio_low": 0.1, "ratio_high": float("inf")},
        {"latency_p50_ns": None, "ratio_low": 0.9, "ratio_high": 1.1},
    ],
    ids=["baseline", "no ratio", "endless", "no latency"],
)
def test_no_whisker_where_nothing_is_compared(figures):
    assert whiskers.whisker(make(1, **figures)) is None


@pytest.mark.usefixtures("svg_alone")
def test_latency_axis_ends_beyond_the_whiskers_and_not_beyond_the_latencys_own_interval(tmp_path):
    """From 10 to 199 ms: a whisker up to 220 ms makes the range wider than twenty, the latency's interval does not."""
    own, compared = {"latency_p50_high_ns": 1e9}, {"ratio": 1.0, "ratio_low": 0.9, "ratio_high": 220 / 199}
    others = {**ONLY_TIMED, "metric": None}
    for figures, label in ((own, "(ms)"), (compared, "(ms, log scale)")):
        draw([make(**others), make(1, latency_p50_ns=199e6, **others, **figures)], tmp_path)
        assert f"latency p50 {label}, lower is better \N{LEFTWARDS ARROW}" in texts(tmp_path / "crnn-latency.svg")


@pytest.mark.usefixtures("svg_alone")
@pytest.mark.parametrize(("slowest_ms", "label"), [(199, "(ms)"), (220, "(ms, log scale)")])
def test_axis_is_logarithmic_only_over_a_range_of_twenty_and_says_so(tmp_path, slowest_ms, label):
    slow = make(1, latency_p50_ns=slowest_ms * 1e6, latency_p50_low_ns=None, latency_p50_high_ns=None, **ONLY_TIMED)
    fast = make(latency_p50_low_ns=None, latency_p50_high_ns=None, **ONLY_TIMED)
    draw([fast, slow], tmp_path)
    for kind in ("latency", "accuracy"):
        found = texts(tmp_path / f"crnn-{kind}.svg")
        assert f"latency p50 {label}, lower is better \N{LEFTWARDS ARROW}" in found


@pytest.mark.usefixtures("svg_alone")
def test_accuracy_numbers_the_front_and_never_a_broken_cell(tmp_path):
    rows = [
        make(0, metric=0.9, **ONLY_TIMED),  # baseline, beaten by 1
        make(1, metric=0.95, latency_p50_ns=5e6, **ONLY_TIMED),
        make(2, metric=0.99, latency_p50_ns=20e6, **ONLY_TIMED),
        make(3, metric=0.94, latency_p50_ns=6e6, **ONLY_TIMED),
        make(4, metric=0.999, latency_p50_ns=1e6, fidelity="broken", **ONLY_TIMED),
    ]
    (group,) = select(rows).groups
    assert labels(group.rows, lambda row: row.metric, higher_is_better=True) == {
        rows[0].cell: "B",
        rows[1].cell: "1",
        rows[2].cell: "2",
    }
    draw(rows, tmp_path)
    found = texts(tmp_path / "crnn-accuracy.svg")
    key = [text for text in found if re.match(r"[12B]? ?torch/|Pareto front, f|Off the|Broken, not", text)]
    assert key == [
        "Pareto front, fastest first",
        f"1 {short_name(rows[1])}",
        f"2 {short_name(rows[2])}",
        "Off the front",
        f"B {short_name(rows[0])} (baseline)",
        "Broken, not ranked",
        short_name(rows[4]),
    ]
    assert "5.000 ms, 0.9500" in found
    assert "accuracy, higher is better \N{UPWARDS ARROW}" in found


@pytest.mark.usefixtures("svg_alone")
def test_a_lower_metric_can_be_better_in_one_task_and_not_in_another(tmp_path):
    def at(task, name):
        return [make(i, task=task, metric=m, metric_name=name, **ONLY_TIMED) for i, m in enumerate((0.5, 0.1))]

    draw([*at("a", "edit_distance"), *at("b", "psnr")], tmp_path, higher_is_better={"a": False})
    lower, higher = (texts(tmp_path / f"{task}-accuracy.svg") for task in "ab")
    assert "edit distance, lower is better \N{DOWNWARDS ARROW}" in lower
    assert any(text.startswith("2 ") for text in lower)
    assert "psnr, higher is better \N{UPWARDS ARROW}" in higher
    assert not any(text.startswith("2 ") for text in higher)


def test_metrics_that_read_the_same_are_equal_on_the_front():
    rows = [make(0, metric=0.97310), make(1, metric=0.97312), make(2, metric=0.9741)]
    (group,) = select(rows).groups
    assert labels(group.rows, lambda row: row.metric, higher_is_better=True) == {rows[0].cell: "1", rows[2].cell: "2"}


@pytest.mark.parametrize(
    ("ranked", "broken", "expected"),
    [
        ([0.9, 1.0], [], (0.885, 1.015)),
        ([0.9, 1.0], [0.85], (0.8275, 1.0225)),  # near: in the axis
        ([0.9, 1.0], [0.1, 1e30], (0.885, 1.015)),  # far: drawn at the edge
        ([0.5, 0.5], [], (0.499, 0.501)),
        ([0.0], [], (-0.001, 0.001)),
        ([], [0.1], (0.0998, 0.1002)),
    ],
)
def test_metric_axis_is_of_the_rows_that_count(ranked, broken, expected):
    rows = [make(i, metric=value) for i, value in enumerate(ranked)]
    rows += [make(9 + i, metric=value, fidelity="broken") for i, value in enumerate(broken)]
    assert plots.metric_limits(rows) == pytest.approx(expected)


MISSING = {
    "latency": {"latency_p50_ns": None},
    "accuracy": {"metric": None},
    "peak": {"peak_share": None},
    "memory": {"peak_rss_bytes": None},
    "size": {"size_bytes": None},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_that_would_show_nothing_is_not_written(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(canvas, "save", lambda figure, path: path)
    of_latency = ("accuracy", "peak") if kind == "latency" else ()
    without = [f"crnn-{name}" for name in KINDS if name not in (kind, *of_latency)]
    assert stems(draw([make(**MISSING[kind]), make(1, **MISSING[kind])], tmp_path)) == without


def test_no_rows_and_rows_without_figures_make_no_files(tmp_path):
    nothing = {key: value for figures in MISSING.values() for key, value in figures.items()}
    skipped = make(status="skipped", reason="no CUDA", **nothing)
    assert draw([], tmp_path) == []
    assert draw([skipped], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("svg_alone")
def test_rows_with_gaps_are_drawn_for_what_they_have_and_the_rest_is_counted(tmp_path):
    rows = [
        make(0, latency_p50_low_ns=None, latency_p50_high_ns=None, model_rss_bytes=None, metric=float("nan")),
        make(1, ratio=None, verdict=None, metric_name=None),
        make(2, status="failed", latency_p50_ns=None, size_bytes=None),
        make(3, same_as=make(1).cell, latency_p50_ns=None, peak_rss_bytes=None),
        make(4, latency_p50_ns=float("nan")),
        make(5, model_rss_bytes=-4096, size_bytes=0, latency_p50_low_ns=99e6),
    ]
    assert stems(draw(rows, tmp_path)) == [f"crnn-{kind}" for kind in KINDS]
    words = " ".join(texts(tmp_path / "crnn-latency.svg"))
    assert "Not shown: 1 failed, 1 not measured, 1 same as another." in words
    assert "nan" not in words


@pytest.mark.usefixtures("svg_alone")
def test_one_panel_for_each_batch_and_threads(tmp_path):
    others = {**ONLY_TIMED, "metric": None}
    draw([make(index, batch=batch, **others) for batch in (1, 8) for index in (0, 1)], tmp_path)
    found = texts(tmp_path / "crnn-latency.svg")
    assert [text for text in found if "batch" in text] == ["batch 1, 2 threads", "batch 8, 2 threads"]
    assert "crnn: latency" in found
    assert sum(text.startswith("torch/") for text in found) == 4


@pytest.mark.usefixtures("svg_alone")
def test_size_has_one_bar_for_each_artifact_unless_its_cells_differ(tmp_path):
    others = {"latency_p50_ns": None, "peak_rss_bytes": None}
    same = [make(0, batch=1, **others), make(0, batch=8, **others), make(0, runtime="openvino", **others)]
    differing = [make(1, size_bytes=1_000_000, **others), make(1, size_bytes=2_000_000, batch=8, **others)]
    draw([*same, *differing], tmp_path)
    bars = [text for text in texts(tmp_path / "crnn-size.svg") if text.startswith("torch/")]
    chain = differing[0].variant
    assert bars == [
        f"torch/torch_onnx/{chain}/onnxruntime/cpu/b1t2",
        f"torch/torch_onnx/{chain}/onnxruntime/cpu/b8t2",
        "torch/torch_onnx/raw",
    ]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    old = draw([make(**ONLY_TIMED)], tmp_path)
    before = {path: path.read_bytes() for path in old}
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half_written)
    with pytest.raises(OSError, match="disk full"):
        draw([make(**ONLY_TIMED), make(1, **ONLY_TIMED)], tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def half_written(self, file, **options):
    file.write(b"half")
    raise OSError("disk full")


def test_runtimes_differ_by_more_than_colour():
    looks = looks_of(f"r{index:02}" for index in range(20))
    assert len({(look.colour, look.marker) for look in looks.values()}) == 20
    first = list(looks.values())[:8]
    assert [look.colour for look in first] == list(COLOURS)
    assert [look.marker for look in first] == list(MARKERS)
    assert len({look.hatch for look in first}) == 8


def test_the_runtimes_with_most_rows_share_no_colour():
    rare = [f"a{index}" for index in range(14)]
    often = ["litert", "onnxruntime", "openvino", "pytorch", "tensorflow", "torch_compile"]
    looks = looks_of([*rare, *often, *often])
    assert len({looks[name].colour for name in often}) == len(often)
    assert looks == looks_of([*often, *rare[::-1], *often]), "whatever the order of the rows"
    for colour in COLOURS:
        one, other, *_ = [MARKERS.index(look.marker) for look in looks.values() if look.colour == colour]
        assert abs(one - other) == 4, "as far apart as can be"


def test_labels_cover_neither_points_nor_each_other():
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(8, 6))
    axes = figure.add_axes((0.1, 0.1, 5.5 / 8, 0.8), xlim=(0, 10), ylim=(0, 10))
    points = [(5 + x / 10, 5 + y / 10) for x in range(3) for y in range(3)]
    place_labels(axes, points, [(str(index), point) for index, point in enumerate(points)], upward=True)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the leader line
    at = axes.transData.transform(points)
    assert len(boxes) == 9
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert not any(box.contains(x, y) for box in boxes for x, y in at)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1808.2, "1808"), (266.2, "266"), (24.0, "24.0"), (0.98365, "0.984"), (999.6, "1000"), (2.5e7, "2.50e+07")],
)
def test_numbers_beside_a_bar(value: float, text: str) -> None:
    assert canvas.digits(value, 3) == text
