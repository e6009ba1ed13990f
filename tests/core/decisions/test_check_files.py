"""The guard judges the outputs of two files of a model: what it says of models that answer something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.decisions import check
from bench.decisions.check import Pair
from bench.measure.limits import Limits
from bench.plugins import catalog
from bench.tasks import adopt
from bench.tasks.user_task import OwnTask

GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(100, 6)).astype(np.float32)
HEAD = GENERATOR.normal(size=(6, 1)).astype(np.float32)
SCORES = (X @ HEAD)[:, 0]
TEST = np.arange(len(X)) % 5 != 0
LIMITS = Limits.of(step_s=None, memory_bytes=None)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_PATH", "")


def save(path: Path, head: np.ndarray = HEAD, activation: str | None = "Sigmoid", bias: float = 0.0) -> Path:
    nodes = [helper.make_node("Gemm", ["x", "head", "bias"], ["z" if activation else "p"])]
    nodes += [helper.make_node(activation, ["z"], ["p"])] if activation else []
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", 1])],
        [numpy_helper.from_array(head, "head"), numpy_helper.from_array(np.array([bias], np.float32), "bias")],
    )
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def pair(pinned: Path, new: Path, targets: np.ndarray | None) -> Pair:
    options = adopt.Options()
    if targets is not None:
        np.savez(pinned.parent / "data.npz", x=X, targets=targets)
        options = adopt.Options(dataset=pinned.parent / "data.npz")
    return check.pair_of_files(pinned, new, options=options, limits=LIMITS)


def accuracies(found: Pair) -> tuple[float | None, float | None]:
    qualities = (found.pinned.quality, found.new.quality)
    return tuple((quality.metrics or {}).get("accuracy") for quality in qualities)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("head", "right"),
    [(HEAD, 1.0), (-HEAD, 0.0), (0 * HEAD, float(np.mean(SCORES[TEST] <= 0)))],
    ids=["itself", "opposite", "constant"],
)
def test_a_single_score_tells_right_from_wrong(head: np.ndarray, right: float, tmp_path: Path) -> None:
    found = pair(save(tmp_path / "old.onnx"), save(tmp_path / "new.onnx", head), (SCORES > 0).astype(int))
    assert accuracies(found) == (1.0, pytest.approx(right))
    assert found.new.quality.metric_loss == pytest.approx(1 - right)
    assert any("accuracy compares output 'p' above 0.5" in note for note in found.notes)


def test_the_rule_of_the_pinned_model_judges_both(tmp_path: Path) -> None:
    """A copy that gives logits answers otherwise where they lie between 0 and the threshold of probabilities."""
    found = pair(save(tmp_path / "old.onnx"), save(tmp_path / "new.onnx", activation=None), (SCORES > 0).astype(int))
    between = float(np.mean((SCORES[TEST] > 0) & (SCORES[TEST] <= 0.5)))
    assert between > 0
    assert accuracies(found) == (1.0, pytest.approx(1 - between))


def test_two_files_of_one_name_are_two_models(tmp_path: Path) -> None:
    old, new = save(tmp_path / "a" / "model.onnx"), save(tmp_path / "b" / "model.onnx", -HEAD)
    found = pair(old, new, (SCORES > 0).astype(int))
    assert accuracies(found) == (1.0, 0.0)
    assert (str(found.pinned.cell.task), str(found.new.cell.task)) == ("model", "model_new")


def test_a_metric_no_better_than_chance_is_warned_of(tmp_path: Path) -> None:
    unlike = np.random.default_rng(0).integers(0, 2, len(X))
    path = save(tmp_path / "old.onnx")
    (warning,) = [note for note in pair(path, path, unlike).notes if note.startswith("WARNING")]
    assert "is no better than chance" in warning
    assert not [note for note in pair(path, path, (SCORES > 0).astype(int)).notes if note.startswith("WARNING")]


def two_headed(path: Path, boxes: float, head: np.ndarray = HEAD) -> Path:
    """A detector: a score that the targets judge, and boxes that they do not."""
    outputs = {"p": 1, "boxes": 4}
    weights = {"head": head, "corners": (boxes * np.arange(1, 25).reshape(6, 4) / 24).astype(np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "head"], ["z"]),
            helper.make_node("Sigmoid", ["z"], ["p"]),
            helper.make_node("MatMul", ["x", "corners"], ["boxes"]),
        ],
        "detector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in outputs.items()],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("boxes", "is_right"), [(1.0, True), (1.005, True), (1.02, False), (-5.0, False)])
def test_outputs_that_the_metric_does_not_judge_are_held_to_the_same_share(
    boxes: float, is_right: bool, tmp_path: Path
) -> None:
    old, new = two_headed(tmp_path / "old.onnx", 1.0), two_headed(tmp_path / "new.onnx", boxes)
    found = pair(old, new, (SCORES > 0).astype(int))
    assert accuracies(found) == (1.0, 1.0)
    fault = check.fault_of(found, max_metric_loss=AllowedLoss())
    assert (fault is None) == is_right
    if fault is not None:
        assert fault.startswith(f"output 'boxes' differs by {check.percent(100 * abs(boxes - 1))} of its values")


def test_where_the_metric_tells_nothing_the_outputs_do(tmp_path: Path) -> None:
    unlike = np.random.default_rng(0).integers(0, 2, len(X))
    old = save(tmp_path / "old.onnx")
    assert check.fault_of(pair(old, old, unlike), max_metric_loss=AllowedLoss()) is None
    fault = check.fault_of(
        pair(old, save(tmp_path / "new.onnx", HEAD[::-1]), unlike), max_metric_loss=AllowedLoss(share=1.5)
    )
    assert fault is None, "a limit of more than everything allows everything"
    found = pair(old, save(tmp_path / "new.onnx", 0.9 * HEAD), unlike)
    assert found.new.quality.metric_loss == 0, "no score is on the other side of the threshold"
    assert "output 'p' differs by" in str(check.fault_of(found, max_metric_loss=AllowedLoss()))


def test_a_pinned_error_of_zero_lets_nothing_pass(tmp_path: Path) -> None:
    """Golden outputs as targets: any error is infinitely more than none."""
    old, new = save(tmp_path / "old.onnx", activation=None), save(tmp_path / "new.onnx", 3 * HEAD, activation=None)
    golden = onnxruntime.InferenceSession(old).run(["p"], {"x": X})[0]
    assert check.fault_of(pair(old, old, golden), max_metric_loss=AllowedLoss()) is None
    assert "output 'p' differs by 200 % of its values" in str(
        check.fault_of(pair(old, new, golden), max_metric_loss=AllowedLoss())
    )
    near = save(tmp_path / "near.onnx", HEAD * np.float32(1 + 1e-5), activation=None)
    assert check.fault_of(pair(old, near, golden), max_metric_loss=AllowedLoss()) is None, "rounding alone"


def test_estimators_of_other_classes_are_no_pair(tmp_path: Path) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    paths = []
    for first in (0, 1):
        paths.append(tmp_path / f"from{first}.pkl")
        joblib.dump(LogisticRegression().fit(X, first + np.arange(len(X)) % 3), paths[-1])
    options = adopt.Options(trust=True)
    with pytest.raises(InputError, match=r"from1\.pkl says the classes \(1, 2, 3\), and .*from0\.pkl says \(0, 1, 2\)"):
        check.pair_of_files(*paths, options=options, limits=LIMITS)
    assert check.pair_of_files(paths[0], paths[0], options=options, limits=LIMITS).new.quality.fidelity == "exact"


MODULE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(6, 2)

    def forward(self, x):
        return {sign}self.head(x)

def build():
    torch.manual_seed(0)
    return Model().eval()

def example_inputs():
    return {{"x": torch.ones(2, 6)}}
"""


@pytest.mark.framework("torch")
@pytest.mark.parametrize(
    "folders",
    [pytest.param(("a", "b"), id="same name"), pytest.param(("a", "a"), id="same folder", marks=pytest.mark.thorough)],
)
def test_code_that_differs_is_another_model_with_the_same_weights(folders: tuple[str, str], tmp_path: Path) -> None:
    paths = [
        tmp_path / folders[0] / "model.py",
        tmp_path / folders[1] / ("model.py" if folders[0] != folders[1] else "n.py"),
    ]
    for path, sign in zip(paths, ("", "-"), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(MODULE.format(sign=sign))
    found = pair(paths[0], paths[1], None)
    assert found.new.quality.fidelity == "broken"
    itself = (found.pinned.cell, found.pinned.artifact)
    assert check.pair(*itself, *itself, LIMITS).new.quality.fidelity == "exact"


@pytest.mark.framework("torch")
def test_code_that_has_changed_is_not_run_under_its_old_name(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(MODULE.format(sign=""))
    task = catalog.task(adopt.adopt(path).name)
    assert isinstance(task, OwnTask)
    task.refuse_changed()
    path.write_text(MODULE.format(sign="-"))
    for run in (lambda: task.import_packages("torch"), lambda: task.build("torch", task.weights_path)):
        with pytest.raises(InputError, match=r"net\.py has changed since net was made of it; `bench run --model` with"):
            run()
    path.unlink()
    with pytest.raises(InputError, match="has changed"):
        task.refuse_changed()


def test_a_metric_that_has_changed_judges_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data.py"
    text = "import numpy as np\nmetric_name = 'm'\ndef metrics(o, t): return {'m': 1.0}\n"
    data.write_text(f"{text}def samples(split): return {{'x': np.zeros((4, 6), np.float32)}}, None\n")
    task = catalog.task(adopt.adopt(save(tmp_path / "m.onnx"), adopt.Options(dataset=data)).name)
    assert task.samples("test").num_samples == 4
    data.write_text(data.read_text().replace("1.0", "2.0"))
    with pytest.raises(InputError, match=r"data\.py has changed"):
        task.samples("test")
