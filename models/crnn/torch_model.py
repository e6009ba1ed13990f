"""The CRNN in PyTorch: convolutions make columns of features of a text line, two LSTMs read them from left to right.

Source: Shi, Bai, Yao, "An End-to-End Trainable Neural Network for Image-based Sequence Recognition and Its Application
to Scene Text Recognition", 2015, arXiv:1507.05717; five blocks, one direction, and a flag of the field's kind beside
the features of each column.

Shapes: N batch, C channels, H rows and W columns of the image, T = W / 8 steps, K = 46 classes.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

CHANNELS = (32, 64, 64, 128, 256)
POOLS = ((2, 2), (2, 1), (2, 2), (2, 2), (2, 1))
"""Rows and columns that each block's pooling makes one: 32 rows become 1, 8 columns become a step."""
NUM_KINDS = 2
HIDDEN = 256
NUM_CLASSES = 46
"""Class 0 is CTC's blank, the others are the alphabet's 45 characters."""


class Crnn(nn.Module):
    """Image (N, 1, 32, W) in [0, 1] and field flag (N, T, 2), one-hot -> probabilities (N, T, K)."""

    def __init__(self) -> None:
        super().__init__()
        blocks = []
        for inputs, outputs, pool in zip((1, *CHANNELS), CHANNELS, POOLS, strict=False):
            block = (
                nn.Conv2d(inputs, outputs, kernel_size=3, padding=1),
                nn.LeakyReLU(0.1),
                nn.BatchNorm2d(outputs),
                nn.MaxPool2d(pool),
            )
            blocks.append(nn.Sequential(*block))
        self.blocks = nn.Sequential(*blocks)
        self.lstm1 = nn.LSTM(CHANNELS[-1] + NUM_KINDS, HIDDEN, batch_first=True)
        self.lstm2 = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.classify = nn.Linear(HIDDEN, NUM_CLASSES)

    def logits(self, image_NCHW: torch.Tensor, flag_NTC: torch.Tensor) -> torch.Tensor:
        """What softmax makes probabilities of: training takes its logarithm from here, where nothing is lost."""
        features_NTC = self.blocks(image_NCHW).squeeze(2).transpose(1, 2)
        states_NTC, _ = self.lstm1(torch.cat([features_NTC, flag_NTC], dim=2))
        states_NTC, _ = self.lstm2(states_NTC)
        return self.classify(states_NTC)

    def forward(self, image_NCHW: torch.Tensor, flag_NTC: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.logits(image_NCHW, flag_NTC), dim=2)


def build(weights: Path) -> Crnn:
    """The trained network, in inference mode, from a safetensors file."""
    model = Crnn()
    model.load_state_dict(load_file(weights))
    return model.eval()
