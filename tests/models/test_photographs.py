"""The photographs: committed files are verified, made as described, and the splits do not overlap."""

import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.api.errors import InputError
from bench.api.loading import find, load_module

DATASET = find("datasets")["photographs"]
photographs = load_module(DATASET)
make = load_module(DATASET.with_name("make.py"))
CELLS = 24
"""Rows and columns of a photograph's hash."""
ALIKE, MARGIN = 423, 15
"""Bits of two hashes, of 576, that are equal above which photographs are of one scene; and by how many at least the
hashes of one scene, and of different scenes, are apart from that."""


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The data set with its files in a folder that a test may spoil."""
    for split in ("test", "train"):
        shutil.copytree(DATASET.parent / split, tmp_path / split)
    monkeypatch.setattr(photographs, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("split", "count"), [("test", 64), ("train", 16)])
def test_images_are_grey_and_divisible_by_the_scale(split, count):
    images = photographs.load(split)

    assert len(images) == count
    assert len({name for name, _ in images}) == count
    for _, image_HW in images:
        assert image_HW.dtype == np.uint8
        assert image_HW.ndim == 2
        assert all(side % photographs.SCALE == 0 for side in image_HW.shape)


def test_every_committed_file_has_a_sum():
    on_disk = {path.relative_to(DATASET.parent).as_posix() for path in DATASET.parent.glob("*/*.png")}

    assert on_disk == set(photographs.SHA256)


def test_committed_files_stay_small():
    for split, limit_bytes in (("test", 6_000_000), ("train", 500_000)):
        assert sum(path.stat().st_size for path in (DATASET.parent / split).iterdir()) < limit_bytes


def test_unknown_split_names_the_known_ones():
    with pytest.raises(InputError, match="'validation'; there are: test, train"):
        photographs.load("validation")


def test_missing_file_is_named(copied):
    (copied / "test/coffee.png").unlink()

    with pytest.raises(InputError, match=r"missing: .*coffee\.png"):
        photographs.load("test")


def keep_half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def write_text(path: Path) -> None:
    path.write_text("no image")


def change_a_pixel(path: Path) -> None:
    image_HW = np.array(Image.open(path))
    image_HW[5, 5] ^= 1
    Image.fromarray(image_HW).save(path)


@pytest.mark.parametrize("spoil", [keep_half, flip_a_byte, write_text, change_a_pixel])
def test_corrupt_file_is_named(copied, spoil):
    spoil(copied / "test/camera.png")

    with pytest.raises(InputError, match=r"photograph (unreadable|changed): .*camera\.png.*git checkout"):
        photographs.load("test")


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(photographs.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(InputError, match="pip install scikit-image"):
        make.held_out_photographs()


def test_test_split_can_be_rebuilt_from_the_wheel(monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.delitem(make.WHEELS, "ascent")  # PyWavelets holds it, which no test needs
    rebuilt = {name: photographs.pixel_hash(image) for name, image in make.held_out_photographs()}

    assert rebuilt == {name: photographs.SHA256[f"test/{name}.png"] for name in make.WHEELS}


def save_gradually(path: Path, *, number: int) -> None:
    """A plain colour in a file that is wider and redder the higher its number is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (1000 + 100 * number, 800), (10 * number, 100, 50)).save(path, quality=95)


def qt_resources(files: dict[str, bytes]) -> bytes:
    """A file of Qt's resources, version 1, with plain files in one folder."""
    names, tree, data = b"", struct.pack(">IHII", 0, 2, 1, 1), b""
    for number, name in enumerate(["folder", *files]):
        at = len(names)
        names += struct.pack(">HI", len(name), 0) + name.encode("utf-16-be")
        if not number:
            tree += struct.pack(">IHII", at, 2, len(files), 2)
            continue
        packed = number % 2 == 0  # every second file is compressed
        content = files[name]
        stored = struct.pack(">I", len(content)) + zlib.compress(content) if packed else content
        tree += struct.pack(">IHHHI", at, int(packed), 0, 1, len(data))
        data += struct.pack(">I", len(stored)) + stored
    start = 20
    sections = (start, start + len(tree), start + len(tree) + len(data))
    return struct.pack(">4s4I", b"qres", 1, *sections) + tree + data + names


def test_files_of_qt_resources_are_read(tmp_path):
    (tmp_path / "two.rcc").write_bytes(qt_resources({"plain": b"12", "packed": b"7" * 100}))

    assert make._resources(tmp_path / "two.rcc") == {"/folder/plain": b"12", "/folder/packed": b"7" * 100}


def test_photographs_of_packages_are_made_small_and_grey(tmp_path, monkeypatch):
    files = {"first": "backgrounds/first.jpg", "inside": "one.rcc/folder/inside.jpg"}
    monkeypatch.setattr(make, "DEBIAN", {"package": files})
    save_gradually(tmp_path / files["first"], number=0)
    save_gradually(tmp_path / "inside.jpg", number=1)
    archive = tmp_path / make.RESOURCES / "one.rcc"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(qt_resources({"inside.jpg": (tmp_path / "inside.jpg").read_bytes()}))
    made = dict(make.small_photographs(tmp_path))

    assert [*made] == ["first", "inside"]
    assert made["first"].shape == (408, 510)
    assert made["inside"].shape == (369, 510)
    assert np.ptp(made["first"]) == 0
    assert abs(int(made["inside"][0, 0]) - round(0.299 * 10 + 0.587 * 100 + 0.114 * 50)) <= 1


def test_missing_photograph_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"aitzgorri_by.*apt-get install lomiri-wallpapers-16\.04"):
        make.small_photographs(tmp_path)
    monkeypatch.setattr(make, "DEBIAN", {"gcompris-qt-data": {"petra": "monuments.rcc/wonders/petra.webp"}})
    with pytest.raises(InputError, match=r"monuments\.rcc.*apt-get install gcompris-qt-data"):
        make.small_photographs(tmp_path)
    (tmp_path / make.RESOURCES).mkdir(parents=True)
    (tmp_path / make.RESOURCES / "monuments.rcc").write_bytes(qt_resources({"other.webp": b""}))
    with pytest.raises(InputError, match=r"wonders/petra\.webp in .*apt-get install gcompris-qt-data"):
        make.small_photographs(tmp_path)


def test_every_photograph_of_the_test_split_has_a_source_and_terms():
    named = [*make.WHEELS, *(name for files in make.DEBIAN.values() for name in files)]
    readme = (DATASET.parent / "README.md").read_text()

    assert [name for name, _ in photographs.load("test")] == named
    assert all(f"`{name}`" in readme for name in named)


def difference_hash(image_HW: np.ndarray) -> np.ndarray:
    """576 bits: where the means of 24 by 25 cells grow from left to right."""
    means_HW = np.asarray(Image.fromarray(image_HW).resize((CELLS + 1, CELLS), Image.Resampling.BOX)).astype(int)
    return (np.diff(means_HW, axis=1) > 0).ravel()


def test_held_out_photographs_are_of_different_scenes():
    images = photographs.load("test")
    hashes = np.array([difference_hash(image_HW) for _, image_HW in images])
    within = np.array([difference_hash(image_HW[6:-6, 9:-9]) for _, image_HW in images])
    alike = (hashes[:, None] == hashes).sum(axis=2)

    assert len({photographs.pixel_hash(image_HW) for _, image_HW in images}) == len(images) == 64
    assert alike[~np.eye(64, dtype=bool)].max() <= ALIKE - MARGIN
    assert (hashes == within).sum(axis=1).min() >= ALIKE + MARGIN, "the hash tells the same scene"


def test_held_out_photographs_have_something_to_restore():
    for name, hr_HW in photographs.load("test"):
        restored_HW = photographs.upscale_bicubic(photographs.downscale(hr_HW))
        error = np.mean((restored_HW.astype(float) - hr_HW)[3:-3, 3:-3] ** 2)
        assert 10 * np.log10(255**2 / error) < 40, name


def test_train_split_comes_from_training_photographs():
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    originals = {
        name: {cell.tobytes() for cell in cells(image_HW)} for name, image_HW in photographs.training_photographs()
    }

    for name, crop_HW in photographs.load("train"):
        assert crop_HW.tobytes() in originals[name.rpartition("-")[0]], name


def cells(image_HW: np.ndarray) -> list[np.ndarray]:
    size = make.CROP
    height, width = image_HW.shape
    return [
        image_HW[y : y + size, x : x + size]
        for y in range(0, height - size + 1, size)
        for x in range(0, width - size + 1, size)
    ]


def test_no_held_out_photograph_is_trained_on():
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    trained_on = photographs.training_photographs()

    assert len(trained_on) == 11
    assert not {name for name, _ in trained_on} & {name for name, _ in photographs.load("test")}
    assert not set(make.WHEELS.values()) & set(photographs.TRAIN.values())
    hashes = [difference_hash(image_HW) for _, image_HW in trained_on]
    held_out = [difference_hash(image_HW) for _, image_HW in photographs.load("test")]
    assert max((one == other).sum() for one in hashes for other in held_out) <= ALIKE - MARGIN


def test_downscale_and_bicubic_upscale_undo_each_other_in_size():
    image_HW = photographs.load("test")[2][1]

    small_HW = photographs.downscale(image_HW)

    assert small_HW.shape == (100, 150)
    assert photographs.upscale_bicubic(small_HW).shape == image_HW.shape


def test_downscale_is_antialiased():
    stripes_HW = np.tile(np.array([0, 255], np.uint8), (60, 30))

    assert photographs.downscale(stripes_HW)[5:-5, 5:-5].std() < 20
