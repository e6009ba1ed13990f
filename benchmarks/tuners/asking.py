"""What the tuners of this folder share: samples in, and the score of answers from the process that started them.

A tuner runs in an environment of its own, without this project. `python TUNER MODEL DATA TARGET MOST_DROP
DROP_TYPE` tunes the model with the samples of DATA, an .npz file of the inputs as `calibrate_<name>` and `tune_<name>`,
and writes TARGET; the drop is `relative` to the score, or `absolute` where the score is in dB.
For each evaluation it writes the outputs to a file, prints its path, and reads the score from its standard input.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

MODEL, DATA, TARGET = Path(sys.argv[1]), np.load(sys.argv[2]), Path(sys.argv[3])
MOST_DROP, DROP_TYPE = float(sys.argv[4]), sys.argv[5]
FOLDER = Path(tempfile.mkdtemp())


def split(kind: str) -> list[dict[str, np.ndarray]]:
    """The samples of a split, each as one request by input name."""
    arrays = {name.removeprefix(f"{kind}_"): DATA[name] for name in DATA.files if name.startswith(f"{kind}_")}
    number = len(next(iter(arrays.values())))
    return [{name: array[row : row + 1] for name, array in arrays.items()} for row in range(number)]


def score(rows: list[int], outputs: list[list[np.ndarray]]) -> float:
    """The score of the answers to some samples, higher is better; this is an evaluation of the metric."""
    path = FOLDER / "outputs.npz"
    arrays = {f"output_{number}": np.concatenate(each) for number, each in enumerate(zip(*outputs, strict=True))}
    np.savez(path, rows=np.array(rows), **arrays)
    print(f"score {path}", flush=True)
    return float(sys.stdin.readline())
