"""Loops and branches that torch.jit keeps, recurrent layers, several inputs and outputs, external data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus_models import Listed


def make(home: Path) -> Listed:
    import onnx
    import torch

    class Steps(torch.nn.Module):
        """A cell that runs once for each step, as a Loop."""

        def __init__(self) -> None:
            super().__init__()
            self.read, self.keep = torch.nn.Linear(32, 512), torch.nn.Linear(512, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = torch.zeros(x.size(1), 512)
            for step in range(x.size(0)):
                state = torch.tanh(self.read(x[step]) + self.keep(state))
            return state

    class Gated(torch.nn.Module):
        """A branch that the values choose, as an If."""

        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = torch.nn.Linear(64, 512), torch.nn.Linear(64, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.mean() > 0):
                return self.wide(x)
            return torch.relu(self.narrow(x))

    class Tagger(torch.nn.Module):
        """Embeddings, a bidirectional LSTM, an RNN, and a class for each token."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(5000, 64)
            self.lstm = torch.nn.LSTM(64, 128, bidirectional=True, batch_first=True)
            self.rnn = torch.nn.RNN(256, 64, batch_first=True)
            self.classes = torch.nn.Linear(64, 17)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.classes(self.rnn(self.lstm(self.embed(tokens))[0])[0])

    class Two(torch.nn.Module):
        """Two inputs and two outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(512, 512), torch.nn.Linear(256, 512)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mixed = self.first(a) * self.second(b)
            return mixed, mixed.argmax(-1)

    class Volumes(torch.nn.Module):
        """Convolutions over volumes, and a transposed one back to the size before."""

        def __init__(self) -> None:
            super().__init__()
            self.down = torch.nn.Conv3d(1, 16, 3, stride=2, padding=1)
            self.up = torch.nn.ConvTranspose3d(16, 2, 2, stride=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(torch.relu(self.down(x)))

    listed: Listed = {}
    torch.manual_seed(0)

    def export(name: str, model: Any, feeds: dict[str, str], axes: dict[str, Any], opset: int, domain: str) -> None:
        arguments = tuple(
            torch.zeros(tuple(map(int, feed.split()[1].split("x"))), dtype=getattr(torch, feed.split()[0]))
            for feed in feeds.values()
        )
        torch.onnx.export(
            model, arguments, str(home / name), input_names=list(feeds), dynamic_axes=axes, opset_version=opset,
            dynamo=False,
        )  # fmt: skip
        listed[name] = (domain, feeds)

    sizes = {"x": {0: "steps", 1: "batch"}}
    export("steps.onnx", torch.jit.script(Steps()), {"x": "float32 5x1x32"}, sizes, 14, "a loop")
    export("gated.onnx", torch.jit.script(Gated()), {"x": "float32 1x64"}, {"x": {0: "n"}}, 16, "a branch")
    tokens = {"tokens": {0: "batch", 1: "length"}}
    export("tagger.onnx", Tagger().eval(), {"tokens": "int64 1x24 0..4999"}, tokens, 11, "tags of words")
    pair = {"a": "float32 1x512", "b": "float32 1x256"}
    export("two.onnx", Two(), pair, {"a": {0: "n"}, "b": {0: "n"}}, 12, "two inputs and outputs")
    export("volumes.onnx", Volumes(), {"x": "float32 1x1x16x32x32"}, {"x": {0: "n"}}, 10, "segmentation of volumes")
    (home / "external").mkdir(exist_ok=True)
    onnx.save(
        onnx.load(home / "two.onnx"), home / "external" / "two.onnx", save_as_external_data=True,
        all_tensors_to_one_file=False, size_threshold=0,
    )  # fmt: skip
    listed["external/two.onnx"] = ("external data in several files", pair)
    torch.jit.script(Tagger().eval()).save(str(home / "tagger.pt"))
    listed["tagger.pt"] = ("tags of words", listed["tagger.onnx"][1])
    return listed
