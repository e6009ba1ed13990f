"""A text drawn as a scanned form line: type, slant, uneven ink, paper with texture and rules, blur, noise, JPEG.

Made to be bit for bit the same on every x86-64 machine: random numbers come from streams that are frozen by their
makers, text is laid out by FreeType alone, and what a mathematical library computes is rounded before it is used, since
its last bits differ between processors.

Shapes: H = 32 rows, W = 400 columns, V columns of the part that holds the text.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import io
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HEIGHT, WIDTH = 32, 400
CANVAS_HEIGHT, BASELINE, MARGIN = 96, 66, 12
"""The text is drawn large, in pixels of a canvas of its own, and then made small."""
DECIMALS = 4
"""Places kept of a sine or a normal deviate: coarse beside their last bits, fine beside a grey level."""
NOISE_DECIMALS = 3
GREY_LEVELS = 16
"""Of a scanner's plain grey mode, spread over 0 to 255: in 256 levels the noise would make the files twice as large."""

TRAINED_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
)
NEW_FONTS = ("STIXGeneral", "STIXGeneralBol", "DejaVuSerif-BoldItalic", "DejaVuSans-BoldOblique")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawing:
    """One line.

    Attributes:
        image: grey levels (H, W), uint8.
        left, width: columns of the part that was drawn; outside it the edge columns are repeated.
    """

    image: np.ndarray
    left: int
    width: int


def draw_line(text: str, font_name: str, random: Random, noise: np.random.RandomState) -> Drawing:
    """Draw `text`, with every choice taken from `random` and every field of noise from `noise`."""
    type_image = _set_type(text, font_name, random)
    ink_HV = _place_ink(type_image, random)
    width = ink_HV.shape[1]
    if random.random() < 0.35:  # unevenly inked
        ink_HV = ink_HV * (1 - random.uniform(0.1, 0.55) * _clouds(noise, 4, max(2, width // 24), width))
    paper_HV = _paper(width, random, noise)
    # Ink darkens the paper to a share of what it was.
    page_HV = paper_HV * (1 - ink_HV) + random.uniform(0, 0.4) * paper_HV * ink_HV
    page_HV = _scan(page_HV, random, noise)
    left = random.randint(0, WIDTH - width) if random.random() < 0.8 else 0
    image_HW = np.pad(page_HV, ((0, 0), (left, WIDTH - width - left)), mode="edge")
    return Drawing(image=image_HW, left=left, width=width)


@functools.cache
def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A font file of the matplotlib wheel, found without importing matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    assert spec is not None, "matplotlib is a dependency of the project"
    assert spec.origin is not None
    path = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / f"{name}.ttf"
    # The other layout engine depends on a library that not every system has.
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def _set_type(text: str, font_name: str, random: Random) -> Image.Image:
    """White text on black, cut to its bounds: letters one by one, spaced, jittered, sheared and turned a little."""
    font = _font(font_name, random.randint(38, 54))
    spacing = random.choice((0.0, 0.0, 0.0, random.uniform(0, 5), random.uniform(0, 9)))
    jitter = random.choice((0.0, 0.0, 1.0))
    advances = [font.getlength(character) + spacing for character in text]
    image = Image.new("L", (int(sum(advances)) + 2 * MARGIN, CANVAS_HEIGHT), 0)
    draw, x = ImageDraw.Draw(image), float(MARGIN)
    for character, advance in zip(text, advances, strict=True):
        y = BASELINE + random.uniform(-jitter, jitter)
        draw.text((x, y), character, fill=255, font=font, anchor="ls")
        x += advance
    shear, turn = random.uniform(-0.12, 0.12), random.uniform(-0.012, 0.012)
    middle_x, middle_y = image.width / 2, CANVAS_HEIGHT / 2
    affine = (1, shear, -shear * middle_y, turn, 1, -turn * middle_x)
    image = image.transform(image.size, Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR)
    return image.crop(image.getbbox())


def _place_ink(type_image: Image.Image, random: Random) -> np.ndarray:
    """The text at its size in the line, (H, V), from 0 to 1 for full ink."""
    text_height = random.uniform(17, 27)
    scale = text_height / type_image.height
    stretch = random.uniform(0.78, 1.18)
    text_width = max(6, min(int(type_image.width * scale * stretch), WIDTH - 12))
    smoothing = Image.Resampling.BOX if scale < 0.5 else Image.Resampling.BILINEAR
    small_HW = np.asarray(type_image.resize((text_width, int(text_height)), smoothing))
    width = min(WIDTH, text_width + random.randint(6, 40))
    left = random.randint(2, max(2, width - text_width - 2))
    top = random.randint(1, HEIGHT - small_HW.shape[0] - 1)
    ink_HV = np.zeros((HEIGHT, width))
    ink_HV[top : top + small_HW.shape[0], left : left + text_width] = small_HW / 255
    return ink_HV


def _clouds(noise: np.random.RandomState, rows: int, columns: int, width: int) -> np.ndarray:
    """A smooth random field (H, V) from 0 to 1: coarse noise made large."""
    coarse = (noise.random_sample((rows, columns)) * 255).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, HEIGHT), Image.Resampling.BICUBIC)) / 255


def _paper(width: int, random: Random, noise: np.random.RandomState) -> np.ndarray:
    """Paper (H, V) from 0 to 1: a level, clouds, and at times waves of a security print, a rule and a border."""
    level, depth = random.uniform(0.68, 1), random.uniform(0, 0.18)
    paper_HV = level - depth * _clouds(noise, 5, max(3, width // 16), width)
    y_HV, x_HV = np.mgrid[0:HEIGHT, 0:width].astype(np.float64)
    if random.random() < 0.5:
        frequency, strength = random.uniform(0.2, 0.9), random.uniform(0, 0.14)
        height, length, slope = random.uniform(1, 5), random.uniform(6, 30), random.uniform(-0.4, 0.4)
        phase_HV = frequency * (y_HV + height * _sine(x_HV / length) + slope * x_HV)
        paper_HV -= strength * (0.5 + 0.5 * _sine(phase_HV))
    if random.random() < 0.3:
        y = random.choice((random.uniform(27, 31), random.uniform(0, 3)))
        slope, strength, thickness = random.uniform(-0.01, 0.01), random.uniform(0.1, 0.5), random.uniform(0.5, 1.1)
        paper_HV -= strength * (np.abs(y_HV - y - slope * x_HV) < thickness)
    if random.random() < 0.15:
        x, strength = random.choice((1, width - 2)), random.uniform(0.1, 0.5)
        paper_HV -= strength * (np.abs(x_HV - x) < 0.8)
    return paper_HV


def _scan(page_HV: np.ndarray, random: Random, noise: np.random.RandomState) -> np.ndarray:
    """The page (H, V) from 0 to 1 as a scanner and a file format leave it: uint8 grey levels."""
    image = _image_from(page_HV * 255)
    if random.random() < 0.25:  # a coarse scanner
        share = random.uniform(0.55, 0.85)
        small = image.resize((max(8, int(image.width * share)), int(HEIGHT * share)), Image.Resampling.BILINEAR)
        image = small.resize(image.size, Image.Resampling.BICUBIC)
    if random.random() < 0.6:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.2, 1.0)))
    grain_HV = np.round(noise.standard_normal(page_HV.shape), NOISE_DECIMALS)
    image = _image_from(np.asarray(image) + random.uniform(0, 14) * grain_HV)
    if random.random() < 0.4:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=random.randint(25, 80))
        image = Image.open(file)
    step = 255 // (GREY_LEVELS - 1)
    levels_HV = (np.asarray(image).astype(np.int64) + step // 2) // step
    return (levels_HV * step).astype(np.uint8)


def _sine(phase: np.ndarray) -> np.ndarray:
    return np.round(np.sin(phase), DECIMALS)


def _image_from(grey_HV: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(grey_HV, 0, 255).astype(np.uint8))
