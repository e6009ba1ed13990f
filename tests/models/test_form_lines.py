# ruff: noqa: RUF001 (Cyrillic letters look like Latin ones)
"""The form lines: committed files are verified and made as described, and training never sees what is measured."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from random import Random

import numpy as np
import pytest
from PIL import Image

from bench.api.errors import InputError
from bench.api.loading import find, load_module

DATASET = find("datasets")["form_lines"]
form_lines = load_module(DATASET)
generate = load_module(DATASET.with_name("generate.py"))
lexicon, render = generate.lexicon, generate.render


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The data set with its files in a folder that a test may spoil."""
    for name in ("test.png", "test.tsv", "sums.json"):
        shutil.copy(DATASET.with_name(name), tmp_path)
    monkeypatch.setattr(form_lines, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch):
    """Lines without their pictures: labels and fonts come at once."""
    blank = render.Drawing(image=np.zeros((render.HEIGHT, render.WIDTH), np.uint8), left=0, width=render.WIDTH)
    monkeypatch.setattr(render, "draw_line", lambda *arguments: blank)


@pytest.mark.parametrize(("split", "num_seen", "num_new"), [("test", 1500, 200), ("train", 128, 0)])
def test_lines_of_a_split(split, num_seen, num_new):
    lines = form_lines.load(split)

    assert [line.is_new_font for line in lines] == [False] * num_seen + [True] * num_new
    for line in lines:
        assert line.image.shape == (32, 400)
        assert line.image.dtype == np.uint8
        assert set(line.text) <= set(form_lines.ALPHABET)
        assert line.is_numeric == any(character.isdigit() for character in line.text)


def test_alphabet_has_45_characters():
    assert len(set(form_lines.ALPHABET)) == len(form_lines.ALPHABET) == 45


def test_committed_files_stay_small():
    assert sum(path.stat().st_size for path in DATASET.parent.glob("*.png")) < 4_000_000


@pytest.mark.parametrize(
    ("split", "first", "generated"), [("test", 0, "validation"), ("test", 1500, "new_fonts"), ("train", 0, "train")]
)
def test_committed_lines_are_those_that_the_generator_makes(split, first, generated):
    made = generate.generate(generated, 40)
    committed = form_lines.load(split)[first : first + 40]

    np.testing.assert_array_equal(made.images, np.stack([line.image for line in committed]))
    assert made.texts == tuple(line.text for line in committed)
    assert made.is_numeric.tolist() == [line.is_numeric for line in committed]
    assert made.fonts == tuple(line.font for line in committed)


def test_a_split_is_the_one_that_is_recorded():
    """This process hashes texts in another way than the one that recorded it."""
    recorded = json.loads(DATASET.with_name("sums.json").read_text())["splits"]["new_fonts"]
    assert generate.digest(generate.generate("new_fonts")) == recorded


@pytest.mark.thorough
@pytest.mark.parametrize("seed", ["1", "2"])
def test_lines_are_the_same_in_every_process(seed):
    code = f"""
from pathlib import Path
from bench.plugins.catalog import load_module
generate = load_module(Path({str(DATASET.with_name("generate.py"))!r}))
print(generate.digest(generate.generate("new_fonts", 40)))
"""
    environment = os.environ | {"PYTHONHASHSEED": seed}
    told = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, check=True)

    assert told.stdout.strip() == generate.digest(generate.generate("new_fonts", 40))


def test_more_lines_leave_the_first_ones_as_they_are():
    few, more = generate.generate("validation", 3), generate.generate("validation", 6)

    np.testing.assert_array_equal(few.images, more.images[:3])
    assert few.texts == more.texts[:3]


def test_no_text_is_both_trained_on_and_measured(undrawn):
    texts = {split: set(generate.generate(split, 3000).texts) for split in generate.RECIPES}

    assert not texts["train"] & (texts["validation"] | texts["new_fonts"])
    assert set().union(*texts["train"]) == set(form_lines.ALPHABET)


def test_no_committed_text_is_both_trained_on_and_measured():
    texts = {split: {line.text for line in form_lines.load(split)} for split in ("train", "test")}

    assert not texts["train"] & texts["test"]
    assert all(lexicon.is_held_out(text) for text in texts["test"])
    assert not any(lexicon.is_held_out(text) for text in texts["train"])


def test_new_fonts_are_not_trained_on(undrawn):
    fonts = {split: set(generate.generate(split, 500).fonts) for split in generate.RECIPES}

    assert fonts["train"] == fonts["validation"] == set(render.TRAINED_FONTS)
    assert fonts["new_fonts"] == set(render.NEW_FONTS)
    assert not set(render.TRAINED_FONTS) & set(render.NEW_FONTS)


def test_labels_fit_the_line():
    random = Random(0)

    lengths = {len(lexicon.draw_label(random).text) for _ in range(2000)}

    assert min(lengths) == lexicon.MIN_LENGTH
    assert max(lengths) <= lexicon.MAX_LENGTH


def test_outside_the_drawn_part_the_edge_is_repeated():
    lines = generate.generate("validation", 20)

    assert lines.lefts.max() > 0
    for image_HW, left, width in zip(lines.images, lines.lefts, lines.widths, strict=True):
        right = left + width - 1
        assert (image_HW[:, :left] == image_HW[:, left : left + 1]).all()
        assert (image_HW[:, right:] == image_HW[:, right : right + 1]).all()


def test_white_paper_stays_white():
    page_HV = np.ones((render.HEIGHT, 100))
    random, noise = Random(0), np.random.RandomState(0)

    lightest = [render._scan(page_HV, random, noise).max() for _ in range(20)]
    darkest = min(render._scan(page_HV, random, noise).min() for _ in range(20))

    assert lightest == [255] * 20
    assert darkest > 150


def test_grey_levels_are_those_of_a_plain_scanner():
    levels = np.unique([line.image for line in form_lines.load("test")])

    assert levels.tolist() == list(range(0, 256, 17))


def test_digest_heeds_pixels_texts_and_fonts():
    lines = generate.generate("validation", 2)
    images = lines.images.copy()
    images[1, 5, 5] ^= 17
    others = [
        dataclasses.replace(lines, images=images),
        dataclasses.replace(lines, texts=(lines.texts[0], "МОСКВА")),
        dataclasses.replace(lines, fonts=(lines.fonts[0], "Other")),
    ]

    assert len({generate.digest(each) for each in [lines, *others]}) == 4


def test_other_lines_than_the_recorded_ones_are_refused_with_the_versions_that_made_those(tmp_path, monkeypatch):
    sums = {"made_with": {"numpy": "1.0", "pillow": "2.0", "matplotlib": "3.0"}, "splits": {"validation": "0" * 64}}
    monkeypatch.setattr(generate, "SUMS", tmp_path / "sums.json")
    generate.SUMS.write_text(json.dumps(sums))
    monkeypatch.setitem(
        generate.RECIPES, "validation", dataclasses.replace(generate.RECIPES["validation"], num_lines=2)
    )

    with pytest.raises(InputError, match=r"validation split .*\(pip install numpy==1\.0 pillow==2\.0 matplotlib==3\.0"):
        generate.generate_checked("validation")


def test_unknown_split_names_the_known_ones():
    with pytest.raises(InputError, match="'validation'; there are: test, train"):
        form_lines.load("validation")


def test_missing_file_is_named(copied):
    (copied / "test.png").unlink()

    with pytest.raises(InputError, match=r"unreadable: .*test\.png.*git checkout"):
        form_lines.load("test")


def keep_half(folder):
    content = (folder / "test.png").read_bytes()
    (folder / "test.png").write_bytes(content[: len(content) // 2])


def change_a_pixel(folder):
    image_HW = np.array(Image.open(folder / "test.png"))
    image_HW[70, 5] ^= 1
    Image.fromarray(image_HW).save(folder / "test.png", compress_level=1)


def cut_a_row(folder):
    image_HW = np.array(Image.open(folder / "test.png"))
    Image.fromarray(image_HW[:-1]).save(folder / "test.png", compress_level=1)


def change_a_text(folder):
    table = (folder / "test.tsv").read_text(encoding="utf-8")
    (folder / "test.tsv").write_text(table.replace("МАГАДАН", "МАГАДАМ", 1), encoding="utf-8")


@pytest.mark.parametrize("spoil", [keep_half, change_a_pixel, cut_a_row, change_a_text])
def test_corrupt_file_is_named(copied, spoil):
    spoil(copied)

    with pytest.raises(InputError, match=r"form lines (unreadable|changed): .*git checkout"):
        form_lines.load("test")
