"""NNCF's quantization with accuracy control, of an OpenVINO model."""

import asking
import nncf
import openvino

tuning = asking.split("tune")


def evaluate(compiled, rows):
    rows = list(rows)
    request = compiled.create_infer_request()
    answers = []
    for row in rows:
        request.infer(tuning[row])
        answers.append([request.get_output_tensor(index).data.copy() for index in range(len(compiled.outputs))])
    return asking.score(rows, answers), None


found = nncf.quantize_with_accuracy_control(
    openvino.Core().read_model(asking.MODEL),
    calibration_dataset=nncf.Dataset(asking.split("calibrate")),
    validation_dataset=nncf.Dataset(list(range(len(tuning))), lambda row: tuning[row]),
    validation_fn=evaluate,
    max_drop=asking.MOST_DROP,
    drop_type=nncf.DropType(asking.DROP_TYPE),
)
openvino.save_model(found, asking.TARGET, compress_to_fp16=False)
