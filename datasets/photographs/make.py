"""Makes the photographs of both splits from the packages that hold them: `python datasets/photographs/make.py`.

    pip install 'inferometer[train]' PyWavelets
    apt-get install lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 mate-backgrounds plasma-workspace-wallpapers \
        kphotoalbum gcompris-qt-data

Left out of the packages of Debian are drawings, people, and what bicubic interpolation restores at more than 40 dB.
README.md has sources and licences.

Shapes: H height and W width in pixels.
"""

from __future__ import annotations

import functools
import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench.api.errors import InputError
from bench.api.loading import load_module

if TYPE_CHECKING:
    import numpy as np

    Photographs = list[tuple[str, np.ndarray]]

dataset: Any = load_module(Path(__file__).with_name("dataset.py"))

CROP = 198
"""Side of a calibration crop, in pixels."""
TWO_CROPS = ("china", "flower", "grace_hopper", "rocket", "hubble_deep_field")
"""Photographs with two calibration crops, for the variety in them; the others give one."""

SHARED = Path("/usr/share")
LONGEST = 510
"""Pixels of the longer side that a photograph from a package of Debian is made small to."""
WHEELS = {
    "astronaut": "skimage/data/astronaut.png",
    "camera": "skimage/data/camera.png",
    "chelsea": "skimage/data/chelsea.png",
    "coffee": "skimage/data/coffee.png",
    "ascent": "pywt/data/ascent.npz",
}
"""Held-out photographs, as they are, by the wheel that holds them."""
DEBIAN = {
    "lomiri-wallpapers-16.04": {
        "aitzgorri": "backgrounds/aitzgorri_by_Aitzol_Berasategi.jpg",
        "friends": "backgrounds/friends_by_Aitzol_Berasategi.jpg",
        "life": "backgrounds/life_by_Aitzol_Berasategi.jpg",
        "picosdeeuropa": "backgrounds/picosdeeuropa_by_Aitzol_Berasategi.jpg",
        "sunset": "backgrounds/sunset_by_Aitzol_Berasategi.jpg",
        "fig": "backgrounds/Picture_0B_by_freespace.jpg",
        "brushes": "backgrounds/Picture_1A_by_freespace.jpg",
        "wine": "backgrounds/Wine_by_Jakkub_Mede.jpg",
        "seeding": "backgrounds/seeding_by_Clements_Engelhardt.jpg",
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
    "gcompris-qt-data": {
        "pont_du_gard": "explore_monuments.rcc/france/pontduGard.webp",
        "rocamadour": "explore_monuments.rcc/france/rocamadour.webp",
        "hawa_mahal": "explore_monuments.rcc/india/hawaMahal.webp",
        "mount_rushmore": "explore_monuments.rcc/usa/mountRushmore.webp",
        "petra": "explore_monuments.rcc/wonders/petra.webp",
        "machu_picchu": "explore_monuments.rcc/wonders/machuPicchu.webp",
        "neuschwanstein": "explore_monuments.rcc/germany/neuschwansteinCastle.webp",
        "chickens": "explore_farm_animals.rcc/animals/chicken.webp",
        "horses": "explore_farm_animals.rcc/animals/horse.webp",
        "bison": "explore_world_animals.rcc/animals/bison.webp",
        "giraffes": "explore_world_animals.rcc/animals/giraffe.webp",
        "hedgehog": "explore_world_animals.rcc/animals/hedgehog.webp",
        "polar_bear": "explore_world_animals.rcc/animals/polar_bear.webp",
        "lemurs": "explore_world_animals.rcc/animals/lemur.webp",
    },
}
"""Held-out photographs that are made small, by the package and the file below `SHARED` that it installs.

A name below a file of Qt's resources (`.rcc`) is one of the files in that, by how its path ends.
"""
RESOURCES = Path("gcompris-qt/rcc")
"""Folder below `SHARED` with files of Qt's resources."""


def held_out_photographs() -> Photographs:
    """The first photographs of the test split, made anew from the wheels."""
    return [(name, dataset.read_from_wheel(place)) for name, place in WHEELS.items()]


def small_photographs(shared: Path = SHARED) -> Photographs:
    """The other photographs of the test split: luma with a longer side of `LONGEST`.

    Raises:
        InputError: a file is missing.
    """
    found = []
    for package, files in DEBIAN.items():
        for name, file in files.items():
            luma_HW = dataset.luma(_opened(shared, file, package))
            height, width = (round(side * LONGEST / max(luma_HW.shape)) for side in luma_HW.shape)
            found.append((name, dataset.crop_to_scale(dataset.resize(luma_HW, height, width))))
    return found


def calibration_crops() -> Photographs:
    """The crops of the train split, made anew from the wheels."""
    crops = []
    for name, image_HW in dataset.training_photographs():
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


def _opened(shared: Path, file: str, package: str) -> Path | IO[bytes]:
    """A file below a folder, or one inside a file of Qt's resources.

    Raises:
        InputError: it is missing.
    """
    archive, is_inside, end = file.partition(".rcc/")
    path = shared / RESOURCES / f"{archive}.rcc" if is_inside else shared / file
    if not path.is_file():
        raise InputError(f"photograph missing: {path}", fix=f"apt-get install {package}")
    if not is_inside:
        return path
    found = next((content for name, content in _resources(path).items() if name.endswith(f"/{end}")), None)
    if found is None:
        raise InputError(f"photograph missing: {end} in {path}", fix=f"apt-get install {package}")
    return io.BytesIO(found)


@functools.cache
def _resources(path: Path) -> dict[str, bytes]:
    """The files inside a file of Qt's resources, by their paths.

    Source: `RCCResourceLibrary::writeHeader`, `RCCFileInfo::writeDataInfo` in qtbase's `src/tools/rcc/rcc.cpp`.
    """
    content = path.read_bytes()
    magic, version, tree, data, names = struct.unpack_from(">4s4I", content)
    assert magic == b"qres", f"{path} is no file of Qt's resources"
    node_size = 14 if version == 1 else 22  # later versions add the time of the last change
    directory, compressed = 2, 1

    def walk(index: int, folder: str) -> Iterator[tuple[str, bytes]]:
        name_at, flags, first, second = struct.unpack_from(">IHII", content, tree + index * node_size)
        (num_letters,) = struct.unpack_from(">H", content, names + name_at)
        start = names + name_at + 6
        name = content[start : start + 2 * num_letters].decode("utf-16-be") if index else ""
        if flags & directory:
            for child in range(second, second + first):
                yield from walk(child, f"{folder}{name}/")
        else:
            start = data + second
            (size,) = struct.unpack_from(">I", content, start)
            found = content[start + 4 : start + 4 + size]
            yield f"{folder}{name}", zlib.decompress(found[4:]) if flags & compressed else found

    return dict(walk(0, ""))


def main() -> None:
    """Write every file and every sum anew, and say which sums are others than those kept here."""
    from PIL import Image

    sums = {}
    held_out = [*held_out_photographs(), *small_photographs()]
    for split, images in (("test", held_out), ("train", calibration_crops())):
        (dataset.FOLDER / split).mkdir(exist_ok=True)
        for name, image_HW in images:
            file = f"{split}/{name}.png"
            sums[file] = dataset.pixel_hash(image_HW)
            if dataset.SHA256.get(file) != sums[file]:
                Image.fromarray(image_HW).save(dataset.FOLDER / file, optimize=True)
                print(f"{file} differs from the committed one")
    (dataset.FOLDER / "sums.json").write_text(json.dumps(sums, indent=2) + "\n")


if __name__ == "__main__":
    main()
