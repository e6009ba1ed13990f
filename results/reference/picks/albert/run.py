"""albert/torch/torch_onnx/int8_dynamic/onnxruntime/cpu/b1t1

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

    in  'input_ids': int64 (batch, tokens)
    in  'attention_mask': int64 (batch, tokens)
    out 'logits': float32 (batch, 36)

It was measured with python 3.11.7, onnxruntime 1.31.1.
Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer, and
the task where `bench` finds it.
"""

from pathlib import Path

import onnxruntime


def load(path, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: dict(zip(outputs, session.run(outputs, dict(feeds)), strict=True))


OUTPUTS = ['logits']
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / 'model.onnx', OUTPUTS)

if __name__ == "__main__":
    import bench
    from bench.api.errors import BenchError

    try:
        print(bench.evaluate_deployment(FOLDER, predict))
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from None
