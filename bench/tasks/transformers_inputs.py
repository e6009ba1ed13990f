"""The inputs that a deployment feeds into a model of transformers, and their likely sizes, from its folder's JSON.

No image processor, feature extractor or tokenizer is loaded: they need packages that the model does not need.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.api import TensorSpec, files
from bench.api.errors import InputError
from bench.tasks.options import Asked
from bench.tasks.pretrained_folder import inside
from bench.tasks.probe import BATCH

SEQUENCE, DECODED, SAMPLES, FRAMES, HEIGHT, WIDTH = (
    *("sequence", "decoder_sequence", "samples", "frames", "height", "width"),
)
FIXED = (HEIGHT, WIDTH)
"""Dimensions whose size is chosen once: position embeddings and windows fit a single size of images."""
NUM_TOKENS = 16
_IMAGE_SIDE = 224
_RATE_HZ = 16_000
_NUM_FRAMES = 100
"""Frames in a second of audio, with the usual hop of 10 ms."""
_CHANNELS = 3
_MOST_NUMBERS = 2**26
"""In a made-up input of sizes that the user did not give."""
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
PARTS = ("image_processor", "feature_extractor")
"""Keys of a `processor_config.json` under which the settings are that older releases kept in a file of their own."""
_MEL_BINS = ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins")
"""Keys of a configuration for the number of features of a frame of audio."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions")
_ENDS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "decoder_start_token_id")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """A shape that a model's main input may have.

    Attributes:
        dims: sizes and names of the dimensions after the batch.
        sizes: the likely size of each named dimension.
        source: why these sizes, in words.
    """

    dims: tuple[int | str, ...]
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    source: str = "as config.json says"


def processor_of(folder: Path) -> Mapping[str, Any]:
    """The settings of a folder's image processor or feature extractor; empty where there are none that can be read."""
    for name in _PROCESSORS:
        try:
            settings = json.loads(files.read_text(inside(folder / name, folder)))
        except (OSError, ValueError, RecursionError):
            continue
        parts = [
            settings[part] for part in PARTS if isinstance(settings, dict) and isinstance(settings.get(part), dict)
        ]
        if parts or isinstance(settings, dict):
            return parts[0] if parts else settings
    return {}


def layouts(main: str, config: Any, processor: Mapping[str, Any]) -> list[Layout]:
    """Shapes to try for the main input of a model, the likeliest first; none for an input that is not known here."""
    makers = {"input_ids": _tokens, "pixel_values": _images, "input_values": _audio, "input_features": _features}
    maker = makers.get(main)
    return list(maker(config, processor)) if maker else []


def specs(main: str, layout: Layout | None, parameters: Collection[str], options: Asked) -> tuple[TensorSpec, ...]:
    """Specs of the inputs that a deployment feeds.

    They are the main input, the mask of its tokens and the tokens of a decoder; or exactly those of the data set. An
    input that `--shape` names is fed, too.

    Args:
        main: name of the model's main input.
        layout: the main input's shape; None for a main input that is not known here.
        parameters: names of the model's arguments.
        options: the user's shapes and samples.

    Raises:
        InputError: the model has no such input, or the shape of an input is neither known nor given.
    """
    inputs: dict[str, TensorSpec] = {}
    if layout is not None:
        tokens = (BATCH, SEQUENCE)
        kind = "int64" if main == "input_ids" else "float32"
        inputs[main] = TensorSpec(name=main, dtype=kind, shape=(BATCH, *layout.dims))
        if main == "input_ids" and "attention_mask" in parameters:
            inputs["attention_mask"] = TensorSpec(name="attention_mask", dtype="int64", shape=tokens)
        if "decoder_input_ids" in parameters:
            inputs["decoder_input_ids"] = TensorSpec(name="decoder_input_ids", dtype="int64", shape=(BATCH, DECODED))
    user_inputs: dict[str, tuple[tuple[int, ...], str]] = {
        name: (shape.sizes[1:], shape.dtype or "float32") for name, shape in options.shapes.items()
    }
    arrays = {name: array for name, array in (options.arrays or {}).items() if name}  # a lone array may have no name
    user_inputs |= {
        name: (array.shape[1:], array.dtype.name) for name, array in arrays.items() if name not in user_inputs
    }
    for name, (sizes, kind) in user_inputs.items():
        if name not in parameters:
            raise InputError(f"it has no input {name!r}; its inputs: {', '.join(parameters)}")
        is_tokens = "input_ids" in inputs and kind.startswith("int") and len(sizes) == 1
        dims = (SEQUENCE,) if is_tokens else sizes
        inputs.setdefault(name, TensorSpec(name=name, dtype=kind, shape=(BATCH, *dims)))
    if not inputs:
        raise InputError(
            f"the shape of its input {main!r} is not known here: give that of each input, such as --shape "
            f"{shlex.quote(f'{main}=1x16x8')} (or 1x16:int64), or samples by --dataset"
        )
    return tuple(spec for name, spec in inputs.items() if not arrays or name in arrays)


def fixed(inputs: tuple[TensorSpec, ...], sizes: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    """The specs with sizes in place of the names of these dimensions."""
    return tuple(
        dataclasses.replace(
            spec, shape=tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape)
        )
        for spec in inputs
    )


def check_sizes(inputs: tuple[TensorSpec, ...], sizes: Mapping[str, int]) -> None:
    """Refuse sizes that a folder's files state and that no input has.

    Raises:
        InputError: an input would be empty, or larger than `_MOST_NUMBERS`; the message has the figures.
    """
    for spec in inputs:
        shape = [sizes.get(dim, 1) if isinstance(dim, str) else dim for dim in spec.shape]
        if not all(isinstance(size, int) and size > 0 for size in shape) or math.prod(shape) > _MOST_NUMBERS:
            shape_text = "x".join(map(str, shape))[:80]
            raise InputError(
                f"its files say that its input {spec.name!r} is {shape_text}; sizes from 1 and {_MOST_NUMBERS:,} "
                "numbers are made up: mend its config.json or preprocessor_config.json, or say other sizes with --dim"
            )


def decoder_sizes(config: Any) -> dict[str, int]:
    """The likely length of the tokens of a decoder."""
    return {DECODED: min(NUM_TOKENS, most_positions(config) or NUM_TOKENS)}


def most_positions(config: Any) -> int | None:
    """The most tokens that a configuration has positions for, where it says so."""
    text = config.get_text_config()
    return min((size for key in _POSITIONS if isinstance(size := getattr(text, key, None), int)), default=None)


def domains(inputs: tuple[TensorSpec, ...], config: Any) -> dict[str, tuple[float, float]]:
    """The least and the largest value of made-up inputs, by name: ordinary tokens, masks of ones, a single sentence."""
    ranges: dict[str, tuple[float, float]] = {}
    for spec in inputs:
        if spec.dtype.startswith("float"):
            continue
        if spec.name.endswith("input_ids"):
            ranges[spec.name] = _ordinary_tokens(config)
        elif spec.name.endswith("mask"):
            ranges[spec.name] = (1, 1)
        elif spec.name.endswith("type_ids"):
            ranges[spec.name] = (0, 0)
    return ranges


def last_tokens(inputs: tuple[TensorSpec, ...], config: Any) -> dict[str, int]:
    """The token that ends each made-up text, by name of the input: some models look for the end of a sentence."""
    if not any(spec.name == "input_ids" for spec in inputs):
        return {}
    ends = [end for end in _token_ids(config, "eos_token_id") if end < config.get_text_config().vocab_size]
    return {"input_ids": ends[0]} if ends else {}


def _tokens(config: Any, processor: Mapping[str, Any]) -> Iterator[Layout]:
    most = most_positions(config) or NUM_TOKENS
    yield Layout(dims=(SEQUENCE,), sizes={SEQUENCE: min(NUM_TOKENS, most)})


def _images(config: Any, processor: Mapping[str, Any]) -> Iterator[Layout]:
    channels = next(_settings(config, "num_channels"), _CHANNELS)
    cropped = processor.get("crop_size") if processor.get("do_center_crop", True) else None
    candidates = [(size, "as its image processor makes them") for size in (cropped, processor.get("size"))]
    candidates += [(size, "as config.json says") for size in _settings(config, "image_size")]
    for size, source in [*candidates, (_IMAGE_SIDE, "the usual size")]:
        if sides := _sides(size):
            height, width = sides
            yield Layout(dims=(channels, HEIGHT, WIDTH), sizes={HEIGHT: height, WIDTH: width}, source=source)


def _sides(size: Any) -> tuple[int, int] | None:
    """The height and width that a setting of a size means; None where it means none."""
    if isinstance(size, Mapping):
        side = size.get("shortest_edge")
        pair = (size.get("height", side), size.get("width", side))
    else:
        pair = tuple(size) if isinstance(size, (list, tuple)) and len(size) == 2 else (size, size)
    height, width = pair
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _audio(config: Any, processor: Mapping[str, Any]) -> Iterator[Layout]:
    rate_hz = next(_settings(config, "sampling_rate"), processor.get("sampling_rate", _RATE_HZ))
    yield Layout(dims=(SAMPLES,), sizes={SAMPLES: rate_hz})
    channels = next(_settings(config, "audio_channels"), 1)
    yield Layout(dims=(channels, SAMPLES), sizes={SAMPLES: rate_hz})
    bins, frames = (next(_settings(config, key), None) for key in ("num_mel_bins", "max_length"))
    if bins and frames:
        yield Layout(dims=(frames, bins))


def _features(config: Any, processor: Mapping[str, Any]) -> Iterator[Layout]:
    bins, positions = (next(_settings(config, key), None) for key in ("num_mel_bins", "max_source_positions"))
    if bins and positions:  # Whisper's encoder halves the frames once
        yield Layout(dims=(bins, 2 * positions))
    sizes = [size for key in _MEL_BINS for size in _settings(config, key)]
    sizes += [size for key in ("feature_size",) if isinstance(size := processor.get(key), int)]
    for size in dict.fromkeys(sizes):
        yield Layout(dims=(FRAMES, size), sizes={FRAMES: _NUM_FRAMES})


def _settings(config: Any, key: str) -> Iterator[Any]:
    """The values that a configuration and the configurations of its parts have for a key."""
    parts = (getattr(config, part, None) for part in ("vision_config", "backbone_config", "encoder_config"))
    for part in (config, *parts):
        value = getattr(part, key, None)
        if value is not None:
            yield value


def _ordinary_tokens(config: Any) -> tuple[int, int]:
    """The first and the last token between those that begin, end or pad a text, which are at the vocabulary's ends."""
    text = config.get_text_config()
    size = text.vocab_size
    special = [token for key in _ENDS for token in _token_ids(config, key)]
    first = max((token + 1 for token in special if token < size // 2), default=0)
    last = min((token - 1 for token in special if size // 2 <= token < size), default=size - 1)
    return (first, last) if first <= last else (0, size - 1)


def _token_ids(config: Any, key: str) -> list[int]:
    """The tokens of a key of the configuration: none, one or several."""
    value = getattr(config.get_text_config(), key, None)
    return [token for token in (value if isinstance(value, list) else [value]) if isinstance(token, int)]
