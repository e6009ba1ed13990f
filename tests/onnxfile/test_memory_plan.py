"""Memory plans: buffers that live at the same time never overlap, and the arena is close to the lower bound."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.onnxfile.memory.best_fit import best_fit
from bench.onnxfile.memory.lifetimes import activation_lifetimes
from bench.onnxfile.memory.plan import ALIGNMENT_BYTES, Buffer, MemoryPlan, check_plan, lower_bound_bytes, plan_memory


def buffer(name: str, size_bytes: int, first_step: int, last_step: int) -> Buffer:
    return Buffer(name=name, size_bytes=size_bytes, first_step=first_step, last_step=last_step)


def overlaps(plan: MemoryPlan) -> list[tuple[str, str]]:
    """Every pair that shares a step and a byte, looked for the plain way."""
    placed = list(zip(plan.buffers, plan.offsets_bytes, strict=True))
    return [
        (one.name, other.name)
        for index, (one, low) in enumerate(placed)
        for other, high in placed[:index]
        if one.first_step <= other.last_step and other.first_step <= one.last_step
        if low < high + other.size_bytes and high < low + one.size_bytes
    ]


def over_bound(plan: MemoryPlan) -> float:
    """The excess of the arena over the lower bound, as a share of the lower bound."""
    return plan.arena_bytes / plan.lower_bound_bytes - 1 if plan.lower_bound_bytes else 0.0


def random_graph(seed: int) -> list[Buffer]:
    """Outputs of a chain of nodes, most of them read soon, some much later, with sizes over several powers of ten."""
    generator = random.Random(seed)
    num_steps = generator.randrange(1, 120)
    buffers = []
    for step in range(num_steps):
        for index in range(generator.choice([0, 1, 1, 1, 2, 3])):
            life = generator.randrange(4) if generator.random() < 0.85 else generator.randrange(num_steps)
            size = generator.choice([0, 1, 63, 64, 65, int(generator.lognormvariate(10, 2))])
            buffers.append(buffer(f"{step}.{index}", size, step, min(num_steps - 1, step + life)))
    return buffers


def exact_tiling(seed: int, num_tiles: int) -> tuple[list[Buffer], int]:
    """Buffers cut out of one rectangle of time and memory, and the height of that rectangle: nothing can be lower."""
    generator = random.Random(seed)
    tiles = [(0, 100, 0, 1000)]
    while len(tiles) < num_tiles:
        first, end, low, high = tiles.pop(generator.randrange(len(tiles)))
        if generator.random() < 0.6 and end - first > 1:
            cut = generator.randrange(first + 1, end)
            tiles += [(first, cut, low, high), (cut, end, low, high)]
        elif high - low > 1:
            cut = generator.randrange(low + 1, high)
            tiles += [(first, end, low, cut), (first, end, cut, high)]
        else:
            tiles.append((first, end, low, high))
    buffers = [
        buffer(str(index), (high - low) * ALIGNMENT_BYTES, first, end - 1)
        for index, (first, end, low, high) in enumerate(tiles)
    ]
    return buffers, 1000 * ALIGNMENT_BYTES


def test_nothing_alive_together_overlaps_in_100_random_graphs() -> None:
    for seed in range(100):
        buffers = random_graph(seed)
        plan = plan_memory(buffers, effort=20_000)
        assert overlaps(plan) == [], f"seed {seed}"
        assert all(offset % ALIGNMENT_BYTES == 0 for offset in plan.offsets_bytes)
        ends = [offset + item.size_bytes for item, offset in zip(plan.buffers, plan.offsets_bytes, strict=True)]
        assert plan.arena_bytes == max(ends, default=0)
        assert plan.lower_bound_bytes <= plan.arena_bytes <= plan.native_bytes + ALIGNMENT_BYTES * len(buffers)


def test_random_graphs_are_planned_within_two_per_cent() -> None:
    over = [
        over_bound(plan)
        for plan in (plan_memory(random_graph(seed), effort=200_000) for seed in range(100))
        if plan.lower_bound_bytes > 100 * ALIGNMENT_BYTES  # below, rounding is all there is
    ]
    assert len(over) > 80
    assert max(over) < 0.02


def test_the_lower_bound_is_the_largest_sum_alive_at_one_step() -> None:
    for seed in range(50):
        buffers = random_graph(seed)
        steps = range(max((item.last_step for item in buffers), default=0) + 1)
        sums = [sum(b.size_bytes for b in buffers if b.first_step <= step <= b.last_step) for step in steps]
        assert lower_bound_bytes(buffers) == max(sums)


def test_small_tilings_without_a_gap_are_found() -> None:
    for seed in range(20):
        buffers, height = exact_tiling(seed, 12)
        assert lower_bound_bytes(buffers) == height
        assert plan_memory(buffers).arena_bytes == height, f"seed {seed}"


def test_more_effort_finds_a_lower_plan_of_the_same_buffers() -> None:
    buffers, _ = exact_tiling(7, 60)
    hasty, careful = plan_memory(buffers, effort=0), plan_memory(buffers, effort=400_000)
    assert careful.arena_bytes < hasty.arena_bytes
    assert plan_memory(buffers, effort=400_000) == careful


def test_the_checker_finds_a_planted_overlap() -> None:
    plan = plan_memory([buffer("a", 64, 0, 1), buffer("b", 64, 1, 2), buffer("c", 64, 2, 3)])
    assert (plan.arena_bytes, plan.native_bytes) == (128, 192)
    check_plan(plan)
    with pytest.raises(AssertionError, match=r"a and b overlap at step 1|b and a overlap at step 1"):
        check_plan(dataclasses.replace(plan, offsets_bytes=(0, 0, 64)))
    with pytest.raises(AssertionError, match="outside the arena"):
        check_plan(dataclasses.replace(plan, arena_bytes=64))
    with pytest.raises(AssertionError, match="not aligned"):
        check_plan(dataclasses.replace(plan, offsets_bytes=(0, 8, 0)))


def test_nothing_to_plan_and_nonsense() -> None:
    assert plan_memory([]).arena_bytes == 0
    assert over_bound(plan_memory([])) == 0
    with pytest.raises(ValueError, match="no such buffer"):
        plan_memory([buffer("backwards", 8, 3, 2)])


def graph_of(*nodes: onnx.NodeProto, outputs: str = "y", weights: str = "") -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in outputs.split()],
        [helper.make_tensor(name, TensorProto.FLOAT, [4], [1, 2, 3, 4]) for name in weights.split()],
    )


def spans(graph: onnx.GraphProto, share_views: bool = True, **sizes: int) -> dict[str, tuple[int, int, int]]:
    found = activation_lifetimes(graph, sizes, share_views=share_views)
    return {item.name: (item.size_bytes, item.first_step, item.last_step) for item in found.buffers}


def test_a_buffer_lives_from_its_node_to_its_last_reader_and_an_output_to_the_end() -> None:
    graph = graph_of(
        helper.make_node("Mul", ["x", "w"], ["a"]),
        helper.make_node("Exp", ["a"], ["y"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Split", ["b"], ["c", "unread"]),
        helper.make_node("Sub", ["c", "x"], ["z"]),
        outputs="y z",
        weights="w",
    )
    assert spans(graph, x=16, w=16, a=16, y=16, b=8, c=4, unread=4, z=16) == {
        "a": (16, 0, 2),
        "y": (16, 1, 4),
        "b": (8, 2, 3),
        "c": (4, 3, 4),
        "unread": (4, 3, 3),
        "z": (16, 4, 4),
    }


def test_what_is_made_of_weights_alone_is_no_activation() -> None:
    graph = graph_of(
        helper.make_node("Constant", [], ["k"], value_floats=[1.0]),
        helper.make_node("Mul", ["w", "k"], ["scaled"]),
        helper.make_node("RandomNormal", [], ["noise"], shape=[4]),
        helper.make_node("Custom", ["w"], ["opaque"], domain="somewhere"),
        helper.make_node("Sum", ["x", "scaled", "noise", "opaque"], ["y"]),
        weights="w",
    )
    assert set(spans(graph, k=4, scaled=16, noise=16, opaque=16, y=16)) == {"noise", "opaque", "y"}


def test_views_share_the_memory_of_what_they_show() -> None:
    graph = graph_of(
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("Unsqueeze", ["b", "shape"], ["c"]),
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Identity", ["d"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
        outputs="y z",
        weights="shape",
    )
    sizes = {"a": 16, "b": 16, "c": 16, "d": 16, "y": 16, "z": 16}
    assert spans(graph, **sizes) == {"a": (16, 0, 3), "d": (16, 3, 5), "z": (16, 5, 5)}
    assert set(spans(graph, share_views=False, **sizes)) == {"a", "b", "c", "d", "y", "z"}
    assert spans(graph, c=16, y=8, z=4)["a"] == (16, 0, 3), "the size of a view is that of what it shows"


def test_sizes_that_are_not_known_are_named() -> None:
    graph = graph_of(helper.make_node("NonZero", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"]))
    found = activation_lifetimes(graph, {"y": 16, "a": None})
    assert found.unknown == ("a",)
    assert [item.name for item in found.buffers] == ["y"]


def branch(name: str, *operators: str) -> onnx.GraphProto:
    """A chain that begins at `outer` of the graph around it."""
    names = ["outer", *[f"{name}{index}" for index in range(len(operators))]]
    nodes = [helper.make_node(op, [names[at]], [names[at + 1]]) for at, op in enumerate(operators)]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, None)])


def test_a_subgraph_reads_from_around_it_and_has_a_work_space() -> None:
    graph = graph_of(
        helper.make_node("Exp", ["x"], ["outer"]),
        helper.make_node("Neg", ["x"], ["flag"]),
        helper.make_node(
            "If",
            ["flag"],
            ["y"],
            name="if",
            then_branch=branch("t", "Exp", "Neg", "Abs"),
            else_branch=branch("e", "Exp"),
        ),
    )
    sizes = {"outer": 64, "flag": 1, "y": 64}
    sizes |= {f"if.then_branch:t{index}": 128 for index in range(3)} | {"if.else_branch:e0": 192}
    found = activation_lifetimes(graph, sizes)
    rows = {item.name: (item.size_bytes, item.first_step, item.last_step) for item in found.buffers}
    assert rows["outer"] == (64, 0, 2)
    assert rows["if (work space)"] == (256, 2, 2)  # two of the three at a time; the other branch takes 192
    assert found.unknown == ()
    assert activation_lifetimes(graph, {**sizes, "if.else_branch:e0": None}).unknown == ("if.else_branch:e0",)


def light_models() -> list[Path]:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return sorted(folder.glob("*.onnx"))


def inferred_sizes(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {
        value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
        * math.prod(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }


@pytest.mark.parametrize("path", light_models(), ids=lambda path: path.stem)
def test_the_models_of_the_onnx_package_are_planned_within_two_per_cent(path: Path) -> None:
    model = onnx.load(path)
    found = activation_lifetimes(model.graph, inferred_sizes(model))
    plan = plan_memory(found.buffers)
    assert overlaps(plan) == []
    assert over_bound(plan) < 0.02
    assert plan.arena_bytes < 0.6 * plan.native_bytes
    assert len(plan.buffers) > 15


def test_very_many_buffers_that_meet_are_placed_in_one_pass() -> None:
    wide = [buffer(f"{at}", 100, at, 20_000) for at in range(20_000)]
    begin = time.process_time()
    plan = plan_memory(wide)

    assert time.process_time() - begin < 5, "comparing all pairs takes minutes"
    assert plan.arena_bytes == 19_999 * 128 + 100, "no gap but those of the alignment"
    assert sorted(plan.offsets_bytes) == list(range(0, 20_000 * 128, 128))


def test_a_pass_over_time_takes_the_smallest_gap_that_fits_and_joins_gaps() -> None:
    sizes = [64, 128, 64, 64, 64, 192, 64]
    spans = [(0, 0), (0, 9), (0, 1), (0, 1), (1, 9), (2, 9), (3, 9)]

    offsets = best_fit(sizes, spans)

    plan = MemoryPlan(
        buffers=tuple(buffer(f"{at}", size, *span) for at, (size, span) in enumerate(zip(sizes, spans, strict=True))),
        offsets_bytes=tuple(offsets),
        arena_bytes=max(map(sum, zip(sizes, offsets, strict=True))),
        lower_bound_bytes=0,
        native_bytes=0,
    )
    assert overlaps(plan) == []
    assert offsets[:4] == [128, 0, 192, 256], "the largest of a step comes first"
    assert offsets[4] == 128, "the gap that the first left"
    assert offsets[5] == 192, "two gaps at the top, joined, and 64 bytes more"
    assert plan.arena_bytes == 448


def test_one_pass_over_random_graphs_overlaps_nowhere() -> None:
    for seed in range(100):
        buffers = [item for item in random_graph(seed) if item.size_bytes]
        sizes = [-(-item.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for item in buffers]
        offsets = best_fit(sizes, [(item.first_step, item.last_step) for item in buffers])
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
        plan = MemoryPlan(
            buffers=tuple(buffers),
            offsets_bytes=tuple(offsets),
            arena_bytes=max(ends, default=0),
            lower_bound_bytes=lower_bound_bytes(buffers),
            native_bytes=sum(sizes),
        )
        assert overlaps(plan) == [], f"seed {seed}"
        assert plan.arena_bytes <= max(2 * plan.lower_bound_bytes, sum(sizes) if len(sizes) < 3 else 0) + 64 * len(
            sizes
        )


def test_the_checker_agrees_with_the_plain_way_on_random_plans() -> None:
    generator = random.Random(1)
    verdicts = set()
    for _ in range(300):
        buffers = [
            buffer(
                f"{at}", 64 * generator.randrange(1, 4), first := generator.randrange(6), first + generator.randrange(3)
            )
            for at in range(4)
        ]
        plan = MemoryPlan(
            buffers=tuple(buffers),
            offsets_bytes=tuple(64 * generator.randrange(6) for _ in buffers),
            arena_bytes=1 << 20,
            lower_bound_bytes=0,
            native_bytes=0,
        )
        try:
            check_plan(plan)
            passed = True
        except AssertionError:
            passed = False
        assert passed == (not overlaps(plan)), str(plan)
        verdicts.add(passed)
    assert verdicts == {True, False}
