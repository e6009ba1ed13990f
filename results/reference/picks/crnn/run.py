"""crnn/torch/torch_openvino/raw/openvino/cpu-bf16/b1t1

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

    in  'image': float32 (batch, 1, 32, 400)
    in  'flag': float32 (batch, 50, 2)
    out 'probabilities': float32 (batch, 50, 46)

It was measured with python 3.11.7, openvino 2026.4.1.
Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer, and
the task where `bench` finds it.
"""

from pathlib import Path

import tarfile
import tempfile

import openvino


def load(path, outputs):
    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    if path.suffix == ".onnx":
        compiled = core.compile_model(path, "CPU", settings)
    else:  # OpenVINO IR, its two files in one archive
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
            compiled = core.compile_model(f"{folder}/model.xml", "CPU", settings)
    ports = [compiled.output(name) for name in outputs]
    infer = compiled.create_infer_request().infer

    def run(feeds):
        results = infer(dict(feeds))
        return {name: results[port] for name, port in zip(outputs, ports, strict=True)}

    return run


OUTPUTS = ['probabilities']
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / 'model.openvino', OUTPUTS)

if __name__ == "__main__":
    import bench
    from bench.api.errors import BenchError

    try:
        print(bench.evaluate_deployment(FOLDER, predict))
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from None
