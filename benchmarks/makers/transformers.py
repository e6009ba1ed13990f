"""Networks of transformers from small configurations, exported by torch.onnx with older and newer opsets.

Also Hugging Face folders with safetensors, and TorchScript by tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corpus_models import Listed

IDS, PIXELS, SPECTROGRAM = "int64 1x32 3..999", "float32 1x3x64x64", "float32 1x80x200"
SMALL = {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
ENCODER = {**SMALL, "intermediate_size": 512}
VISION = {k: ENCODER[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
IMAGES = {**VISION, "image_size": 64, "patch_size": 8}
STAGES = {"hidden_sizes": [32, 64, 128, 256], "depths": [1, 1, 2, 1]}

Build = Callable[[Any], Any]
MODELS: Mapping[str, tuple[int, str, Mapping[str, str], Build]] = {
    "resnet": (9, "image encoder", {"pixel_values": PIXELS}, lambda hf: hf.ResNetModel(
        hf.ResNetConfig(embedding_size=32, **STAGES))),
    "mobilenet_v2": (10, "image classifier", {"pixel_values": PIXELS}, lambda hf: hf.MobileNetV2ForImageClassification(
        hf.MobileNetV2Config(image_size=64))),
    "bert": (11, "text encoder", {"input_ids": IDS}, lambda hf: hf.BertModel(hf.BertConfig(**ENCODER))),
    "distilbert": (12, "text classification", {"input_ids": IDS}, lambda hf: hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(vocab_size=1000, dim=128, n_layers=2, n_heads=4, hidden_dim=512))),
    "bert_masked": (13, "text encoder", {
        "input_ids": IDS, "attention_mask": "int64 1x32 =1", "token_type_ids": "int64 1x32 0..1",
    }, lambda hf: hf.BertModel(hf.BertConfig(**ENCODER))),
    "gpt2": (14, "language model", {"input_ids": IDS, "attention_mask": "int64 1x32 =1"}, lambda hf: hf.GPT2Model(
        hf.GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=4, use_cache=False))),
    "layoutlm": (14, "documents", {"input_ids": IDS, "bbox": "int64 1x32x4 =7"}, lambda hf: hf.LayoutLMModel(
        hf.LayoutLMConfig(**ENCODER))),
    "t5_encoder": (15, "text encoder", {"input_ids": IDS}, lambda hf: hf.T5EncoderModel(
        hf.T5Config(vocab_size=1000, d_model=128, d_kv=32, d_ff=512, num_layers=2, num_heads=4))),
    "vit": (16, "image encoder", {"pixel_values": PIXELS}, lambda hf: hf.ViTModel(hf.ViTConfig(**IMAGES))),
    "yolos": (16, "object detection", {"pixel_values": PIXELS}, lambda hf: hf.YolosForObjectDetection(
        hf.YolosConfig(**{**IMAGES, "image_size": [64, 64]}, num_detection_tokens=10))),
    "convnext": (17, "image encoder", {"pixel_values": PIXELS}, lambda hf: hf.ConvNextModel(
        hf.ConvNextConfig(**STAGES))),
    "wav2vec2": (17, "speech encoder", {"input_values": "float32 1x8000"}, lambda hf: hf.Wav2Vec2Model(
        hf.Wav2Vec2Config(**VISION, vocab_size=32, conv_dim=(64,) * 7, num_conv_pos_embeddings=16,
                          num_conv_pos_embedding_groups=4))),
    "segformer": (18, "segmentation", {"pixel_values": PIXELS}, lambda hf: hf.SegformerForSemanticSegmentation(
        hf.SegformerConfig(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1]))),
    "whisper_encoder": (19, "speech encoder", {"input_features": SPECTROGRAM}, lambda hf: hf.WhisperModel(
        hf.WhisperConfig(vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
                         decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512,
                         max_source_positions=100, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                         decoder_start_token_id=1)).encoder),
    "clip": (20, "text and images", {
        "input_ids": "int64 1x16 3..999", "pixel_values": PIXELS, "attention_mask": "int64 1x16 =1",
    }, lambda hf: hf.CLIPModel(hf.CLIPConfig(
        text_config={**ENCODER, "max_position_embeddings": 16, "eos_token_id": 2}, vision_config=IMAGES))),
}  # fmt: skip
"""By name: opset, what it is for, feeds, and how it is built. Up to opset 20 by the exporter that traces."""
NEWER: Mapping[str, tuple[int, str]] = {"bert": (21, "bert_opset21"), "vit": (23, "vit_opset23")}
"""Networks that are exported again by the exporter that rests on torch.export: opset, and name of the file."""
FOLDERS: Mapping[str, tuple[str, Mapping[str, str], Build]] = {
    "text_folder": ("text classification", {"input_ids": IDS}, lambda hf: hf.BertForSequenceClassification(
        hf.BertConfig(**ENCODER))),
    "image_folder": ("image classification", {"pixel_values": PIXELS}, lambda hf: hf.ViTForImageClassification(
        hf.ViTConfig(**IMAGES))),
    "speech_folder": ("speech encoder", {"input_values": "float32 1x8000"}, lambda hf: hf.Wav2Vec2Model(
        hf.Wav2Vec2Config(**VISION, vocab_size=32, conv_dim=(64,) * 7, num_conv_pos_embeddings=16,
                          num_conv_pos_embedding_groups=4))),
}  # fmt: skip


def make(home: Path) -> Listed:
    import torch
    import transformers as hf

    def example(feed: str) -> Any:
        dtype, shape, *_ = feed.split()
        return torch.ones(tuple(map(int, shape.split("x"))), dtype=getattr(torch, dtype))

    class Named(torch.nn.Module):
        """Calls the network with its inputs by name, and returns a tuple of tensors."""

        def __init__(self, network: Any, names: tuple[str, ...]) -> None:
            super().__init__()
            self.network, self.names = network, names

        def forward(self, *values: Any) -> tuple[Any, ...]:
            found = self.network(**dict(zip(self.names, values, strict=True)), return_dict=True)
            tensors = [value for value in found.values() if isinstance(value, torch.Tensor)]
            return tuple(tensors)

    torch.manual_seed(0)
    listed: Listed = {}
    for name, (opset, domain, feeds, build) in MODELS.items():
        network = build(hf).eval()
        if hasattr(network, "set_attn_implementation") and name not in ("resnet", "mobilenet_v2", "convnext"):
            network.set_attn_implementation("eager")
        named = Named(network, tuple(feeds)).eval()  # the exporter puts the mode back that it finds
        arguments = tuple(example(feed) for feed in feeds.values())
        axes = {
            name: {0: "batch", 1: "length"} if "int64" in feed or "8000" in feed else {0: "batch"}
            for name, feed in feeds.items()
        }
        torch.onnx.export(
            named, arguments, str(home / f"{name}.onnx"), input_names=list(feeds),
            dynamic_axes=axes, opset_version=opset, dynamo=False,
        )  # fmt: skip
        listed[f"{name}.onnx"] = (domain, feeds)
        if name in NEWER:
            newer, target = NEWER[name]
            torch.onnx.export(
                named, arguments, str(home / f"{target}.onnx"), input_names=list(feeds),
                opset_version=newer, dynamo=True, external_data=False, verbose=False,
            )  # fmt: skip
            listed[f"{target}.onnx"] = (domain, feeds)
        if name == "resnet":
            torch.jit.trace(named, arguments).save(str(home / "resnet.pt"))
            listed["resnet.pt"] = (domain, feeds)
        if name == "distilbert":
            torch.export.save(torch.export.export(named, arguments), home / "distilbert.pt2")
            listed["distilbert.pt2"] = (domain, feeds)
    for name, (domain, feeds, build) in FOLDERS.items():
        build(hf).save_pretrained(home / name)
        listed[name] = (domain, feeds)
    return listed
