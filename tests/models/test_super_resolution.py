"""The super-resolution task: one network in two frameworks, and PSNR and SSIM with the right values."""

import numpy as np
import pytest

from bench.api import Samples, loading
from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.plugins import catalog
from bench.records import metric_loss

NUM_PARAMETERS = 59_657


@pytest.fixture(scope="module")
def task():
    return catalog.task("super_resolution")


@pytest.fixture(scope="module")
def quality(task):
    return task.module("image_quality")


@pytest.fixture(scope="module")
def samples(task):
    return task.samples("test")


@pytest.fixture(scope="module")
def few(samples):
    """The first photographs, of four sizes."""
    return Samples(inputs={"lr": samples.inputs["lr"][:4]}, targets=samples.targets[:4], names=samples.names[:4])


@pytest.fixture(scope="module")
def bicubic(task):
    return task.bicubic("test")


@pytest.fixture(scope="module")
def bicubic_points(task, samples, bicubic):
    return task.points(bicubic, samples.targets)


@pytest.fixture(scope="module")
def torch_model(task):
    pytest.importorskip("torch")
    return task.build("torch", task.weights_path)


@pytest.fixture(scope="module")
def keras_model(task):
    pytest.importorskip("tensorflow")
    return task.build("tf", task.weights_path)


def run_torch(model, lr_NCHW):
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(lr_NCHW)).numpy()


def run_keras(model, lr_NCHW):
    return model(lr_NCHW).numpy()


def in_eights(run, lr_NCHW):
    """Eight photographs at a time: the activations of all would take gigabytes."""
    return np.concatenate([run(lr_NCHW[start : start + 8]) for start in range(0, len(lr_NCHW), 8)])


@pytest.fixture(scope="module")
def torch_outputs(torch_model, samples):
    return {"hr": in_eights(lambda lr_NCHW: run_torch(torch_model, lr_NCHW), samples.inputs["lr"])}


@pytest.fixture(scope="module")
def keras_outputs(keras_model, samples):
    return {"hr": in_eights(lambda lr_NCHW: run_keras(keras_model, lr_NCHW), samples.inputs["lr"])}


def perfect(samples):
    """Outputs that hold the originals, with nonsense where the metrics must not look."""
    hr_NCHW = np.full((samples.num_samples, 1, 672, 672), 7, np.float32)
    for hr_CHW, target_HW in zip(hr_NCHW, samples.targets, strict=True):
        hr_CHW[0, : target_HW.shape[0], : target_HW.shape[1]] = target_HW / np.float32(255)
    return {"hr": hr_NCHW}


@pytest.mark.parametrize(("split", "count"), [("test", 64), ("train", 16)])
def test_samples_fit_the_declared_input(task, split, count):
    samples = task.samples(split)
    lr_NCHW = samples.inputs["lr"]

    assert lr_NCHW.shape == (count, 1, 224, 224)
    assert lr_NCHW.dtype == task.inputs[0].dtype
    assert lr_NCHW.min() >= 0
    assert lr_NCHW.max() <= 1
    assert samples.num_samples == len(samples.names) == count


def test_samples_are_always_the_same(task, samples):
    again = task.samples("test")

    assert again.names == samples.names
    assert samples.names[:5] == ("astronaut", "camera", "chelsea", "coffee", "ascent")
    np.testing.assert_array_equal(again.inputs["lr"], samples.inputs["lr"])


def test_padding_repeats_the_edge(samples):
    chelsea_HW = samples.inputs["lr"][2, 0]

    np.testing.assert_array_equal(chelsea_HW[100:, :150], np.broadcast_to(chelsea_HW[99, :150], (124, 150)))
    np.testing.assert_array_equal(chelsea_HW[:, 150:], np.broadcast_to(chelsea_HW[:, 149:150], (224, 74)))


def test_perfect_outputs_have_no_loss(task, few):
    assert task.loss(perfect(few), few.targets) == pytest.approx(0, abs=1e-12)
    assert task.metrics(perfect(few), few.targets) == {"psnr_db": float("inf"), "ssim": pytest.approx(1)}


def test_loss_is_the_mean_squared_error_on_the_scale_of_0_to_1(task, few):
    outputs = {"hr": perfect(few)["hr"] + np.float32(0.1)}

    assert task.loss(outputs, few.targets) == pytest.approx(0.01, rel=1e-4)


def test_psnr_of_a_known_error(quality):
    grey_HW = np.full((30, 30), 100.0)

    assert quality.psnr_db(grey_HW + 5, grey_HW) == pytest.approx(20 * np.log10(255 / 5))


def test_metrics_of_nan_are_nan(task, few):
    hr_NCHW = perfect(few)["hr"]
    hr_NCHW[1, 0, 50, 50] = np.nan

    metrics = task.metrics({"hr": hr_NCHW}, few.targets)

    assert np.isnan(metrics["psnr_db"])
    assert np.isnan(metrics["ssim"])
    assert np.isnan(task.loss({"hr": hr_NCHW}, few.targets))


def test_metrics_ignore_a_border_of_three_pixels(task, few):
    hr_NCHW = perfect(few)["hr"]
    hr_NCHW[:, :, :3] = hr_NCHW[:, :, :, :3] = 0

    assert task.metrics({"hr": hr_NCHW}, few.targets)["psnr_db"] == float("inf")


def test_ssim_is_that_of_scikit_image(quality, samples, bicubic):
    skimage_metrics = pytest.importorskip("skimage.metrics")
    bicubic_NCHW = np.round(bicubic["hr"][::4] * 255)

    for image_CHW, target_HW in zip(bicubic_NCHW, samples.targets[::4], strict=True):
        image_HW = image_CHW[0, : target_HW.shape[0], : target_HW.shape[1]].astype(np.float64)
        expected = skimage_metrics.structural_similarity(
            image_HW,
            target_HW.astype(np.float64),
            data_range=255,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert quality.ssim(image_HW, target_HW) == pytest.approx(expected, abs=1e-9)


def test_unknown_source_is_refused(task):
    with pytest.raises(InputError, match="'jax'; it can in: torch, tf"):
        task.build("jax", task.weights_path)


@pytest.mark.framework
def test_parameter_count_in_pytorch(torch_model):
    assert sum(parameter.numel() for parameter in torch_model.parameters()) == NUM_PARAMETERS
    assert not torch_model.training


@pytest.mark.framework
def test_parameter_count_in_keras(keras_model):
    assert keras_model.count_params() == NUM_PARAMETERS


@pytest.mark.framework
@pytest.mark.thorough
def test_frameworks_agree_on_every_photograph(samples, torch_outputs, keras_outputs):
    for name, expected, actual in zip(samples.names, torch_outputs["hr"], keras_outputs["hr"], strict=True):
        assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max(), name


@pytest.mark.framework
@pytest.mark.thorough
def test_frameworks_have_the_same_psnr(task, samples, torch_outputs, keras_outputs):
    expected, actual = (task.points(each, samples.targets).values for each in (torch_outputs, keras_outputs))
    # A pixel at the edge between two grey levels may round either way: a few millionths of a dB each where the error is
    # large, and 2e-5 dB where it is small, as in the sky of a photograph that comes to 39 dB.
    limits = np.where(expected < 38, 1e-4, 5e-4)
    assert [
        name for name, error in zip(samples.names, np.abs(actual - expected) / limits, strict=True) if error > 1
    ] == []


@pytest.mark.framework
def test_network_beats_bicubic_interpolation(task, samples, torch_model, bicubic):
    targets = samples.targets[:8]
    outputs = {"hr": run_torch(torch_model, samples.inputs["lr"][:8])}, {"hr": bicubic["hr"][:8]}
    espcn, baseline = (task.metrics(each, targets) for each in outputs)
    ours, theirs = (task.points(each, targets).values for each in outputs)

    assert (ours - theirs)[:4].mean() >= 1.0  # those that the network was first measured by
    assert (ours - theirs).min() >= 0.1
    assert espcn["psnr_db"] - baseline["psnr_db"] == pytest.approx((ours - theirs).mean())
    assert espcn["ssim"] > baseline["ssim"]


@pytest.mark.framework
@pytest.mark.thorough
def test_what_the_network_gains_on_all_photographs(task, samples, torch_outputs, bicubic, bicubic_points):
    baseline = task.metrics(bicubic, samples.targets)
    espcn = task.metrics(torch_outputs, samples.targets)
    points = [task.points(torch_outputs, samples.targets), bicubic_points]
    gained_db = points[0].values - points[1].values

    assert gained_db.min() >= 0.1
    assert np.median(gained_db) == pytest.approx(task.max_metric_loss, rel=0.1)  # which is taken for all to be lost
    assert espcn["psnr_db"] - baseline["psnr_db"] == pytest.approx(gained_db.mean())
    assert espcn["ssim"] > baseline["ssim"]
    convention, largest = (
        metric_loss.lost(points[0].values, points[0].values, score=1.0, most=most)
        for most in (points[0].most, gained_db.max())
    )
    figures = f"0 of 64 photographs lose anything, the bound is {convention.high():.3f} dB"
    beside = f"with the largest gain of a photograph ({gained_db.max():.2f} dB) in its place it would be"
    said = " ".join((loading.checkout() / "docs" / "verifying.md").read_text().split())
    assert f"{figures}; {beside} {largest.high():.2g} dB" in said
    assert convention.high() < AllowedLoss().db < largest.high(), "the convention alone makes the limit attainable"


def test_the_loss_is_in_db(task, samples, bicubic, bicubic_points):
    points = bicubic_points
    hr_NCHW = bicubic["hr"].copy()
    hr_NCHW[5, 0, :100, :100] = 0.5
    worse = task.points({"hr": hr_NCHW}, samples.targets)
    lost = metric_loss.lost(worse.values, points.values, score=points.score, most=points.most)
    before, after = (task.metric(outputs, samples.targets) for outputs in (bicubic, {"hr": hr_NCHW}))

    assert points.values.mean() == pytest.approx(before)
    assert [row for row, _ in lost.points] == [5]
    assert task.metric_loss(after, before) == pytest.approx(before - after)
    assert lost.mean == pytest.approx(before - after, rel=1e-5)
    assert before - after > 0.1, "which is more than a loss that is told as a share of 30 dB would make of it"


def test_photographs_are_enough_to_show_that_less_than_a_tenth_of_a_db_is_lost(bicubic_points):
    points = bicubic_points
    lost = metric_loss.lost(points.values, points.values, score=points.score, most=points.most)

    assert points.convention == "a photograph is taken to lose at most 1 dB"
    assert lost.high() == pytest.approx(1 - 0.05 ** (1 / 64))
    assert lost.high() < 0.047
    assert lost.high(alpha=0.05 / 8) < 0.1, "even where eight lossy deployments share the error"


def test_rounding_of_a_pixel_is_no_loss(bicubic_points):
    """A few millionths of a dB, of a pixel at the edge between two grey levels."""
    points = bicubic_points
    rounded = points.values - 5e-6

    assert metric_loss.lost(rounded, points.values, score=points.score, most=points.most).points == ()


@pytest.mark.framework
@pytest.mark.parametrize("shape", [(1, 1, 224, 224), (2, 1, 17, 40), (5, 1, 33, 8)])
def test_batch_and_size_are_dynamic(torch_model, keras_model, shape):
    lr_NCHW = np.random.default_rng(0).random(shape, dtype=np.float32)

    expected = run_torch(torch_model, lr_NCHW)
    actual = run_keras(keras_model, lr_NCHW)

    assert expected.shape == actual.shape == (shape[0], 1, 3 * shape[2], 3 * shape[3])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.framework
def test_channels_are_put_in_the_order_of_depth_to_space_also_for_more_than_one(task):
    torch = pytest.importorskip("torch")
    tf = pytest.importorskip("tensorflow")
    depth_last = task.module("tf_model")._depth_last
    colours_NCHW = np.random.default_rng(0).random((2, 3 * 9, 4, 5), dtype=np.float32)

    expected = torch.nn.PixelShuffle(3)(torch.from_numpy(colours_NCHW)).numpy()
    reordered_NCHW = np.stack([depth_last(image_CHW) for image_CHW in colours_NCHW])
    actual_NHWC = tf.nn.depth_to_space(reordered_NCHW.transpose(0, 2, 3, 1), 3).numpy()

    np.testing.assert_array_equal(actual_NHWC.transpose(0, 3, 1, 2), expected)
