"""albert/tf/tflite/tflite_int8-dynamic/litert/cpu/b1t1

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

    in  'input_ids': int64 (batch, tokens)
    in  'attention_mask': int64 (batch, tokens)
    out 'logits': float32 (batch, 36)

It was measured with python 3.11.7, ai-edge-litert 2.3.0.
Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer, and
the task where `bench` finds it.
"""

from pathlib import Path

from ai_edge_litert.interpreter import Interpreter


def load(path, outputs):
    interpreter = Interpreter(str(path), num_threads=1)
    if any(interpreter.get_signature_list()):
        runner = interpreter.get_signature_runner()
        return lambda feeds: runner(**feeds)
    inputs = {port["name"]: port["index"] for port in interpreter.get_input_details()}
    made = {port["name"]: port["index"] for port in interpreter.get_output_details()}

    def run(feeds):
        for name, array in feeds.items():
            interpreter.resize_tensor_input(inputs[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feeds.items():
            interpreter.set_tensor(inputs[name], array)
        interpreter.invoke()
        return {name: interpreter.get_tensor(made[name]) for name in outputs}

    return run


OUTPUTS = ['logits']
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / 'model.tflite', OUTPUTS)

if __name__ == "__main__":
    import bench
    from bench.api.errors import BenchError

    try:
        print(bench.evaluate_deployment(FOLDER, predict))
    except BenchError as error:
        raise SystemExit(f"run.py: {error}") from None
