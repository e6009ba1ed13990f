"""Folders of transformers and sentence-transformers: each becomes a task that gives the outputs of the saved model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.api import Task, TensorSpec
from bench.api.errors import InputError
from bench.plugins import catalog
from bench.tasks.examine import examine

pytestmark = pytest.mark.framework("torch")
Examined = Callable[..., tuple[Task, dict[str, Any]]]
TEXT = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "max_position_embeddings": 32, "num_labels": 3,
}  # fmt: skip
IMAGE = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 32,
    "patch_size": 8, "num_labels": 3,
}  # fmt: skip
WAVE = {
    "vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "conv_dim": [8, 8], "conv_stride": [20, 16], "conv_kernel": [20, 16], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "num_labels": 3, "classifier_proj_size": 8,
}  # fmt: skip
WHISPER = {
    "vocab_size": 60, "num_mel_bins": 8, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
    "max_source_positions": 20, "max_target_positions": 24, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 3,
}  # fmt: skip
PROOF = "import pathlib; pathlib.Path(__file__).with_name('executed').touch()\n"
CODE = """
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from .helper import doubled

class MineConfig(PreTrainedConfig):
    model_type = "mine"
    size: int = 4

class Mine(PreTrainedModel):
    config_class = MineConfig
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.head = torch.nn.Linear(config.size, 2)
        self.post_init()

    def forward(self, pixel_values):
        return {"scores": doubled(self.head(pixel_values.mean((2, 3))))}
"""


@pytest.fixture
def examined(plugin_folder: Path) -> Examined:
    """Examines a folder in this process and gives its task."""

    def run(
        path: Path, *, module: str = "transformers", trust: bool = False, **asked: Any
    ) -> tuple[Task, dict[str, Any]]:
        if (plugin_folder / "models").exists():
            (plugin_folder / "models").rename(plugin_folder / f"done_{len(list(plugin_folder.iterdir()))}")
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"data": None, "dims": (), "shapes": (), **asked}
        found = examine(module=module, path=str(path), folder=str(folder), trust=trust, **request)
        catalog.forget()
        return catalog.task("mine"), found

    return run


def saved(folder: Path, name: str, config: Any, *, processor: dict[str, Any] | None = None) -> tuple[Path, Any]:
    """A model with random weights, saved in a folder of its own."""
    import torch
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, name, None)
    if kind is None:
        from transformers.models.whisper import modeling_whisper

        kind = getattr(modeling_whisper, name)
    model = kind(config).eval()
    model.save_pretrained(folder / name)
    if processor is not None:
        (folder / name / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder / name, model


def outputs_of(task: Task, model: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outputs of the saved model by name, and of the task's, for the first two test samples."""
    import torch

    feeds = {spec.name: torch.from_numpy(task.samples("test").inputs[spec.name][:2]) for spec in task.inputs}
    names = [spec.name for spec in task.outputs]
    with torch.inference_mode():
        expected = model(**feeds)
        given = task.build("torch", task.weights_path)(*feeds.values())
    by_name = dict(zip(names, (output.numpy() for output in given), strict=True))
    return {name: expected[name].numpy() for name in names if name in expected}, by_name


def check_export(task: Task, folder: Path, *, exporter: str = "torch_onnx_legacy") -> None:
    """The ONNX file gives the outputs of the model, for a request of another size than it was traced with."""
    import torch

    path = folder / "model.onnx"
    catalog.exporter(exporter).export(task, "torch", path)
    inputs = task.samples("test").inputs
    feeds = {spec.name: inputs[spec.name][:3] for spec in task.inputs}
    with torch.inference_mode():
        expected = task.build("torch", task.weights_path)(*[torch.from_numpy(array) for array in feeds.values()])
    opener = catalog.runtime("onnxruntime")
    with opener.open(path, task=task, source="torch", provider="cpu", threads=1) as session:
        for output, wanted in zip(session.run(feeds), expected, strict=True):
            np.testing.assert_allclose(output, wanted.numpy(), atol=1e-4)


def test_text_classifier(examined: Examined, tmp_path: Path) -> None:
    from transformers import BertConfig

    path, model = saved(tmp_path, "BertForSequenceClassification", BertConfig(**TEXT))
    task, found = examined(path)
    assert found["guessed"] == {"sequence": 16}
    ids = ("batch", "sequence")
    assert task.inputs == (
        TensorSpec(name="input_ids", dtype="int64", shape=ids),
        TensorSpec(name="attention_mask", dtype="int64", shape=ids),
    )
    assert task.outputs == (TensorSpec(name="logits", dtype="float32", shape=("batch", 3)),)
    expected, given = outputs_of(task, model)
    np.testing.assert_allclose(given["logits"], expected["logits"], atol=1e-6)
    check_export(task, tmp_path)
    with pytest.raises(InputError, match=r"sequence=40: its config\.json has positions for 32 tokens"):
        examined(path, dims=("sequence=40",))


def test_text_classifier_that_looks_for_the_end_of_the_text(examined: Examined, tmp_path: Path) -> None:
    """BART pools the tokens that end a text, and refuses texts without any."""
    from transformers import BartConfig

    sizes = {f"{side}_{key}": 1 if key == "layers" else 2 if "heads" in key else 16
             for side in ("encoder", "decoder") for key in ("layers", "attention_heads", "ffn_dim")}  # fmt: skip
    config = BartConfig(vocab_size=60, d_model=16, max_position_embeddings=32, num_labels=3, eos_token_id=2, **sizes)
    path, model = saved(tmp_path, "BartForSequenceClassification", config)
    task, _ = examined(path)
    assert set(task.samples("test").inputs["input_ids"][:, -1]) == {2}
    assert task.inputs[-1].shape == ("batch", "decoder_sequence")
    expected, given = outputs_of(task, model)
    np.testing.assert_allclose(given["logits"], expected["logits"], atol=1e-6)


def test_images_have_the_size_of_the_processor_where_the_model_takes_it(examined: Examined, tmp_path: Path) -> None:
    from transformers import ResNetConfig, ViTConfig

    resnet = ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1], num_labels=3)
    path, model = saved(tmp_path, "ResNetForImageClassification", resnet, processor={"size": {"shortest_edge": 40}})
    task, found = examined(path)
    assert task.inputs == (TensorSpec(name="pixel_values", dtype="float32", shape=("batch", 3, 40, 40)),)
    assert "height=40, width=40" in found["notes"][0]
    expected, given = outputs_of(task, model)
    np.testing.assert_allclose(given["logits"], expected["logits"], atol=1e-5)
    check_export(task, tmp_path)
    assert examined(path, dims=("width=56",))[0].inputs[0].shape == ("batch", 3, 40, 56)
    assert examined(path, shapes=("pixel_values=1x3x24x32",))[0].inputs[0].shape == ("batch", 3, 24, 32)
    path, _ = saved(tmp_path, "ViTForImageClassification", ViTConfig(**IMAGE), processor={"size": 40})
    assert examined(path)[0].inputs[0].shape == ("batch", 3, 32, 32), "its position embeddings fit no other size"


@pytest.mark.parametrize("name", ["Wav2Vec2ForSequenceClassification", "HubertForSequenceClassification", "WavLMModel"])
def test_waveforms(name: str, examined: Examined, tmp_path: Path) -> None:
    import transformers

    config = getattr(transformers, f"{name.split('For')[0].removesuffix('Model')}Config")(**WAVE)
    path, model = saved(tmp_path, name, config, processor={"sampling_rate": 3200})
    task, _ = examined(path)
    assert [(spec.name, spec.dtype, spec.shape[0]) for spec in task.inputs] == [("input_values", "float32", "batch")]
    assert task.samples("test").inputs["input_values"].shape == (8, 3200)
    expected, given = outputs_of(task, model)
    assert expected.keys() == given.keys()
    for output, wanted in expected.items():
        np.testing.assert_allclose(given[output], wanted, atol=1e-5)
    check_export(task, tmp_path)


def test_spectrograms(examined: Examined, tmp_path: Path) -> None:
    from transformers import ASTConfig

    sizes = {**IMAGE, "max_length": 64, "num_mel_bins": 32}
    path, _ = saved(tmp_path, "ASTForAudioClassification", ASTConfig(**sizes))
    task, _ = examined(path)
    assert task.inputs == (TensorSpec(name="input_values", dtype="float32", shape=("batch", 64, 32)),)
    assert task.outputs[0].shape == ("batch", 3)


def test_whisper_and_its_encoder_alone(examined: Examined, tmp_path: Path) -> None:
    from transformers import WhisperConfig

    path, model = saved(tmp_path, "WhisperEncoder", WhisperConfig(**WHISPER))
    task, found = examined(path)
    assert task.inputs == (TensorSpec(name="input_features", dtype="float32", shape=("batch", 8, 40)),)
    assert task.outputs == (TensorSpec(name="last_hidden_state", dtype="float32", shape=("batch", 20, 16)),)
    expected, given = outputs_of(task, model)
    np.testing.assert_allclose(given["last_hidden_state"], expected["last_hidden_state"], atol=1e-5)
    check_export(task, tmp_path)
    path, model = saved(tmp_path, "WhisperForConditionalGeneration", WhisperConfig(**WHISPER))
    task, found = examined(path)
    assert [spec.name for spec in task.inputs] == ["input_features", "decoder_input_ids"]
    assert any("one pass over all tokens" in note for note in found["notes"])
    with pytest.raises(InputError, match=r"decoder_sequence=25: its config\.json has positions for 24 tokens"):
        examined(path, dims=("decoder_sequence=25",))


@pytest.mark.parametrize("pooling", [{"pooling_mode": "mean"}, {"pooling_mode_cls_token": True}], ids=["mean", "cls"])
def test_sentence_embedding(pooling: dict[str, Any], examined: Examined, tmp_path: Path) -> None:
    """As sentence-transformers saves a model: the tokens' states, pooled, mapped, and made of length 1."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig

    path, transformer = saved(tmp_path, "BertModel", BertConfig(**TEXT))
    weight, bias = torch.randn(5, 16), torch.randn(5)
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    paths = ["", *[f"{number}_{kind}" for number, kind in enumerate(kinds)][1:]]
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, place) in enumerate(zip(kinds, paths, strict=True))
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    for place in paths[1:]:
        (path / place).mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    dense = {
        "in_features": 16,
        "out_features": 5,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (path / "2_Dense" / "config.json").write_text(json.dumps(dense))
    save_file({"linear.weight": weight, "linear.bias": bias}, path / "2_Dense" / "model.safetensors")

    task, _ = examined(path, module="sentence_transformers")
    assert task.outputs == (TensorSpec(name="sentence_embedding", dtype="float32", shape=("batch", 5)),)
    ids = torch.from_numpy(task.samples("test").inputs["input_ids"][:2])
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    with torch.inference_mode():
        (given,) = task.build("torch", task.weights_path)(ids, mask)
        states = transformer(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
    rows = [states[0].mean(0), states[1, :9].mean(0)] if "pooling_mode" in pooling else states[:, 0]
    mapped = np.tanh(np.stack(rows) @ weight.numpy().T + bias.numpy())
    np.testing.assert_allclose(given.numpy(), mapped / np.linalg.norm(mapped, axis=1, keepdims=True), atol=1e-5)
    check_export(task, tmp_path)

    modules[3]["type"] = "sentence_transformers.models.CNN"
    (path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(
        InputError, match=r"modules.json has a CNN, which is not known here; known are Transformer, Pool"
    ):
        examined(path, module="sentence_transformers")


def test_layer_without_weights_is_named(tmp_path: Path) -> None:
    import torch

    from bench.tasks import sentence_modules

    model: Any = SimpleNamespace(layers=[torch.nn.Linear(2, 2)])
    with pytest.raises(InputError, match=r"2_Dense has no model\.safetensors"):
        sentence_modules.load_layers(model, [tmp_path / "2_Dense"], trust=False)


def test_pickled_weights_take_trust(examined: Examined, tmp_path: Path) -> None:
    import torch
    from transformers import BertConfig

    path, model = saved(tmp_path, "BertForSequenceClassification", BertConfig(**TEXT))
    (path / "model.safetensors").unlink()
    torch.save(model.state_dict(), path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"its weights are pickled .*; add --trust .*save_pretrained"):
        examined(path)
    task, _ = examined(path, trust=True)
    expected, given = outputs_of(task, model)
    np.testing.assert_allclose(given["logits"], expected["logits"], atol=1e-6)


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ("model.safetensors.index.json", "../outside.safetensors"),
        ("model.safetensors.index.json", "/tmp/outside.safetensors"),
        ("model.safetensors.index.json", "pickled.bin"),
        ("pytorch_model.bin.index.json", "../outside.bin"),
    ],
)
def test_lists_of_weights_that_name_other_files_are_refused(
    index: str, name: str, examined: Examined, tmp_path: Path
) -> None:
    from transformers import BertConfig

    path, _ = saved(tmp_path, "BertModel", BertConfig(**TEXT))
    (path / index).write_text(json.dumps({"metadata": {}, "weight_map": {"pooler.dense.bias": name}}))
    with pytest.raises(InputError, match=rf"{index} names '{name}'; weights are \.\w+ files in the folder itself"):
        examined(path)


def test_weights_that_the_folder_lacks_are_told_and_the_same_each_time(examined: Examined, tmp_path: Path) -> None:
    from transformers import BertConfig

    path, _ = saved(tmp_path, "BertModel", BertConfig(**TEXT))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    notes, kept = [], []
    for _ in range(2):
        task, found = examined(path)
        notes.append(found["notes"])
        kept.append(task.weights_path.read_bytes())
    assert notes[0] == [
        "2 of its weights are not in the folder, and were drawn at random: classifier.bias, classifier.weight"
    ]
    assert kept[0] == kept[1]
    (path / "config.json").write_text(json.dumps({**config, "architectures": None}))
    assert examined(path)[1]["notes"] == ["its config.json names no class; it is measured as BertModel"]
    (path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForPoetry"]}))
    with pytest.raises(
        InputError, match=r"names BertForPoetry, which transformers .* does not have; write a Python file"
    ):
        examined(path)


def test_code_in_the_folder_takes_trust(examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    path = tmp_path / "own_code"
    path.mkdir()
    (path / "mine.py").write_text(PROOF + CODE)
    (path / "helper.py").write_text("def doubled(x):\n    return 2 * x\n")
    (path / "unused.py").write_text("raise RuntimeError\n")
    auto_map = {"AutoConfig": "mine.MineConfig", "AutoModelForImageClassification": "mine.Mine"}
    config = {"model_type": "mine", "architectures": ["Mine"], "size": 3, "image_size": 6, "auto_map": auto_map}
    (path / "config.json").write_text(json.dumps(config))
    weight, bias = torch.randn(2, 3), torch.randn(2)
    save_file({"head.weight": weight, "head.bias": bias}, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"its class Mine is code in the folder \(mine\.py\); add --trust to run it"):
        examined(path)
    assert not list(tmp_path.rglob("executed"))
    task, _ = examined(path, trust=True)
    assert task.outputs == (TensorSpec(name="scores", dtype="float32", shape=("batch", 2)),)
    assert list(tmp_path.rglob("executed")), "the check above could not have failed"
    images = torch.from_numpy(task.samples("test").inputs["pixel_values"][:2])
    (path / "mine.py").unlink()  # the task has a copy
    (given,) = task.build("torch", task.weights_path)(images)
    expected = 2 * (images.mean((2, 3)) @ weight.T + bias)
    np.testing.assert_allclose(given.detach().numpy(), expected.numpy(), atol=1e-6)
    (path / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "someone/mine--mine.Mine"}}))
    with pytest.raises(InputError, match=r"in the hub's repository someone/mine, and nothing is downloaded"):
        examined(path, trust=True)


def test_quantized_weights_are_refused(examined: Examined, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "quantization_config": {"bits": 4}}))
    with pytest.raises(InputError, match="quantized for another framework; give the folder of the float model"):
        examined(tmp_path)
