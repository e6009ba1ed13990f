"""Photographs for super-resolution: 14 held out for the quality figures, 36 more held out to confirm what a search
proposes, crops of eleven others for calibration.

`load` reads only the PNG files committed beside this file. The full photographs come from the wheels of scikit-image,
scikit-learn, matplotlib and PyWavelets and from packages of Debian; those of the first three are needed to train, and
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
LOMIRI = "lomiri-wallpapers-16.04"
WALLPAPERS = {
    "aitzgorri": "backgrounds/aitzgorri_by_Aitzol_Berasategi.jpg",
    "friends": "backgrounds/friends_by_Aitzol_Berasategi.jpg",
    "life": "backgrounds/life_by_Aitzol_Berasategi.jpg",
    "picosdeeuropa": "backgrounds/picosdeeuropa_by_Aitzol_Berasategi.jpg",
    "sunset": "backgrounds/sunset_by_Aitzol_Berasategi.jpg",
    "fig": "backgrounds/Picture_0B_by_freespace.jpg",
    "brushes": "backgrounds/Picture_1A_by_freespace.jpg",
    "wine": "backgrounds/Wine_by_Jakkub_Mede.jpg",
    "seeding": "backgrounds/seeding_by_Clements_Engelhardt.jpg",
}
"""Held out, too: photographs of several megapixels, by the file below `SHARED` that the package `LOMIRI` installs."""
MORE = {
    LOMIRI: {
        "bridge": "backgrounds/Bridge_by_Sander_Klootwijk.jpg",
        "berries": "backgrounds/Dragonfly_by_Bolly.jpg",
        "bird": "backgrounds/free_by_Peter_Nerlich.jpg",
        "clock": "backgrounds/greentock_by_Peter_Nerlich.jpg",
    },
    "lomiri-wallpapers-20.04": {
        "nuthatch": "backgrounds/Kleiber_by_Lukas_Baubkus.jpg",
    },
    "mate-backgrounds": {
        "aqua": "backgrounds/mate/nature/Aqua.jpg",
        "blinds": "backgrounds/mate/nature/Blinds.jpg",
        "dune": "backgrounds/mate/nature/Dune.jpg",
        "fresh_flower": "backgrounds/mate/nature/FreshFlower.jpg",
        "garden": "backgrounds/mate/nature/Garden.jpg",
        "green_meadow": "backgrounds/mate/nature/GreenMeadow.jpg",
        "lady_bird": "backgrounds/mate/nature/LadyBird.jpg",
        "rain_drops": "backgrounds/mate/nature/RainDrops.jpg",
        "storm": "backgrounds/mate/nature/Storm.jpg",
        "two_wings": "backgrounds/mate/nature/TwoWings.jpg",
        "wood": "backgrounds/mate/nature/Wood.jpg",
        "yellow_flower": "backgrounds/mate/nature/YellowFlower.jpg",
    },
    "plasma-workspace-wallpapers": {
        "fallen_leaf": "wallpapers/FallenLeaf/contents/images/2560x1600.jpg",
        "path": "wallpapers/Path/contents/images/2560x1600.jpg",
        "summer_1am": "wallpapers/summer_1am/contents/images/2560x1600.jpg",
        "evening_glow": "wallpapers/EveningGlow/contents/images/2560x1600.jpg",
        "grey": "wallpapers/Grey/contents/images/2560x1600.jpg",
        "kite": "wallpapers/Kite/contents/images/2560x1600.jpg",
        "colorful_cups": "wallpapers/ColorfulCups/contents/images/2560x1600.jpg",
        "one_stands_out": "wallpapers/OneStandsOut/contents/images/2560x1600.jpg",
        "cold_ripple": "wallpapers/ColdRipple/contents/images/2560x1600.jpg",
        "by_the_water": "wallpapers/BytheWater/contents/images/2560x1600.jpg",
    },
    "kphotoalbum": {
        "blackie": "kphotoalbum/demo/blackie.jpg",
        "donna": "kphotoalbum/demo/donna.jpg",
        "donna_2": "kphotoalbum/demo/donna_2.jpg",
        "grand_canyon": "kphotoalbum/demo/grand_canyon_3.jpg",
        "skagen": "kphotoalbum/demo/skagen.jpg",
        "snow": "kphotoalbum/demo/snow.jpg",
        "spiff": "kphotoalbum/demo/spiff.jpg",
        "spiff_2": "kphotoalbum/demo/spiff_2.jpg",
        "dusk": "kphotoalbum/demo/sunset.jpg",
    },
}
"""Held out to confirm what a search proposes, besides the test split: files below `SHARED`, by the package of Debian.

Left out of these packages are drawings, people, and what bicubic interpolation restores at more than 40 dB.
"""
SHARED = Path("/usr/share")
LONGEST = 510
"""Pixels of the longer side that a photograph from a package of Debian is made small to."""
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
    "more/bridge.png": "52f7e9f23cd8d1d300f8a78f8c7da3e433a24a210e2f8347498b76622bd7f9de",
    "more/berries.png": "bd7b3738c0e59b19eb91f14db7b2707534e54462a28ed00a821051be44fe69c4",
    "more/bird.png": "9c723889cc53814acec19ccb1546eb0ca26cf062be56206c44d9d029ed2aa314",
    "more/clock.png": "591b5165bc4b7ac8a5ea13fb10c9f5a3f46c4c16739d2113ee9303d0085e76dc",
    "more/nuthatch.png": "9c72c51f74ddf95c5a7ba6004c894d8a871030d1893fb3a7eff6f7bffe0ada68",
    "more/aqua.png": "70e13a4d5af52a75d12131340a593c56e25be1a4f15faccc2eb4e961011e1967",
    "more/blinds.png": "7e09ae87f08df0b8f15f6d0bca9d09ddcfcc87fba587810a41c9e17c2681357d",
    "more/dune.png": "65ab9baaa3b9e5b72ba87a9a77e9e42d7261d5e83db49aacf7fe5e5ba8975e3a",
    "more/fresh_flower.png": "4279211ae8889a5a815e2a7b061f881bd9ef33a90b1d6d098a5a4069dfdcbf65",
    "more/garden.png": "0c89c7b1939bbf389b3fe4b0f45aededd28f1b846b17bcc57bf4db2e3bfc82d7",
    "more/green_meadow.png": "c41dd120cf97313b05fd1e4ca4625fc9eb54211bbfd8f46140c1a54a381ac2bc",
    "more/lady_bird.png": "5b4b390b26170ab338e2936cd12500cc458fa5540db434ea409f60510c0c8044",
    "more/rain_drops.png": "3dbc3e0b273a4e683957cf635089871052c709b7b51bf348a9edbdfee4f1ccbc",
    "more/storm.png": "8c1a0738185e3396e88fd93c427abc8974b5fd0e3023203ae5ba2ea3fb8ca1af",
    "more/two_wings.png": "fdb08a90d31adbfd8e6bbbba48372e15c59b0fdce98c82448d0ec30656b39baa",
    "more/wood.png": "aa1b2f17e85a82196b007c24ebce38d2e7ef7d661326adaef54838a637684f23",
    "more/yellow_flower.png": "92502458c51bf48d2313ff86c9f2eb31c92e358cd592c26c16c86cb11bb2d8f2",
    "more/fallen_leaf.png": "e9c34323e9881f8bca998389a3f7394269f52a726914f59d5feda8242f89e4c3",
    "more/path.png": "3f0c0e1b97e15a97b4a43a34f9e4f8525342d8946deffbca7f11c0f81324690a",
    "more/summer_1am.png": "56d16302e6bbb0fdf5df9c9d64a4618b6105463d653101fab9a0f0b4793b6ffc",
    "more/evening_glow.png": "d4c5312ba66c8f3409be33279e292548e76ed1e1f587facf6678bbee36866199",
    "more/grey.png": "e86ce98d96d19fff04acac762fae935f3bc0393e7e1259b7a5353d21b626419b",
    "more/kite.png": "9c125a86721c39aa7b6a56917c930f71ae9793a76b5698c251879ed9c5e9ac8f",
    "more/colorful_cups.png": "60318695543b0e57df7f97f2b921c8736dd68ed407dea08c228800e9517832ff",
    "more/one_stands_out.png": "34064e4bba072e5f0577fb9a307846e31d8dd1a4f87ba87898a65163d072508c",
    "more/cold_ripple.png": "a849dbce612bdad32b3400c500af69939cdf42e6cf8f1886e79e01e7c400f224",
    "more/by_the_water.png": "f53485d457b4abdefae297cb06f909319a01676f8f0574cdb17f3eb7d020b7c7",
    "more/blackie.png": "31812611312d40fcbb2e898cb2755bbbc5a24a6b6333b492583fb3f1517b1919",
    "more/donna.png": "a45c0aeb09915b9c83f5dfa8b2531c3012271de82356f536d9573fd7c48decd0",
    "more/donna_2.png": "bc5c996f99cd8faae62b2dc7d8c0ccbcf0a1824f85d28eab64d9653c71c261de",
    "more/grand_canyon.png": "3a0ee22377fc7b86345cb9b577ba99736c892e265d14f3527fda7a25ed9a3f31",
    "more/skagen.png": "2140b97c3eb9069c54e5607ba1ca946cf959f9ccbe5be86747bf4c2707e1fb8a",
    "more/snow.png": "125ef850dc5440d8985f1a6740e681758278a136eb84ce7838a01e75edaae886",
    "more/spiff.png": "c79673437179721a27ea09febbe3b0d127f932b8b126b232947744a05a1b857c",
    "more/spiff_2.png": "b723f64670c756249f1e0abf873f564e082edc9755fcd4c03dce8471fab6822c",
    "more/dusk.png": "b3ca662654a5e054f6ff52eed57195b858cd475e62e23f6b50681c376288e75a",
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
        split: `test` (14 held-out photographs), `more` (36 more) or `train` (16 textured crops of training
            photographs).

    Returns:
        Pairs of a name and a uint8 array (H, W).

    Raises:
        InputError: there is no such split, or a file is missing or is not the one that was committed.
    """
    files = [name for name in SHA256 if name.startswith(f"{split}/")]
    if not files:
        raise InputError(f"photographs have no split named {split!r}; there are: test, more, train")
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


def wallpapers(shared: Path = SHARED) -> Photographs:
    """The other photographs of the test split, made anew from the files of a package.

    Raises:
        InputError: a file is missing.
    """
    return _made_small(LOMIRI, WALLPAPERS, shared)


def more_photographs(shared: Path = SHARED) -> Photographs:
    """The photographs of the split `more`, made anew from the files of packages.

    Raises:
        InputError: a file is missing.
    """
    return [pair for package, files in MORE.items() for pair in _made_small(package, files, shared)]


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


def _made_small(package: str, files: dict[str, str], shared: Path) -> Photographs:
    """Luma with a longer side of `LONGEST` of each file of a package, by name."""
    found = []
    for name, file in files.items():
        if not (shared / file).is_file():
            raise InputError(f"photograph missing: {shared / file}", fix=f"apt-get install {package}")
        luma_HW = _luma(shared / file)
        height, width = (round(side * LONGEST / max(luma_HW.shape)) for side in luma_HW.shape)
        found.append((name, crop_to_scale(_resize(luma_HW, height, width))))
    return found


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
    for split, images in (("test", held_out), ("more", more_photographs()), ("train", calibration_crops())):
        (FOLDER / split).mkdir(exist_ok=True)
        for name, image_HW in images:
            file = f"{split}/{name}.png"
            Image.fromarray(image_HW).save(FOLDER / file, optimize=True)
            note = "" if SHA256.get(file) == pixel_hash(image_HW) else "  # differs from the committed sum"
            print(f'    "{file}": "{pixel_hash(image_HW)}",{note}')


if __name__ == "__main__":
    rebuild()
