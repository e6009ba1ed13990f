"""Photographs for super-resolution: 64 held out for the quality figures, crops of eleven others for calibration.

`load` reads only the PNG files committed beside this file. The full photographs come from the wheels of scikit-image,
scikit-learn, matplotlib and PyWavelets and from packages of Debian; those of the first three are needed to train.
`python datasets/photographs/make.py` makes the PNG files anew. README.md has their sources and licences.

Shapes: H height and W width in pixels, both multiples of 3 in a high-resolution image. Every image is luma (Y of
JPEG's YCbCr), uint8.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Photographs = list[tuple[str, np.ndarray]]

FOLDER = Path(__file__).parent
SCALE = 3
TRAIN = {
    "china": "sklearn/datasets/images/china.jpg",
    "flower": "sklearn/datasets/images/flower.jpg",
    "grace_hopper": "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
    "rocket": "skimage/data/rocket.jpg",
    "brick": "skimage/data/brick.png",
    "grass": "skimage/data/grass.png",
    "gravel": "skimage/data/gravel.png",
    "coins": "skimage/data/coins.png",
    "ihc": "skimage/data/ihc.png",
    "retina": "skimage/data/retina.jpg",
    "hubble_deep_field": "skimage/data/hubble_deep_field.jpg",
}
DISTRIBUTIONS = {
    "skimage": "scikit-image", "sklearn": "scikit-learn", "matplotlib": "matplotlib", "pywt": "PyWavelets",
}  # fmt: skip

SHA256: dict[str, str] = json.loads((FOLDER / "sums.json").read_text())
"""`pixel_hash` of every committed file, in the order in which `load` gives them."""


def load(split: str) -> Photographs:
    """The committed images of a split with their names, always in the same order.

    Args:
        split: `test` (64 held-out photographs) or `train` (16 textured crops of training photographs).

    Returns:
        Pairs of a name and a uint8 array (H, W).

    Raises:
        InputError: there is no such split, or a file is missing or is not the one that was committed.
    """
    files = [name for name in SHA256 if name.startswith(f"{split}/")]
    if not files:
        raise InputError(f"photographs have no split named {split!r}; there are: test, train")
    return [(Path(name).stem, _read_committed(name)) for name in files]


def training_photographs() -> Photographs:
    """The eleven whole photographs to train on, read from installed wheels.

    Returns:
        Pairs of a name and a uint8 array (H, W).

    Raises:
        InputError: a package that ships one is missing.
    """
    return [(name, read_from_wheel(place)) for name, place in TRAIN.items()]


def downscale(hr_HW: np.ndarray) -> np.ndarray:
    """A third of the size by Pillow's bicubic filter, whose support grows with the factor (so it is antialiased)."""
    height, width = hr_HW.shape
    return resize(hr_HW, height // SCALE, width // SCALE)


def upscale_bicubic(lr_HW: np.ndarray) -> np.ndarray:
    """Three times the size by bicubic interpolation: the baseline that a network has to beat."""
    height, width = lr_HW.shape
    return resize(lr_HW, height * SCALE, width * SCALE)


def crop_to_scale(image_HW: np.ndarray) -> np.ndarray:
    """The upper left part whose height and width are multiples of 3."""
    height, width = image_HW.shape
    return image_HW[: height // SCALE * SCALE, : width // SCALE * SCALE]


def pixel_hash(image_HW: np.ndarray) -> str:
    """SHA-256 of an image's shape and pixels, whatever the file that held them was compressed with."""
    return hashlib.sha256(repr(image_HW.shape).encode() + image_HW.tobytes()).hexdigest()


def read_from_wheel(place: str) -> np.ndarray:
    """Luma of a file given as `<package>/<path inside it>`, found without importing the package."""
    import numpy as np

    package, _, inside = place.partition("/")
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    path = next((folder / inside for folder in folders if (folder / inside).is_file()), None)
    if path is None:
        raise InputError(f"{place} not found in an installed package", fix=f"pip install {DISTRIBUTIONS[package]}")
    image_HW = np.load(path)["data"] if path.suffix == ".npz" else luma(path)
    return np.ascontiguousarray(crop_to_scale(image_HW))


def luma(file: Path | IO[bytes]) -> np.ndarray:
    """Luma (H, W) of an image file; that of a grey file is the file's own."""
    import numpy as np
    from PIL import Image

    with Image.open(file) as image:
        return np.asarray(image if image.mode == "L" else image.convert("RGB").convert("YCbCr").getchannel("Y"))


def resize(image_HW: np.ndarray, height: int, width: int) -> np.ndarray:
    """The image by Pillow's bicubic filter, which is antialiased where the image gets smaller."""
    import numpy as np
    from PIL import Image

    return np.asarray(Image.fromarray(image_HW).resize((width, height), Image.Resampling.BICUBIC))


def _read_committed(name: str) -> np.ndarray:
    import numpy as np
    from PIL import Image

    path = FOLDER / name
    fix = f"git checkout -- datasets/photographs/{name}"
    if not path.is_file():
        raise InputError(f"photograph missing: {path}", fix=fix)
    try:
        with Image.open(path) as image:
            image_HW = np.asarray(image)
    except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError for a broken PNG chunk
        raise InputError(f"photograph unreadable: {path}: {error}", fix=fix) from error
    if pixel_hash(image_HW) != SHA256[name]:
        raise InputError(f"photograph changed: the pixels of {path} do not match their SHA-256", fix=fix)
    return image_HW
