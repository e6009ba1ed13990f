"""Neural Compressor's accuracy-driven tuning of an ONNX file, static and dynamic quantization alike."""

import asking
import onnxruntime
from neural_compressor import PostTrainingQuantConfig, quantization
from neural_compressor.config import AccuracyCriterion, TuningCriterion

MOST_TRIALS = 100  # its own default; it ends at the first model that keeps the metric
tuning = asking.split("tune")


class Loader:
    """The samples as Neural Compressor takes them: the inputs by name, and a label that nothing reads."""

    batch_size = 1

    def __iter__(self):
        return ((sample, 0) for sample in asking.split("calibrate"))


def evaluate(model):
    content = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    rows = list(range(len(tuning)))
    return asking.score(rows, [session.run(None, tuning[row]) for row in rows])


settings = PostTrainingQuantConfig(
    approach="auto",
    accuracy_criterion=AccuracyCriterion(criterion=asking.DROP_TYPE, tolerable_loss=asking.MOST_DROP),
    tuning_criterion=TuningCriterion(max_trials=MOST_TRIALS, timeout=0),
)
found = quantization.fit(str(asking.MODEL), settings, calib_dataloader=Loader(), eval_func=evaluate)
if found is None:
    raise SystemExit("it found no model that keeps the metric")
found.save(str(asking.TARGET))
