"""Exports that fail by one way through PyTorch and are written by another: plain attention, or the former exporter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Info, Samples, Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog, steps
from bench.plugins.engines.pytorch import attention
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter
from support import deferred
from support import small_models as small

torch = deferred.importorskip("torch")
transformers = deferred.importorskip("transformers")
pytestmark = pytest.mark.framework("torch")
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
TEXT = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
IMAGE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
IMAGES = TensorSpec(name="pixel_values", dtype="float32", shape=("batch", 3, 16, 16))
TOKENS = TensorSpec(name="input_ids", dtype="int64", shape=("batch", "sequence"))


def swin(**more: Any) -> Any:
    return transformers.SwinModel(transformers.SwinConfig(**SWIN, **more), add_pooling_layer=False)


def t5(**more: Any) -> Any:
    return transformers.T5EncoderModel(transformers.T5Config(**TEXT, **more))


def vit(**more: Any) -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**IMAGE, intermediate_size=16, **more))


def inside(model: Any) -> Any:
    """A module of one's own around a model of transformers."""

    class Inside(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.inside = torch.nn.ModuleList([model])

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.inside[0](given).last_hidden_state
            return hidden

    return Inside()


def task_of(make: Callable[[], Any], spec: TensorSpec, shape: tuple[int | str, ...], fed: np.ndarray) -> Task:
    class Built(small.SmallTask):
        inputs = (spec,)
        outputs = (TensorSpec(name="hidden", dtype="float32", shape=shape),)

        def build(self, source: str, weights: Path) -> Any:
            torch.manual_seed(0)
            return make().eval()

        def samples(self, split: str) -> Samples:
            return Samples(inputs={spec.name: fed}, targets=None)

    return small.make_task(Built)


def check(name: str, task: Task, folder: Path) -> Info:
    """Export a task's model, and hold the file against the model as PyTorch runs it; returns what the exporter told."""
    (spec,) = task.inputs
    fed = task.samples("test").inputs[spec.name][:3]
    info = steps.export(catalog.exporter(name), task, "torch", folder / "artifact.onnx")
    (output,) = small.run(folder / "artifact.onnx", **{spec.name: fed})
    with torch.inference_mode():
        expected = task.build("torch", folder)(torch.from_numpy(fed)).numpy()
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5)
    return info


@pytest.mark.parametrize("make", [swin, pytest.param(t5, marks=pytest.mark.thorough)])
def test_a_model_whose_fused_attention_cannot_be_exported_is_exported_with_the_plain_one(
    make: Any, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    images = generator.standard_normal((4, 3, 16, 16), dtype=np.float32)
    tokens = generator.integers(0, 60, (4, 7))
    given = (IMAGES, ("batch", 16, 16), images) if make is swin else (TOKENS, ("batch", "sequence", 16), tokens)
    task = task_of(lambda: inside(make()), *given)
    assert task.build("torch", tmp_path).inside[0].config._attn_implementation == "sdpa"
    note = 'exported with attn_implementation="eager", for its export with sdpa fails'
    assert check("torch_onnx", task, tmp_path)["note"] == note


def test_an_export_that_works_is_not_told(tmp_path: Path) -> None:
    images = np.random.default_rng(0).standard_normal((4, 3, 16, 16), dtype=np.float32)
    task = task_of(lambda: inside(swin()), IMAGES, ("batch", 16, 16), images)
    assert "note" not in check("torch_onnx_legacy", task, tmp_path)


def test_an_export_that_fails_by_something_else_keeps_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def fails(model: Any, *_: Any, **__: Any) -> None:
        tried.append(model.inside[0].config._attn_implementation)
        raise RuntimeError(f"it fails with {tried[-1]}") from ValueError(f"the cause with {tried[-1]}")

    monkeypatch.setattr(torch.onnx, "export", fails)
    images = np.zeros((4, 3, 16, 16), np.float32)
    task = task_of(lambda: inside(swin()), IMAGES, ("batch", 16, 16), images)
    with pytest.raises(ArtifactError, match=r"^RuntimeError: the cause with sdpa$"):
        catalog.exporter("torch_onnx").export(task, "torch", tmp_path / "artifact.onnx")
    assert tried == ["sdpa", "eager"]
    tried.clear()
    task = task_of(lambda: inside(swin(attn_implementation="eager")), IMAGES, ("batch", 16, 16), images)
    with pytest.raises(ArtifactError, match=r"^RuntimeError: the cause with eager$"):
        catalog.exporter("torch_onnx").export(task, "torch", tmp_path / "artifact.onnx")
    assert tried == ["eager"], "there is no other attention to try"


def both() -> Any:
    decoder = transformers.GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vit().config, decoder)
    return transformers.VisionEncoderDecoderModel(config)


@pytest.mark.parametrize(
    ("make", "replaced"),
    [
        (vit, ["sdpa"]),
        (both, ["sdpa"]),
        (lambda: vit(attn_implementation="eager"), []),
        (lambda: transformers.Swinv2Model(transformers.Swinv2Config(**SWIN)), []),
        (lambda: torch.nn.TransformerEncoderLayer(16, 2, 32), []),
    ],
)
def test_what_computes_attention_by_plain_products_already_is_not_changed(make: Any, replaced: list[str]) -> None:
    model = make()
    assert attention.use_eager(model) == replaced
    kinds = {part.config._attn_implementation for part in model.modules() if hasattr(part, "config")}
    assert kinds <= {"eager"}


@pytest.mark.parametrize("refuses", [True, False])
def test_a_class_that_knows_no_plain_attention_stays_as_it_is(refuses: bool) -> None:
    class Stubborn(transformers.ViTModel):  # type: ignore[misc, name-defined]
        def set_attn_implementation(self, *_: Any, **__: Any) -> None:
            if refuses:
                raise ValueError("only one is supported")

    model = Stubborn(vit().config)
    model.config._attn_implementation = "sdpa"
    assert attention.use_eager(model.embeddings) == []
    assert attention.use_eager(torch.nn.Sequential(model)) == []
    assert model.config._attn_implementation == "sdpa"


def branching() -> Any:
    """A module that `torch.export` refuses, for it branches on values."""

    class Branching(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return 2 * given if given.sum() > 1e6 else 3 * given

    return Branching()


class Copying(TorchThroughOnnxExporter):
    """Writes the ONNX file that it would convert."""

    writes = "onnx"

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        shutil.copyfile(path, target)
        return {"converted": True}


def test_what_is_converted_from_onnx_is_made_of_the_export_that_works(tmp_path: Path) -> None:
    images = np.ones((4, 3, 16, 16), np.float32)
    task = task_of(branching, IMAGES, IMAGES.shape, images)
    copying = Copying(name="copying", path=tmp_path)
    info = copying.export(task, "torch", tmp_path / "artifact.onnx")
    assert (info["note"], info["converted"]) == (
        "by PyTorch's former exporter, for its export by torch.export fails",
        True,
    )
    (output,) = small.run(tmp_path / "artifact.onnx", pixel_values=images[:3])
    assert (output == 3.0).all()


def test_what_no_export_takes_is_told_by_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.onnx, "export", lambda *_, dynamo, **__: 1 / 0 if dynamo else [][0])
    task = task_of(branching, IMAGES, IMAGES.shape, np.ones((4, 3, 16, 16), np.float32))
    with pytest.raises(ZeroDivisionError):
        Copying(name="copying", path=tmp_path).export(task, "torch", tmp_path / "artifact.onnx")
