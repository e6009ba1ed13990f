# ruff: noqa: RUF001, SIM905 (Cyrillic letters look like Latin ones; words are read more easily as text)
"""What stands on a form-field line: dates, codes, serial numbers, names and places, drawn at random.

The words are a list of our own; pseudo-words join them so that a network has to read letters and cannot guess words.
Every draw comes from one `random.Random`, whose stream Python keeps the same from version to version.
"""

from __future__ import annotations

import dataclasses
import zlib
from random import Random

ALPHABET = " -.0123456789АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
"""The 45 characters that a line may hold: Cyrillic capitals are without Ё, which forms print as Е."""
MIN_LENGTH, MAX_LENGTH = 4, 30
HELD_OUT_SHARE = 6
"""One label in so many is held out."""

FIRST_NAMES = """
АЛЕКСАНДР АЛЕКСЕЙ АНАТОЛИЙ АНДРЕЙ АНТОН АРТЕМ БОРИС ВАДИМ ВАЛЕРИЙ ВАСИЛИЙ ВИКТОР ВИТАЛИЙ ВЛАДИМИР ВЯЧЕСЛАВ ГЕННАДИЙ
ГЕОРГИЙ ГЛЕБ ГРИГОРИЙ ДАНИИЛ ДЕНИС ДМИТРИЙ ЕВГЕНИЙ ЕГОР ЗАХАР ИВАН ИГНАТ ИГОРЬ ИЛЬЯ КИРИЛЛ КОНСТАНТИН ЛЕОНИД МАКСИМ
МАРК МАТВЕЙ МИХАИЛ НИКИТА НИКОЛАЙ ОЛЕГ ПАВЕЛ ПЕТР РОМАН РУСЛАН СЕМЕН СЕРГЕЙ СТАНИСЛАВ СТЕПАН ТИМОФЕЙ ТИМУР ФЕДОР
ФИЛИПП ЭДУАРД ЮРИЙ ЯКОВ ЯРОСЛАВ АЛИНА АЛЛА АНАСТАСИЯ АНГЕЛИНА АННА ВАЛЕНТИНА ВАРВАРА ВЕРА ВИКТОРИЯ ГАЛИНА ДАРЬЯ
ЕВГЕНИЯ ЕКАТЕРИНА ЕЛЕНА ЕЛИЗАВЕТА ЖАННА ЗИНАИДА ИННА ИРИНА КИРА КЛАВДИЯ КСЕНИЯ ЛАРИСА ЛИДИЯ ЛЮБОВЬ ЛЮДМИЛА МАЙЯ
МАРГАРИТА МАРИНА МАРИЯ НАДЕЖДА НАТАЛЬЯ НИНА ОКСАНА ОЛЬГА ПОЛИНА РАИСА РИММА СВЕТЛАНА СОФИЯ ТАИСИЯ ТАМАРА ТАТЬЯНА
УЛЬЯНА ФАИНА ЭЛЛА ЭММА ЮЛИЯ
""".split()
PATRONYMICS = """
АЛЕКСАНДРОВ АЛЕКСЕЕВ АНАТОЛЬЕВ АНДРЕЕВ АНТОНОВ БОРИСОВ ВАДИМОВ ВАЛЕРЬЕВ ВАСИЛЬЕВ ВИКТОРОВ ВЛАДИМИРОВ ВЯЧЕСЛАВОВ
ГЕННАДЬЕВ ГЕОРГИЕВ ГРИГОРЬЕВ ДМИТРИЕВ ЕВГЕНЬЕВ ИВАНОВ ИГОРЕВ КИРИЛЛОВ ЛЕОНИДОВ ЛЬВОВ МАКСИМОВ МИХАЙЛОВ НИКОЛАЕВ ОЛЕГОВ
ПАВЛОВ ПЕТРОВ РОМАНОВ СЕМЕНОВ СЕРГЕЕВ СТЕПАНОВ ФЕДОРОВ ЭДУАРДОВ ЮРЬЕВ ЯКОВЛЕВ
""".split()
SURNAME_ROOTS = """
БАРАН БЕЛ БЕРЕЗ БОБР БЫК ВОЛК ВОРОБЬ ГОЛУБ ГОРОХ ГУС ЖАВОРОНК ЖУК ЗАЙЦ ЗИМ КАЛИН КАРП КИСЕЛ КОВАЛ КОЗЛ КОМАР КОНЬК
КОРОЛ КРЫЛ КУЗНЕЦ ЛЕБЕД ЛИС ЛОСЬ МЕДВЕД МЕЛЬНИК МОРОЗ МУРАВЬ ОРЛ ПАХОМ ПЛОТНИК ПОПЛАВ РОМАШ РЫБ САДОВНИК СИНИЦ СКВОРЦ
СНЕГИР СОБОЛ СОКОЛ СОЛОВЬ СОРОК ТЕТЕР ТИХ ТОПОЛ ФИЛАТ ХОМЯК ЦАПЛ ЧЕРН ЧИЖ ШУБ ЩЕРБАК ЩУК ЭРЛ ЮДИН ЯГОД ЯСТРЕБ
""".split()
SURNAME_ENDINGS = "ОВ ЕВ ИН СКИЙ ЕНКО ОВА ЕВА ИНА СКАЯ УК ЫХ ЯН ЦЕВ ЬЕВ ШВИЛИ".split()
TOWNS = """
АБАКАН АНАПА АРЗАМАС АСТРАХАНЬ БАРНАУЛ БЕЛГОРОД БИЙСК БРАТСК БРЯНСК ВОЛОГДА ВОРОНЕЖ ВЫБОРГ ГАТЧИНА ДЗЕРЖИНСК ДУБНА
ЕЙСК ЕКАТЕРИНБУРГ ЖУКОВСКИЙ ЗЛАТОУСТ ИЖЕВСК ИРКУТСК КАЗАНЬ КАЛУГА КЕМЕРОВО КИРОВ КОЛОМНА КОСТРОМА КРАСНОДАР КУРГАН
КУРСК ЛИПЕЦК МАГАДАН МОСКВА МУРМАНСК НАХОДКА НОВГОРОД НОВОСИБИРСК ОБНИНСК ОРЕЛ ПЕНЗА ПЕРМЬ ПСКОВ РЖЕВ РОСТОВ РЯЗАНЬ
САМАРА САРАТОВ СМОЛЕНСК СОЧИ СУЗДАЛЬ ТАМБОВ ТВЕРЬ ТОМСК ТУЛА УГЛИЧ УЛЬЯНОВСК УХТА ХАБАРОВСК ЧЕБОКСАРЫ ЧЕЛЯБИНСК ЧИТА
ШАХТЫ ЩЕЛКОВО ЭЛИСТА ЭНГЕЛЬС ЮРЬЕВЕЦ ЯКУТСК ЯРОСЛАВЛЬ ЙОШКАР-ОЛА ОРЕХОВО-ЗУЕВО
""".split()
REGIONS = """
АМУРСКОЙ БРЯНСКОЙ ВОЛОГОДСКОЙ ВОРОНЕЖСКОЙ ИВАНОВСКОЙ ИРКУТСКОЙ КАЛУЖСКОЙ КЕМЕРОВСКОЙ КИРОВСКОЙ КУРСКОЙ ЛИПЕЦКОЙ
МОСКОВСКОЙ ОМСКОЙ ОРЛОВСКОЙ ПЕНЗЕНСКОЙ ПСКОВСКОЙ РЯЗАНСКОЙ САМАРСКОЙ ТВЕРСКОЙ ТОМСКОЙ ТУЛЬСКОЙ
""".split()
OFFICES = "ОТДЕЛОМ ОТДЕЛЕНИЕМ УПРАВЛЕНИЕМ СЛУЖБОЙ ЦЕНТРОМ КОМИТЕТОМ БЮРО".split()
CONSONANTS, VOWELS, SIGNS = "БВГДЖЗЙКЛМНПРСТФХЦЧШЩ", "АЕИОУЫЭЮЯ", "ЬЪ"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label:
    """A line's text, and whether its field holds numbers (dates, codes, serial numbers) or words."""

    text: str
    is_numeric: bool


def draw_label(random: Random) -> Label:
    """A label of 4 to 30 characters: 44 % numeric, 30 % names, 26 % places."""
    while True:
        label = _draw_any_length(random)
        if MIN_LENGTH <= len(label.text) <= MAX_LENGTH:
            return label


def is_held_out(text: str) -> bool:
    """Whether a text belongs to evaluation and never to training, told from the text alone."""
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


def _draw_any_length(random: Random) -> Label:
    kind = random.random()
    if kind < 0.21:
        day, month, year = random.randint(1, 31), random.randint(1, 12), random.randint(1930, 2024)
        return Label(text=f"{day:02}.{month:02}.{year}", is_numeric=True)
    if kind < 0.33:
        return Label(text=f"{_digits(random, 3)}-{_digits(random, 3)}", is_numeric=True)
    if kind < 0.44:
        return Label(text=f"{_digits(random, 2)} {_digits(random, 2)} {_digits(random, 6)}", is_numeric=True)
    if kind < 0.74:
        return Label(text=_name(random), is_numeric=False)
    return Label(text=_place(random), is_numeric=False)


def _digits(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def _name(random: Random) -> str:
    kind = random.random()
    if kind < 0.2:
        return random.choice(FIRST_NAMES)
    if kind < 0.4:
        return random.choice(PATRONYMICS) + random.choice(("ИЧ", "НА"))
    if kind < 0.7:
        return random.choice(SURNAME_ROOTS) + random.choice(SURNAME_ENDINGS)
    if kind < 0.8:
        return f"{random.choice(SURNAME_ROOTS)}ОВ-{random.choice(SURNAME_ROOTS)}ИН"
    return _pseudo_word(random, 4, 12)


def _place(random: Random) -> str:
    kind = random.random()
    if kind < 0.2:
        return random.choice(("Г. ", "ГОР. ", "ГОР.", "С. ", "ПОС. ", "")) + random.choice(TOWNS)
    if kind < 0.4:
        return random.choice(REGIONS) + random.choice((" ОБЛАСТИ", " ОБЛ.", " ОБЛ. РФ"))
    if kind < 0.6:
        return f"{random.choice(OFFICES)} {random.choice(REGIONS)}{random.choice(('', ' ОБЛ.'))}"
    if kind < 0.75:
        return f"{random.choice(OFFICES)} Г. {random.choice(TOWNS)}"
    if kind < 0.9:
        village = random.choice(("Г. ", "Д. ", "ПОС. ")) + _pseudo_word(random, 4, 10)
        return village + (f" {_pseudo_word(random, 3, 9)} Р-НА" if random.random() < 0.5 else "")
    return " ".join(_pseudo_word(random, 2, 8) for _ in range(random.randint(2, 4)))


def _pseudo_word(random: Random, shortest: int, longest: int) -> str:
    """Syllables of a consonant, a vowel and at times a third letter."""
    length, word = random.randint(shortest, longest), ""
    while len(word) < length:
        word += random.choice(CONSONANTS) + random.choice(VOWELS)
        if random.random() < 0.35:
            word += random.choice(CONSONANTS + SIGNS)
    return word[:length]
