# ruff: noqa: RUF001 (Cyrillic letters look like Latin ones)
"""The text-line task: one network in two frameworks, and a loss and an error rate with the right values."""

import math

import numpy as np
import pytest

from bench.api import Samples
from bench.api.errors import InputError
from bench.plugins import catalog
from bench.records import metric_loss

NUM_PARAMETERS = 1_492_398
BATCH = 50


@pytest.fixture(scope="module")
def task():
    return catalog.task("crnn")


@pytest.fixture(scope="module")
def ctc(task):
    return task.module("ctc")


@pytest.fixture(scope="module")
def decoding(task):
    return task.module("decoding")


@pytest.fixture(scope="module")
def samples(task):
    return task.samples("test")


@pytest.fixture(scope="module")
def torch_model(task):
    pytest.importorskip("torch")
    return task.build("torch", task.weights_path)


@pytest.fixture(scope="module")
def keras_model(task):
    tf = pytest.importorskip("tensorflow")
    model = task.build("tf", task.weights_path)
    model.traced = tf.function(lambda *tensors: model(*tensors), reduce_retracing=True)  # eagerly the loops are slow
    return model


def run_torch(model, inputs):
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(inputs["image"]), torch.from_numpy(inputs["flag"])).numpy()


def run_keras(model, inputs):
    return model.traced(inputs["image"], inputs["flag"]).numpy()


def in_batches(run, model, inputs):
    rows = range(0, len(inputs["flag"]), BATCH)
    parts = [run(model, {name: array[row : row + BATCH] for name, array in inputs.items()}) for row in rows]
    return {"probabilities": np.concatenate(parts)}


@pytest.fixture(scope="module")
def some(samples):
    """Every fifth line: that the frameworks agree on all of them is for the contract of tasks to say."""
    inputs = {name: array[::5] for name, array in samples.inputs.items()}
    return Samples(inputs=inputs, targets=samples.targets[::5], names=samples.names[::5])


@pytest.fixture(scope="module")
def torch_outputs(torch_model, some):
    return in_batches(run_torch, torch_model, some.inputs)


def spelling(path, num_classes=46, num_steps=50):
    """Probabilities (1, T, K) of a network that is sure of a class at each step; blank where none is given."""
    probabilities_NTK = np.zeros((1, num_steps, num_classes), np.float32)
    for step in range(num_steps):
        probabilities_NTK[0, step, path[step] if step < len(path) else 0] = 1
    return probabilities_NTK


def perfect(targets):
    """Outputs that spell the targets, with a blank between equal neighbours only."""
    rows = []
    for target in targets:
        path = []
        for label in target.labels:
            path += [0, label] if path and path[-1] == label else [label]
        rows.append(spelling(path))
    return {"probabilities": np.concatenate(rows)}


@pytest.mark.parametrize(("split", "num_seen", "num_new"), [("test", 1500, 200), ("train", 128, 0)])
def test_samples_fit_the_declared_inputs(task, split, num_seen, num_new):
    samples = task.samples(split)
    image_NCHW, flag_NTC = samples.inputs["image"], samples.inputs["flag"]

    for spec in task.inputs:
        assert samples.inputs[spec.name].shape[1:] == spec.shape[1:]
        assert samples.inputs[spec.name].dtype == spec.dtype
    assert 0 <= image_NCHW.min() < image_NCHW.max() <= 1
    np.testing.assert_array_equal(flag_NTC.sum(axis=2), 1)
    for flag_TC, target in zip(flag_NTC, samples.targets, strict=True):
        assert (flag_TC[:, 1] == any(character.isdigit() for character in target.text)).all()
    assert [target.is_new_font for target in samples.targets] == [False] * num_seen + [True] * num_new
    assert samples.num_samples == len(set(samples.names)) == num_seen + num_new


def test_labels_are_places_in_the_alphabet_and_keep_double_letters(task, samples):
    alphabet = task.form_lines().ALPHABET

    for target in samples.targets:
        assert "".join(alphabet[label - 1] for label in target.labels) == target.text
    assert any(one == other for target in samples.targets for one, other in zip(target.text, target.text[1:]))  # noqa: B905


def test_perfect_outputs_have_no_loss_and_no_errors(task, samples):
    outputs = perfect(samples.targets)

    assert task.loss(outputs, samples.targets) == pytest.approx(0, abs=1e-12)
    assert task.metrics(outputs, samples.targets) == {
        "line_cer": 0,
        "line_cer_new_fonts": 0,
        "cer": 0,
        "lines_right": 1,
        "cer_new_fonts": 0,
        "lines_right_new_fonts": 1,
    }


def test_error_rate_is_edits_over_characters_of_each_kind_of_font(task, samples):
    targets = [samples.targets[row] for row in (0, 1, 1500)]
    assert [target.text for target in targets[:2]] == ["56 68 282330", "24.01.1977"]
    outputs = perfect(targets)
    outputs["probabilities"][0] = spelling([40, 40, 3])[0]  # two letters that are not in it: 12 edits
    outputs["probabilities"][2] = spelling([])[0]  # nothing read: every character is an edit

    metrics = task.metrics(outputs, targets)

    assert metrics["cer"] == pytest.approx(12 / 22)
    assert metrics["line_cer"] == pytest.approx((12 / 12 + 0 / 10) / 2)
    assert metrics["lines_right"] == 1 / 2
    assert metrics["cer_new_fonts"] == 1
    assert metrics["lines_right_new_fonts"] == 0


def test_points_are_the_share_that_is_read_of_lines_in_fonts_of_the_training_set(task, samples):
    targets = [samples.targets[row] for row in (1500, 0, 1)]
    outputs = perfect(targets)
    outputs["probabilities"][0] = spelling([])[0]
    outputs["probabilities"][1] = spelling([40, 40, 3])[0]  # 12 edits of 12 characters
    outputs["probabilities"][2] = spelling([*targets[2].labels, 7])[0]  # a character too many, of 10

    points = task.points(outputs, targets)

    assert points.values.tolist() == [0, 0.9]
    assert list(points.rows) == [1, 2]
    assert points.score == pytest.approx(1 - task.metrics(outputs, targets)["line_cer"])
    assert points.most == 1


def test_a_line_loses_no_more_than_the_most(task, samples):
    """Fifty characters read into any line of the split."""
    noise = {"probabilities": np.tile(spelling([1, 2] * 25), (samples.num_samples, 1, 1))}
    right = task.points(perfect(samples.targets), samples.targets)
    lost = right.values - task.points(noise, samples.targets).values

    assert 0.9 < lost.max() <= right.most


def test_lines_are_enough_to_show_that_less_than_a_hundredth_is_lost(task, samples):
    right = task.points(perfect(samples.targets), samples.targets)

    assert metric_loss.lost(right.values, right.values, score=right.score, most=right.most).high() < 0.0021


def test_figures_over_no_lines_are_nan(task, samples):
    metrics = task.metrics(perfect(samples.targets[:5]), samples.targets[:5])

    assert metrics["cer"] == 0
    assert math.isnan(metrics["cer_new_fonts"])
    assert math.isnan(metrics["lines_right_new_fonts"])


def test_figures_of_nan_are_nan(task, samples):
    outputs = perfect(samples.targets)
    outputs["probabilities"][2, 49, 45] = np.nan

    metrics = task.metrics(outputs, samples.targets)

    assert math.isnan(task.loss(outputs, samples.targets))
    assert math.isnan(metrics["cer"])
    assert math.isnan(metrics["lines_right"])
    assert metrics["cer_new_fonts"] == 0


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ([0, 0, 0], []),
        ([14, 14, 14], [14]),
        ([14, 0, 14], [14, 14]),
        ([0, 14, 14, 0, 0, 14, 15, 15], [14, 14, 15]),
        ([14, 15, 14], [14, 15, 14]),
    ],
)
def test_greedy_labels(decoding, path, labels):
    assert decoding.greedy_labels(spelling(path)) == [labels]


@pytest.mark.parametrize(
    ("found", "expected", "edits"),
    [
        ("", "", 0),
        ("АННА", "АННА", 0),
        ("АНА", "АННА", 1),
        ("АННАА", "АННА", 1),
        ("", "АННА", 4),
        ("АННА", "", 4),
        ("КОТ", "ТОК", 2),
        ("КОТ", "ОТК", 2),
        ("АБВГД", "ДГВБА", 4),
    ],
)
def test_edit_distance(decoding, found, expected, edits):
    assert decoding.edit_distance(found, expected) == edits


def test_ctc_of_every_way_to_spell_one_label(ctc):
    probabilities_NTK = np.array([[[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]])
    ways = 0.5 * 0.1 + 0.5 * 0.6 + 0.2 * 0.1  # twice, first, second

    assert ctc.negative_log_likelihood(probabilities_NTK, [[1]]) == pytest.approx([-math.log(ways)], rel=1e-12)


def test_ctc_asks_for_a_blank_in_a_double_label(ctc):
    probabilities_NTK = np.array([[[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.7, 0.2]]])

    loss_N = ctc.negative_log_likelihood(np.repeat(probabilities_NTK, 2, axis=0), [[1, 1], [1, 1, 1]])

    assert loss_N[0] == pytest.approx(-math.log(0.5 * 0.6 * 0.7), rel=1e-12)
    assert loss_N[1] == math.inf  # five steps are needed


def test_ctc_takes_probabilities_as_they_are(ctc):
    # A second softmax would make of certainty a chance of e / (e + 45), a loss of over 100 for 50 steps.
    assert ctc.negative_log_likelihood(spelling([14, 15]), [[14, 15]]) == pytest.approx([0], abs=1e-12)


def test_ctc_of_an_impossible_label_is_large_and_finite(ctc):
    smallest = float(np.finfo(np.float32).tiny)

    loss_N = ctc.negative_log_likelihood(spelling([14], num_steps=1), [[15]])

    assert loss_N == pytest.approx([-math.log(smallest)])


@pytest.mark.framework("torch")
def test_ctc_is_that_of_pytorch(ctc):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    logits_NTK = torch.from_numpy(random.normal(0, 3, (40, 50, 46)))
    targets = [random.integers(1, 6, random.integers(0, 20)).tolist() for _ in range(40)]  # many double labels
    assert [] in targets

    expected = torch.nn.functional.ctc_loss(
        logits_NTK.log_softmax(2).transpose(0, 1),
        torch.tensor([label for target in targets for label in target]),
        torch.full((40,), 50),
        torch.tensor([len(target) for target in targets]),
        reduction="none",
    )

    loss_N = ctc.negative_log_likelihood(logits_NTK.softmax(2).numpy(), targets)
    np.testing.assert_allclose(loss_N, expected.numpy(), rtol=1e-9)
    in_float32_N = ctc.negative_log_likelihood(logits_NTK.softmax(2).float().numpy(), targets)
    np.testing.assert_allclose(in_float32_N, expected.numpy(), rtol=1e-6)


def test_unknown_source_is_refused(task):
    with pytest.raises(InputError, match="'jax'; it can in: torch, tf"):
        task.build("jax", task.weights_path)


@pytest.mark.framework
def test_parameter_count_in_pytorch(torch_model):
    assert sum(parameter.numel() for parameter in torch_model.parameters()) == NUM_PARAMETERS
    assert not torch_model.training


@pytest.mark.framework
def test_parameter_count_in_keras(keras_model):
    assert sum(math.prod(variable.shape) for variable in keras_model.trainable_weights) == NUM_PARAMETERS


@pytest.mark.framework
def test_trained_network_reads_lines(task, some, torch_outputs):
    metrics = task.metrics(torch_outputs, some.targets)

    assert metrics["cer"] <= 0.005
    assert metrics["cer_new_fonts"] <= 0.03
    assert metrics["lines_right"] >= 0.95


@pytest.mark.framework
def test_the_flag_matters(task, samples, torch_model):
    rows = slice(0, BATCH)
    inputs = {"image": samples.inputs["image"][rows], "flag": 1 - samples.inputs["flag"][rows]}

    outputs = {"probabilities": run_torch(torch_model, inputs)}

    assert task.metrics(outputs, samples.targets[rows])["cer"] > 0.1


@pytest.mark.framework
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_batch_is_dynamic(some, torch_model, keras_model, torch_outputs, batch):
    inputs = {name: array[:batch] for name, array in some.inputs.items()}
    expected = torch_outputs["probabilities"][:batch]

    np.testing.assert_allclose(run_torch(torch_model, inputs), expected, atol=1e-5)
    np.testing.assert_allclose(run_keras(keras_model, inputs), expected, atol=1e-5)


@pytest.mark.framework
def test_both_biases_of_the_keras_lstm_count(task):
    torch = pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    lstm = torch.nn.LSTM(7, 5, batch_first=True)
    x_NTC = np.random.default_rng(0).normal(size=(3, 6, 7)).astype(np.float32)
    module = task.module("tf_model")
    layer = module.Lstm(5)
    layer.build(x_NTC.shape)
    tensors = {f"lstm.{name}": tensor.detach().numpy() for name, tensor in lstm.named_parameters()}
    layer.set_weights(module._lstm_weights(tensors, "lstm"))

    np.testing.assert_allclose(
        layer(x_NTC).numpy(), lstm(torch.from_numpy(x_NTC))[0].detach().numpy(), rtol=0, atol=1e-6
    )
