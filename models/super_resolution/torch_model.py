"""ESPCN in PyTorch: three convolutions on the small image, a fourth whose channels are shuffled into pixels.

Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
Neural Network", CVPR 2016, with the layer sizes and ReLUs of PyTorch's ONNX tutorial, at scale 3.

Shapes: N batch, C channels, H height and W width of the low-resolution image.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

SCALE = 3


class Espcn(nn.Module):
    """Low-resolution luma (N, 1, H, W) in [0, 1] -> high-resolution luma (N, 1, 3H, 3W), not clamped."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(64, 32, kernel_size=3, padding=1)
        self.conv4 = nn.Conv2d(32, SCALE**2, kernel_size=3, padding=1)
        self.shuffle = nn.PixelShuffle(SCALE)

    def forward(self, lr_NCHW: torch.Tensor) -> torch.Tensor:
        features_NCHW = torch.relu(self.conv1(lr_NCHW))
        features_NCHW = torch.relu(self.conv2(features_NCHW))
        features_NCHW = torch.relu(self.conv3(features_NCHW))
        return self.shuffle(self.conv4(features_NCHW))


def build(weights: Path) -> Espcn:
    """The trained network, in inference mode, from a safetensors file."""
    model = Espcn()
    model.load_state_dict(load_file(weights))
    return model.eval()
