"""Photographs for super-resolution: 14 held out for the quality figures, crops of eleven others for calibration.

`load` reads only the PNG files committed beside this file. The full photographs come from the wheels of scikit-image,
scikit-learn, matplotlib and PyWavelets and from a package of Debian; those of the first three are needed to train, and
all of them to rebuild the PNG files with `python datasets/photographs/dataset.py`. README.md has their sources and
licences.

Shapes: H height and W width in pixels, both multiples of 3 in a high-resolution image. Every image is luma (Y of
JPEG's YCbCr), uint8.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Photographs = list[tuple[str, np.ndarray]]

FOLDER = Path(__file__).parent
SCALE = 3
CROP = 198
"""Side of a calibration crop, in pixels."""

TEST = {
    "astronaut": "skimage/data/astronaut.png",
    "camera": "skimage/data/camera.png",
    "chelsea": "skimage/data/chelsea.png",
    "coffee": "skimage/data/coffee.png",
    "ascent": "pywt/data/ascent.npz",
}
"""Whole photographs, by the wheel that holds them."""
WALLPAPERS = {
    "aitzgorri": "aitzgorri_by_Aitzol_Berasategi.jpg",
    "friends": "friends_by_Aitzol_Berasategi.jpg",
    "life": "life_by_Aitzol_Berasategi.jpg",
    "picosdeeuropa": "picosdeeuropa_by_Aitzol_Berasategi.jpg",
    "sunset": "sunset_by_Aitzol_Berasategi.jpg",
    "fig": "Picture_0B_by_freespace.jpg",
    "brushes": "Picture_1A_by_freespace.jpg",
    "wine": "Wine_by_Jakkub_Mede.jpg",
    "seeding": "seeding_by_Clements_Engelhardt.jpg",
}
"""Held out, too: photographs of several megapixels, by the file in the folder that `PACKAGE` installs."""
PACKAGE = "lomiri-wallpapers-16.04"
BACKGROUNDS = Path("/usr/share/backgrounds")
LONGEST = 510
"""Pixels of the longer side that a wallpaper is made small to."""
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
TWO_CROPS = ("china", "flower", "grace_hopper", "rocket", "hubble_deep_field")
"""Photographs with two calibration crops, for the variety in them; the others give one."""
DISTRIBUTIONS = {
    "skimage": "scikit-image", "sklearn": "scikit-learn", "matplotlib": "matplotlib", "pywt": "PyWavelets",
}  # fmt: skip

SHA256 = {
    "test/astronaut.png": "1ade759d00d245702f70d14599c905867d2c43357eec8e907b3c737bade2e4e5",
    "test/camera.png": "5e950abfc6f8bf39e7e2361e73d173f79ef022925a5cfcb92069462c289539e7",
    "test/chelsea.png": "c712c5a8f33a2dfb1227558f9f9d7610ce1a78a9d550515dbd38ec56d943391c",
    "test/coffee.png": "f3619a6d0c1a84248c4d0bc86cbd7deb871f81d288eeb8dee234a8e566db21e3",
    "test/ascent.png": "8940c3f00261dd30f90e219ce8291b1a55e9303fcaf15aa51d98e12f6fdbf0d1",
    "test/aitzgorri.png": "1ac885b521aa01e2dbb5eb7077a458d5b13602ae45c3209b2b81b5c1c19b9c4d",
    "test/friends.png": "0d0123fab49ccb1c49ca0aa3a647c9d77e606e456282084a0fba23296ab77ebd",
    "test/life.png": "4dbd6e152994ab11985e8518e2003952099859eb5c2f19c33cb0b379a3038828",
    "test/picosdeeuropa.png": "3d27a04145db6bd1c7dcefad8285f11cb64ebdd960b351c18b745cc50f075097",
    "test/sunset.png": "e2d633cc48adab9cc691e7cd53646e060d00d473b1da849fae4767065a660b89",
    "test/fig.png": "7354523925bc44af6556492be99e1c33830dbb8f73605de2324345afab187c17",
    "test/brushes.png": "a7e08fe851b39162172e76db6f762c290ceacd6ea56a7908017a50f3509bcfd5",
    "test/wine.png": "2e16ae95c02c8645bab36851b9959afd8f49efc601f8c576804822b86e57f54f",
    "test/seeding.png": "d2f8f3173bbb35dfeb1536746cf96e94bd1a88ce00624ad3e6bf98d4a3fb6813",
    "train/china-1.png": "bbc9216afffacbdfb21fe866c728cb9e71695b13c5c8e2869d40716e331befe9",
    "train/china-2.png": "fb8601443418e53279b38421f96c59e6560c7673c73aeaafe8e32889cbcea610",
    "train/flower-1.png": "75b3a734c393eee61cfeeec59865d3cda6220b459b615bdcd8a309f1791eeeb6",
    "train/flower-2.png": "cb856f3bd8480f0499782d19e7b5988d0faf997d4d55f3c760175052f867d006",
    "train/grace_hopper-1.png": "91144b9608e2acd52ce4fba51f3a8a6c8bd3b51fd74393c77cda92b6748b739c",
    "train/grace_hopper-2.png": "687ed6cbb469a7ead316b3014e47091d89a9f419dda027fdbe19f6c4713e6d84",
    "train/rocket-1.png": "9186f5b7e3bcfbd108fa348c5f569b0b01898040b43607a9846fc47fdbba89e4",
    "train/rocket-2.png": "251b107ff7b77ca7849a55c6c078771f239156e4efbef49c0463b9d812d5b1e6",
    "train/brick-1.png": "2ccc6411c19484f401e8143a8fc6b4b3460b692632924bd0887d7e41e266a0a2",
    "train/grass-1.png": "095eb2f7003b04ccd1b503932ed10525990c002e13a9625ff3012ad6a3361313",
    "train/gravel-1.png": "26121c58b0f92bc2cba07ab675ecd8a3f5325911bcbe5c2f6d1ad0de3191ee53",
    "train/coins-1.png": "f97984d89dc1cdd00ad15e5f16f40a9406c3f7b8962c08129b4ebd0eedd3e461",
    "train/ihc-1.png": "ed657d4d41495de01c3f67964d4043c92c47a6486b2427beb1868acc9d73c58c",
    "train/retina-1.png": "5cce1a08c983ae87114f9b36ca777845caa40f6aaadbd413df6c46aed4ab5371",
    "train/hubble_deep_field-1.png": "dbeacb47f40199a3e8e6592e41256c003dd33162c03dcb658847ea4d72bda1ab",
    "train/hubble_deep_field-2.png": "83e48e83de49cda2b65070dc8a68679424e45d1231a4007aaf63383a2b15227d",
}
"""`pixel_hash` of every committed file, in the order in which `load` gives them."""


def load(split: str) -> Photographs:
    """The committed images of a split with their names, always in the same order.

    Args:
        split: `test` (14 held-out photographs) or `train` (16 textured crops of training photographs).

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
    return [(name, _read_from_wheel(place)) for name, place in TRAIN.items()]


def downscale(hr_HW: np.ndarray) -> np.ndarray:
    """A third of the size by Pillow's bicubic filter, whose support grows with the factor (so it is antialiased)."""
    height, width = hr_HW.shape
    return _resize(hr_HW, height // SCALE, width // SCALE)


def upscale_bicubic(lr_HW: np.ndarray) -> np.ndarray:
    """Three times the size by bicubic interpolation: the baseline that a network has to beat."""
    height, width = lr_HW.shape
    return _resize(lr_HW, height * SCALE, width * SCALE)


def crop_to_scale(image_HW: np.ndarray) -> np.ndarray:
    """The upper left part whose height and width are multiples of 3."""
    height, width = image_HW.shape
    return image_HW[: height // SCALE * SCALE, : width // SCALE * SCALE]


def pixel_hash(image_HW: np.ndarray) -> str:
    """SHA-256 of an image's shape and pixels, whatever the file that held them was compressed with."""
    return hashlib.sha256(repr(image_HW.shape).encode() + image_HW.tobytes()).hexdigest()


def held_out_photographs() -> Photographs:
    """The first five photographs of the test split, made anew from the wheels."""
    return [(name, _read_from_wheel(place)) for name, place in TEST.items()]


def wallpapers(folder: Path = BACKGROUNDS) -> Photographs:
    """The other photographs of the test split, made anew from the files that `PACKAGE` installs.

    Raises:
        InputError: a file is missing.
    """
    found = []
    for name, file in WALLPAPERS.items():
        if not (folder / file).is_file():
            raise InputError(f"photograph missing: {folder / file}", fix=f"apt-get install {PACKAGE}")
        luma_HW = _luma(folder / file)
        height, width = (round(side * LONGEST / max(luma_HW.shape)) for side in luma_HW.shape)
        found.append((name, crop_to_scale(_resize(luma_HW, height, width))))
    return found


def calibration_crops() -> Photographs:
    """The crops of the train split, made anew from the wheels."""
    crops = []
    for name, image_HW in training_photographs():
        best = _most_textured(image_HW, 2 if name in TWO_CROPS else 1)
        crops += [(f"{name}-{number}", crop_HW) for number, crop_HW in enumerate(best, start=1)]
    return crops


def _most_textured(image_HW: np.ndarray, count: int) -> list[np.ndarray]:
    """The cells of a grid, CROP pixels a side, with the largest mean step between neighbouring pixels."""
    import numpy as np

    height, width = image_HW.shape
    cells = [
        image_HW[y : y + CROP, x : x + CROP]
        for y in range(0, height - CROP + 1, CROP)
        for x in range(0, width - CROP + 1, CROP)
    ]

    def texture(cell_HW: np.ndarray) -> float:
        steps = cell_HW.astype(np.int64)
        return float(np.abs(np.diff(steps, axis=0)).mean() + np.abs(np.diff(steps, axis=1)).mean())

    return sorted(cells, key=texture, reverse=True)[:count]


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


def _read_from_wheel(place: str) -> np.ndarray:
    """Luma of a file given as `<package>/<path inside it>`, found without importing the package."""
    import numpy as np

    package, _, inside = place.partition("/")
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    path = next((folder / inside for folder in folders if (folder / inside).is_file()), None)
    if path is None:
        raise InputError(f"{place} not found in an installed package", fix=f"pip install {DISTRIBUTIONS[package]}")
    image_HW = np.load(path)["data"] if path.suffix == ".npz" else _luma(path)
    return np.ascontiguousarray(crop_to_scale(image_HW))


def _luma(path: Path) -> np.ndarray:
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image if image.mode == "L" else image.convert("RGB").convert("YCbCr").getchannel("Y"))


def _resize(image_HW: np.ndarray, height: int, width: int) -> np.ndarray:
    import numpy as np
    from PIL import Image

    return np.asarray(Image.fromarray(image_HW).resize((width, height), Image.Resampling.BICUBIC))


def rebuild() -> None:
    """Write every committed file anew and print its sum, with a note where it differs from the one kept here."""
    from PIL import Image

    held_out = [*held_out_photographs(), *wallpapers()]
    for split, images in (("test", held_out), ("train", calibration_crops())):
        (FOLDER / split).mkdir(exist_ok=True)
        for name, image_HW in images:
            file = f"{split}/{name}.png"
            Image.fromarray(image_HW).save(FOLDER / file, optimize=True)
            note = "" if SHA256.get(file) == pixel_hash(image_HW) else "  # differs from the committed sum"
            print(f'    "{file}": "{pixel_hash(image_HW)}",{note}')


if __name__ == "__main__":
    rebuild()
