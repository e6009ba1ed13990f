"""The training samples that quantizers measure ranges of activations on."""

from bench.api import Arrays, Task
from bench.graphs.shapes.feeds import sample_feeds

NUM_SAMPLES = 32


def calibration_feeds(task: Task) -> list[Arrays]:
    """Feeds of one inference for each of the first training samples, in their order."""
    samples = task.samples("train")
    return [sample_feeds(task, samples.inputs, row) for row in range(min(NUM_SAMPLES, samples.num_samples))]
