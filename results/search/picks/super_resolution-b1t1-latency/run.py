"""super_resolution/torch/torch_mnn/raw/mnn/cpu+winograd/b1t1

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

    in  'lr': float32 (batch, 1, height, width)
    out 'hr': float32 (batch, 1, hr_height, hr_width)

Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer.
"""

from pathlib import Path

import bench


def load(path, outputs):
    return bench.load_deployment(path.parent)


OUTPUTS = ['hr']
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / 'model.mnn', OUTPUTS)

if __name__ == "__main__":
    import bench

    print(bench.evaluate_deployment(FOLDER, predict))
