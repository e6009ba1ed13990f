"""NNCF's quantization with accuracy control, of an ONNX file."""

import asking
import nncf
import onnx
import onnxruntime

tuning = asking.split("tune")


def evaluate(model, rows):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rows = list(rows)
    return asking.score(rows, [session.run(None, tuning[row]) for row in rows]), None


found = nncf.quantize_with_accuracy_control(
    onnx.load(asking.MODEL),
    calibration_dataset=nncf.Dataset(asking.split("calibrate")),
    validation_dataset=nncf.Dataset(list(range(len(tuning))), lambda row: tuning[row]),
    validation_fn=evaluate,
    max_drop=asking.MOST_DROP,
    drop_type=nncf.DropType(asking.DROP_TYPE),
)
onnx.save(found, asking.TARGET)
