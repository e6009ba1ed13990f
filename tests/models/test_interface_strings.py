"""The interface strings: committed files are verified, splits do not overlap, and they are made as described."""

import collections
import io
import shutil
import struct
import zipfile

import pytest

from bench.api.errors import InputError
from bench.api.loading import find, load_module

DATASET = find("datasets")["interface_strings"]
interface_strings = load_module(DATASET)
make = load_module(DATASET.with_name("make.py"))


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The data set with its files in a folder that a test may spoil."""
    for name in ("train.tsv", "test.tsv", "further.tsv"):
        shutil.copy(DATASET.with_name(name), tmp_path)
    monkeypatch.setattr(interface_strings, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("split", "count", "least"), [("train", 13_169, 251), ("test", 2_989, 55)])
def test_every_language_has_its_strings(split, count, least):
    strings = interface_strings.load(split)
    per_language = collections.Counter(string.language for string in strings)

    assert len(strings) == count
    assert list(per_language) == list(interface_strings.LANGUAGES)
    assert len(per_language) == 36
    assert min(per_language.values()) == least


def test_further_strings_are_of_28_languages():
    counts = collections.Counter(string.language for string in interface_strings.load("further"))

    assert sum(counts.values()) == 9_956
    assert (len(counts), min(counts.values()), max(counts.values())) == (28, 23, 400)


def test_texts_are_clean_lines_of_at_least_twelve_characters():
    for split in ("train", "test", "further"):
        for string in interface_strings.load(split):
            assert len(string.text) >= 12
            assert string.text == " ".join(string.text.split())
            assert make.clean(string.text) == string.text


def test_no_message_and_no_string_is_on_both_sides_or_in_two_languages():
    splits = [interface_strings.load(split) for split in ("train", "test", "further")]
    letters = [interface_strings.letters(string.text) for split in splits for string in split]
    messages = [{string.message for string in split} for split in splits]

    assert len(set.union(*messages)) == sum(map(len, messages))
    assert len(set(letters)) == len(letters)


def test_letters_are_what_is_left_without_case_and_signs():
    assert interface_strings.letters("Straße, 2. ÖFFNEN!") == "strasseöffnen"


def test_unknown_split_names_the_known_ones():
    with pytest.raises(InputError, match="'validation'; there are: train, test, further"):
        interface_strings.load("validation")


def test_missing_file_is_named(copied):
    (copied / "test.tsv").unlink()

    with pytest.raises(InputError, match=r"missing: .*test\.tsv"):
        interface_strings.load("test")


def test_changed_file_is_named(copied):
    content = (copied / "train.tsv").read_bytes()
    (copied / "train.tsv").write_bytes(content.replace(b"a", b"b", 1))

    with pytest.raises(InputError, match=r"changed: .*train\.tsv.*git checkout"):
        interface_strings.load("train")


def test_licence_of_the_texts_is_there():
    assert "Copyright (c) Django Software Foundation" in DATASET.with_name("LICENSE").read_text()
    assert "2014-present Torchbox Ltd" in DATASET.with_name("LICENSE.wagtail").read_text()


def catalogue(entries: dict[str, str]) -> bytes:
    """An `.mo` file as GNU msgfmt writes it, without a hash table."""
    head, tables, texts = 28, [], b""
    start = head + 16 * len(entries)
    for side in (entries.keys(), entries.values()):
        for text in side:
            encoded = text.encode()
            tables.append(struct.pack("<2I", len(encoded), start + len(texts)))
            texts += encoded + b"\0"
    count = len(entries)
    return struct.pack("<7I", 0x950412DE, 0, count, head, head + 8 * count, 0, 0) + b"".join(tables) + texts


def wheel(**catalogues: dict[str, str]) -> zipfile.ZipFile:
    """A wheel with one catalogue a language."""
    archive = zipfile.ZipFile(io.BytesIO(), "w")
    for language, entries in catalogues.items():
        archive.writestr(f"django/conf/locale/{language}/LC_MESSAGES/django.mo", catalogue(entries))
    return archive


def test_catalogue_is_read_with_contexts_and_plurals():
    content = catalogue({"": "header", "menu\4Open": "Öffnen", "%d day\0%d days": "%d Tag\0%d Tage"})

    assert list(make.read_catalogue(content)) == [
        ([""], ["header"]),
        (["Open"], ["Öffnen"]),
        (["%d day", "%d days"], ["%d Tag", "%d Tage"]),
    ]


def test_catalogue_of_another_kind_is_refused():
    with pytest.raises(InputError, match="begins with 61616161"):
        list(make.read_catalogue(b"a" * 28))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Das  %(name)s ist\n<b>neu</b>.", "Das ist neu ."),
        ("%d von {total}: %(value).1f %(key)r %s", "von :"),
        ("100 % sicher", "100 % sicher"),
        ("cafe\u0301\u00a0noir", "caf\u00e9 noir"),
    ],
)
def test_placeholders_tags_and_spaces_are_cleaned(text, expected):
    assert make.clean(text) == expected


def test_short_english_and_unknown_texts_are_left_out():
    found = make.read_wheel(
        wheel(
            de={
                "": "der Kopf des Katalogs",
                "Short": "Kurz",
                "Eleven": "Elf Zeichen%s",
                "Not translated %s": "Not translated",
                "%d page": "%d Seite, ganz allein\0%d Seiten zusammen",
            },
            zz={"A page": "Eine andere Sprache"},
        )
    )

    assert found == {("de", "%d page", "Seite, ganz allein"), ("de", "%d page", "Seiten zusammen")}


def test_split_keeps_messages_together_and_drops_what_is_shared():
    sides = collections.defaultdict(list)
    for number in range(40):
        message = f"message {number}"
        sides["test" if int(make.message_key(message), 16) % 5 == 0 else "train"].append(message)
    learned, held_out = sides["train"][0], sides["test"][0]

    rows = make.split(
        [
            ("de", learned, "Nur im Training"),
            ("fr", learned, "Un texte à apprendre"),
            ("fr", held_out, "un texte à apprendre."),
            ("de", held_out, "Neu in der Prüfung"),
            ("de", sides["test"][1], "NEU IN DER PRÜFUNG"),
            ("nb", held_out, "Velg alle sammen"),
            ("da", learned, "Velg alle sammen!"),
        ]
    )

    assert [(language, text) for language, _, text in rows["train"]] == [
        ("de", "Nur im Training"),
        ("fr", "Un texte à apprendre"),
    ]
    assert [(language, text.casefold()) for language, _, text in rows["test"]] == [("de", "neu in der prüfung")]


def test_further_strings_are_those_that_no_other_split_was_chosen_from():
    known = [("de", "known message", "Ein bekannter Text")]

    rows = make.further(
        [
            ("de", "known message", "Eine andere Übersetzung"),
            ("de", "new message", "EIN bekannter text."),
            ("nb", "new message", "Velg alle sammen"),
            ("da", "new message", "Velg alle sammen!"),
            ("fr", "new message", "Un texte nouveau"),
            ("fr", "newer message", "un texte nouveau !"),
        ],
        known,
    )

    assert rows == [("fr", make.message_key("new message"), "Un texte nouveau")]


def test_further_strings_of_a_language_are_limited():
    found = [("de", f"message {number}", "Wort " + "x" * number) for number in range(make.MOST_FURTHER + 5)]

    assert len(make.further(found, [])) == make.MOST_FURTHER


@pytest.mark.parametrize("content", [None, b"another wheel"])
def test_another_wheel_is_refused_with_the_command_that_gets_the_right_one(tmp_path, content):
    if content is not None:
        (tmp_path / f"{make.DJANGO}-py3-none-any.whl").write_bytes(content)

    with pytest.raises(InputError, match=r"pip download --no-deps --dest wheels django==5\.2\.19"):
        make.make(tmp_path, tmp_path)
    assert not (tmp_path / "train.tsv").exists()
