"""The photographs: committed files are verified, made as described, and the splits do not overlap."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.api.errors import InputError
from bench.api.loading import find, load_module

DATASET = find("datasets")["photographs"]
photographs = load_module(DATASET)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The data set with its files in a folder that a test may spoil."""
    for split in ("test", "more", "train"):
        shutil.copytree(DATASET.parent / split, tmp_path / split)
    monkeypatch.setattr(photographs, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("split", "count"), [("test", 14), ("more", 36), ("train", 16)])
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
    for split, limit_bytes in (("test", 1_600_000), ("more", 3_000_000), ("train", 500_000)):
        assert sum(path.stat().st_size for path in (DATASET.parent / split).iterdir()) < limit_bytes


def test_unknown_split_names_the_known_ones():
    with pytest.raises(InputError, match="'validation'; there are: test, more, train"):
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
        photographs.held_out_photographs()


def test_test_split_can_be_rebuilt_from_the_wheel(monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.delitem(photographs.TEST, "ascent")  # PyWavelets holds it, which no test needs
    rebuilt = {name: photographs.pixel_hash(image) for name, image in photographs.held_out_photographs()}

    assert rebuilt == {name: photographs.SHA256[f"test/{name}.png"] for name in photographs.TEST}


def save_gradually(path: Path, *, number: int) -> None:
    """A plain colour in a file that is wider and redder the higher its number is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (1000 + 100 * number, 800), (10 * number, 100, 50)).save(path, quality=95)


def test_wallpapers_are_made_small_and_grey(tmp_path):
    for number, file in enumerate(photographs.WALLPAPERS.values()):
        save_gradually(tmp_path / file, number=number)
    made = dict(photographs.wallpapers(tmp_path))

    assert made.keys() == photographs.WALLPAPERS.keys()
    assert made["aitzgorri"].shape == (408, 510)
    assert made["friends"].shape == (369, 510)
    assert np.ptp(made["aitzgorri"]) == 0
    assert abs(int(made["friends"][0, 0]) - round(0.299 * 10 + 0.587 * 100 + 0.114 * 50)) <= 1


def test_missing_photograph_is_named_with_the_command_that_installs_it(tmp_path):
    with pytest.raises(InputError, match=r"aitzgorri_by.*apt-get install lomiri-wallpapers-16\.04"):
        photographs.wallpapers(tmp_path)
    for file in photographs.MORE[photographs.LOMIRI].values():
        save_gradually(tmp_path / file, number=0)
    with pytest.raises(InputError, match=r"Kleiber_by.*apt-get install lomiri-wallpapers-20\.04"):
        photographs.more_photographs(tmp_path)


def test_every_photograph_that_confirms_has_a_source_and_terms():
    named = [name for files in photographs.MORE.values() for name in files]
    readme = (DATASET.parent / "README.md").read_text()

    assert [name for name, _ in photographs.load("more")] == named
    assert all(f"`{name}`" in readme for name in named)


def test_photographs_that_confirm_are_no_others_twice_and_have_something_to_restore():
    hashes = [photographs.pixel_hash(image_HW) for split in ("test", "more") for _, image_HW in photographs.load(split)]

    assert len(set(hashes)) == 50
    for name, hr_HW in photographs.load("more"):
        restored_HW = photographs.upscale_bicubic(photographs.downscale(hr_HW))
        error = np.mean((restored_HW.astype(float) - hr_HW)[3:-3, 3:-3] ** 2)
        assert 10 * np.log10(255**2 / error) < 40, name


def test_every_photograph_of_the_test_split_has_a_source():
    assert [name for name, _ in photographs.load("test")] == [*photographs.TEST, *photographs.WALLPAPERS]


def test_train_split_comes_from_training_photographs():
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    originals = {
        name: {cell.tobytes() for cell in cells(image_HW)} for name, image_HW in photographs.training_photographs()
    }

    for name, crop_HW in photographs.load("train"):
        assert crop_HW.tobytes() in originals[name.rpartition("-")[0]], name


def cells(image_HW: np.ndarray) -> list[np.ndarray]:
    size = photographs.CROP
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
    assert not set(photographs.TEST.values()) & set(photographs.TRAIN.values())
    hashes = {photographs.pixel_hash(image_HW) for _, image_HW in trained_on}
    assert not hashes & {photographs.pixel_hash(image_HW) for _, image_HW in photographs.load("test")}


def test_downscale_and_bicubic_upscale_undo_each_other_in_size():
    image_HW = photographs.load("test")[2][1]

    small_HW = photographs.downscale(image_HW)

    assert small_HW.shape == (100, 150)
    assert photographs.upscale_bicubic(small_HW).shape == image_HW.shape


def test_downscale_is_antialiased():
    stripes_HW = np.tile(np.array([0, 255], np.uint8), (60, 30))

    assert photographs.downscale(stripes_HW)[5:-5, 5:-5].std() < 20
