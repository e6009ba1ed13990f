"""A PyTorch model of one's own: which points lie within a circle, told by eight sides around it."""

import math

import torch


def build():
    """The model with its weights; yours may be `model.load_state_dict(torch.load(PATH, weights_only=True))`."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    angles = 2 * math.pi * (torch.arange(8) + 0.5) / 8
    with torch.no_grad():
        model[0].weight.copy_(torch.stack([angles.cos(), angles.sin()], dim=1))
        model[0].bias.fill_(-0.73)
        model[2].weight.copy_(torch.tensor([[0.0], [10.0]]).expand(2, 8))
        model[2].bias.copy_(torch.tensor([0.0, -0.05]))
    return model


def example_inputs():
    """Two samples, by input name, in the order in which the model takes its inputs."""
    return {"points": torch.rand(2, 2) * 2 - 1}
