"""PyTorch as it is deployed by default: eager, in inference mode."""

from bench.plugins.engines.pytorch.runtime import TorchRuntime


class PyTorch(TorchRuntime):
    """Calls the module as it is."""

    title = "PyTorch"
    default_for = ("torch",)
