"""Whether a model's folder holds the same network twice, for transformers and as ONNX.

Usage: same_outputs.py MODEL_FOLDER TOKENS, with the Python of the environment that `beside_optimum.py` makes.
"""

import sys

import numpy as np
import onnxruntime
import torch
from transformers import AutoModelForSequenceClassification

CLOSE = 1e-4


def main() -> None:
    """Compare the outputs for random tokens; exit with a message if they differ."""
    folder, tokens = sys.argv[1], int(sys.argv[2])
    network = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    ids_NT = np.random.default_rng(0).integers(4, network.config.vocab_size, (4, tokens))
    feeds = {"input_ids": ids_NT, "attention_mask": np.ones_like(ids_NT)}
    with torch.inference_mode():
        logits_NL = network(**{name: torch.from_numpy(array) for name, array in feeds.items()}).logits.numpy()
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])
    (other_NL,) = session.run(None, feeds)
    error = np.abs(other_NL - logits_NL).max() / np.abs(logits_NL).max()
    if not error <= CLOSE:
        raise SystemExit(f"the two models of {folder} differ by {error:.1e} of the largest output")


if __name__ == "__main__":
    main()
