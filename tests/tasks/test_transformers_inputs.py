"""What a model of transformers is fed with, as its configuration and its image processor say."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.api import TensorSpec
from bench.api.errors import InputError
from bench.onnxfile.shapes import size_options
from bench.tasks import transformers_inputs as fed
from bench.tasks.options import Asked


def configured(**values: Any) -> SimpleNamespace:
    """A configuration without parts."""
    config = SimpleNamespace(**values)
    config.get_text_config = lambda: config
    return config


def shapes(main: str, config: SimpleNamespace, processor: dict[str, Any] | None = None) -> list[tuple[int, ...]]:
    """The shapes to try, with their likely sizes in place of names."""
    found = fed.layouts(main, config, processor or {})
    return [tuple(layout.sizes.get(dim, dim) for dim in layout.dims) for layout in found]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("processor", "side"),
    [
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 240, "width": 200}}, (240, 200)),
        ({"size": {"shortest_edge": 256}, "crop_size": 240, "do_center_crop": False}, (256, 256)),
        ({"size": 192}, (192, 192)),
        ({"size": {"longest_edge": 999}}, (518, 512)),
        ({}, (518, 512)),
    ],
)
def test_images_have_the_size_that_the_processor_makes_or_else_that_of_the_configuration(
    processor: dict[str, Any], side: tuple[int, int]
) -> None:
    config = configured(image_size=[518, 512], num_channels=1)
    assert shapes("pixel_values", config, processor)[0] == (1, *side)


def test_images_without_any_size_have_the_usual_one() -> None:
    assert shapes("pixel_values", configured()) == [(3, 224, 224)]


def test_images_of_a_part_of_the_model() -> None:
    config = configured(vision_config=SimpleNamespace(image_size=32, num_channels=4))
    assert shapes("pixel_values", config)[0] == (4, 32, 32)


def test_waveforms_last_a_second_at_the_rate_of_the_feature_extractor() -> None:
    assert shapes("input_values", configured(), {"sampling_rate": 24_000})[0] == (24_000,)
    assert shapes("input_values", configured())[0] == (16_000,)
    spectrogram = configured(num_mel_bins=128, max_length=1024)
    assert shapes("input_values", spectrogram) == [(16_000,), (1, 16_000), (1024, 128)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"num_mel_bins": 80, "max_source_positions": 1500}, [(80, 3000), (100, 80)]),
        ({"input_feat_per_channel": 40}, [(100, 40)]),
        ({"feature_projection_input_dim": 160}, [(100, 160)]),
        ({}, []),
    ],
)
def test_features_of_audio(config: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    assert shapes("input_features", configured(**config)) == expected


def test_texts_are_no_longer_than_the_positions() -> None:
    assert shapes("input_ids", configured(max_position_embeddings=8)) == [(8,)]
    assert shapes("input_ids", configured(max_position_embeddings=512)) == [(16,)]


def test_tokens_are_ordinary_and_the_last_one_ends_the_text() -> None:
    inputs = tuple(
        TensorSpec(name=name, dtype="int64", shape=("batch", "sequence"))
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    config = configured(vocab_size=50, pad_token_id=1, bos_token_id=0, eos_token_id=[2, 49])
    domains = fed.domains(inputs, config)
    assert domains == {"input_ids": (3, 48), "attention_mask": (1, 1), "token_type_ids": (0, 0)}
    assert fed.last_tokens(inputs, config) == {"input_ids": 2}
    beyond = configured(vocab_size=50, eos_token_id=99)
    assert fed.domains(inputs[:1], beyond) == {"input_ids": (0, 49)}
    assert fed.last_tokens(inputs, beyond) == {}
    (wave,) = fed.specs("input_values", fed.Layout(dims=("samples",)), ("input_values",), Asked())
    assert fed.last_tokens((wave,), configured(vocab_size=None, eos_token_id=2)) == {}, "it takes no tokens"


TEXT = fed.Layout(dims=("sequence",), sizes={"sequence": 16})
PARAMETERS = ("input_ids", "attention_mask", "token_type_ids", "labels")


def names_and_shapes(specs: tuple[TensorSpec, ...]) -> dict[str, tuple[str, tuple[int | str, ...]]]:
    return {spec.name: (spec.dtype, spec.shape) for spec in specs}


def test_the_mask_is_fed_where_the_model_takes_it() -> None:
    ids = ("int64", ("batch", "sequence"))
    assert names_and_shapes(fed.specs("input_ids", TEXT, PARAMETERS, Asked())) == {
        "input_ids": ids,
        "attention_mask": ids,
    }
    assert names_and_shapes(fed.specs("input_ids", TEXT, ("input_ids",), Asked())) == {"input_ids": ids}
    decoding = fed.specs("input_ids", TEXT, ("input_ids", "decoder_input_ids"), Asked())
    assert decoding[1].shape == ("batch", "decoder_sequence")


def test_an_input_that_a_shape_names_is_fed_too() -> None:
    asked = Asked(shapes=size_options.shapes_from(["token_type_ids=1x16:int64"]))
    found = fed.specs("input_ids", TEXT, PARAMETERS, asked)
    assert [spec.name for spec in found] == ["input_ids", "attention_mask", "token_type_ids"]
    assert found[2] == TensorSpec(name="token_type_ids", dtype="int64", shape=("batch", "sequence"))
    with pytest.raises(InputError, match="it has no input 'tokens'; its inputs: input_ids, attention_mask"):
        fed.specs("input_ids", TEXT, PARAMETERS, Asked(shapes=size_options.shapes_from(["tokens=1x16:int64"])))


def test_the_inputs_are_those_of_the_data_set() -> None:
    tokens = np.ones((4, 9), np.int64)
    asked = Asked(arrays={"input_ids": tokens, "token_type_ids": tokens})
    assert [spec.name for spec in fed.specs("input_ids", TEXT, PARAMETERS, asked)] == ["input_ids", "token_type_ids"]
    lone = fed.specs("input_ids", TEXT, ("input_ids",), Asked(arrays={"": tokens}))
    assert [spec.name for spec in lone] == ["input_ids"]


def test_an_input_of_an_unknown_kind_takes_its_shape_from_the_user() -> None:
    with pytest.raises(InputError, match=r"'past_values' is not known here.*--shape past_values=1x16x8"):
        fed.specs("past_values", None, ("past_values",), Asked())
    asked = Asked(shapes=size_options.shapes_from(["past_values=1x64x7"]))
    (spec,) = fed.specs("past_values", None, ("past_values",), asked)
    assert spec == TensorSpec(name="past_values", dtype="float32", shape=("batch", 64, 7))


def test_settings_of_processors_old_and_new(tmp_path: Path) -> None:
    assert fed.processor_of(tmp_path) == {}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {"size": 48}}))
    assert fed.processor_of(tmp_path) == {"size": 48}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": 32}))
    assert fed.processor_of(tmp_path) == {"size": 32}
    (tmp_path / "preprocessor_config.json").write_text("{")
    assert fed.processor_of(tmp_path) == {"size": 48}, "a damaged file is passed over"
