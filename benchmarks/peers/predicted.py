"""The outputs of a saved deployment beside those of the model: `python predicted.py FOLDER FEEDS EXPECTED`.

Inputs and outputs are matched by their order; outputs behind the expected ones are not compared. It prints the largest
share of an output's signal by which the deployment differs: for numbers the norm of the difference over that of the
expected output, for classes the share that differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def difference(output: np.ndarray, expected: np.ndarray) -> float:
    """The share by which an output differs from the expected one; infinite for another shape."""
    if output.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return float(np.mean(output != expected))
    wide, right = output.astype(np.float64), expected.astype(np.float64)
    return float(np.linalg.norm(wide - right) / np.linalg.norm(right))


def main() -> None:
    """Run the deployment once."""
    folder = Path(sys.argv[1])
    feeds, expected = ([*np.load(path).values()] for path in sys.argv[2:])
    recipe = json.loads((folder / "deployment.json").read_text())
    sys.path.insert(0, str(folder))
    predict = __import__("run").predict
    found = predict({spec["name"]: feed for spec, feed in zip(recipe["inputs"], feeds, strict=True)})
    outputs = [found[spec["name"]] for spec in recipe["outputs"]]
    print(max(difference(np.asarray(one), right) for one, right in zip(outputs, expected, strict=False)))


if __name__ == "__main__":
    main()
