"""The training samples that quantizers measure ranges of activations on."""

from bench.api import Arrays, Task
from bench.onnxfile.shapes.feeds import sample_feeds

NUM_SAMPLES = 32


def calibration_feeds(task: Task) -> list[Arrays]:
    """Feeds of one inference for each of the first training samples, in their order."""
    samples = task.samples("train")
    return [sample_feeds(task, samples.inputs, row) for row in range(min(NUM_SAMPLES, samples.num_samples))]


def tuning_feeds(task: Task) -> list[Arrays]:
    """The calibration feeds of a variant that a search tunes: at most half of the training samples.

    The search judges proposals by the other training samples, see `bench.plugins.tuning`.
    """
    return calibration_feeds(task)[: num_calibration(task.samples("train").num_samples)]


def num_calibration(num_samples: int) -> int:
    """How many of so many training samples calibrate a variant that a search tunes; the others judge it."""
    return min(NUM_SAMPLES, num_samples // 2) or num_samples
