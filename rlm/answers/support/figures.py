"""Numbers, dates and units of a text in one notation, so that they can be compared."""

from __future__ import annotations

import re

from rlm.lazy_dataclass import dataclass

__all__ = ["Figures", "digits_of", "figures_of", "missing_figures", "without_dates"]

# Python before 3.11.5 keeps the comma of a last, failed round of `(?:[.,]\d+)*+`: so each round looks ahead.
_NUMBER = re.compile(r"(?<![\w.,:])\d++(?:(?=[.,:]\d)[.,:]\d++)*+(?![\w:]|[.,]\d)")
_DIGITS = re.compile(r"\d+")
_MONTHS = (
    ("jan", "gen", "ene", "янв"),
    ("feb", "fév", "фев"),
    ("mar", "mär", "мар"),
    ("apr", "avr", "abr", "апр"),
    ("may", "mai", "mag", "май", "мая"),
    ("jun", "juin", "giu", "июн"),
    ("jul", "juil", "lug", "июл"),
    ("aug", "aoû", "ago", "авг"),
    ("sep", "set", "сен"),
    ("oct", "okt", "ott", "окт"),
    ("nov", "ноя"),
    ("dec", "dez", "déc", "dic", "дек"),
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_MONTH = rf"(?:{'|'.join(sorted(_MONTH_OF, key=len, reverse=True))})[a-zäéûа-я]{{0,7}}\b\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
_DAY_FIRST = re.compile(
    rf"\b{_DAY}\s+(?:of\s+|de\s+)?({_MONTH})(?:,?\s+(?:de\s+)?(\d{{4}})\b)?", re.IGNORECASE
)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\s+{_DAY}\b(?!\d)(?:,?\s+(\d{{4}})\b)?", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})[-/.](\d\d?)[-/.](\d\d?)\b|(\d{4})年(\d{1,2})月(?:(\d{1,2})日)?")
_MONTH_YEAR = re.compile(rf"\b({_MONTH}),?\s+(\d{{4}})\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d.,$€£])\b(1[5-9]\d\d|20\d\d)\b(?![.,]\d|\s?%)")
_TIME = re.compile(r"\b\d{1,2}:\d\d(?:\s*[ap]m\b)?", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|this (?:week|month|year|morning|weekend)"
    r"|week(?:s|end)?|mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
    r"|\b(?:gestern|heute|morgen|vorige|letzte|nächste|hier|demain|ayer|mañana|ieri|domani)\w{0,2}\b"
    r"|昨|今|明|前|вчера|сегодня|завтра",
    re.IGNORECASE,
)
_UNITS = {
    "%": "%", "percent": "%", "percentage": "%", "prozent": "%", "pour cent": "%",
    "$": "usd", "dollar": "usd", "usd": "usd", "€": "eur", "euro": "eur", "eur": "eur",
    "£": "gbp", "gbp": "gbp", "¥": "jpy", "yen": "jpy",
    "second": "s", "sec": "s", "sekunde": "s", "minute": "min", "min": "min", "hour": "h", "stunde": "h",
    "day": "d", "tag": "d", "week": "w", "woche": "w", "month": "mo", "monat": "mo", "year": "y", "jahr": "y",
    "km": "km", "kilometer": "km", "kilometre": "km", "mile": "mi", "metre": "m", "meter": "m",
    "kg": "kg", "kilogram": "kg", "pound": "lb", "ton": "t", "tonne": "t",
    "kb": "kb", "mb": "mb", "gb": "gb", "tb": "tb", "megabyte": "mb", "gigabyte": "gb", "kilobyte": "kb",
    "thousand": "k", "million": "mn", "billion": "bn",
}  # fmt: skip
_WITH_UNIT = re.compile(
    r"([$€£¥])\s?(\d++(?:(?=[.,]\d)[.,]\d++)*+)"
    r"|(?<![\w.,])(\d++(?:(?=[.,]\d)[.,]\d++)*+)[\s-]?(%|[a-z]{1,10}\b)",
    re.IGNORECASE,
)
_NUMERALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_NUMERAL = {word: str(number) for number, word in enumerate(_NUMERALS.split())}
_NUMERAL |= {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80"}
_NUMERAL |= {"ninety": "90", "hundred": "100", "thousand": "1000", "dozen": "12"}
_NUMERAL |= {
    "first": "1",
    "second": "2",
    "third": "3",
    "fourth": "4",
    "fifth": "5",
    "once": "1",
    "twice": "2",
}
_LOOSE = frozenset({"0", "1"})
"""Numerals that other words say as well: `a`, `another`, `no`."""
_LATIN_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a text says in numbers. `dates` are (year, month, day), 0 for what is not said. `units` are pairs
    of a number and its unit. `counted` are numbers that are words. `relative`: it has words like
    `yesterday`."""

    numbers: frozenset[str]
    counted: frozenset[str]
    dates: frozenset[tuple[int, int, int]]
    units: frozenset[tuple[str, str]]
    relative: bool


def figures_of(text: str) -> Figures:
    """Return the figures of a text. Takes time in proportion to its length."""
    folded = text.casefold()
    bare = without_dates(folded)
    words = _LATIN_WORD.findall(folded)
    return Figures(
        frozenset(_plain(number) for number in _NUMBER.findall(bare)),
        frozenset(_NUMERAL[word] for word in words if word in _NUMERAL),
        frozenset(_dates(folded)),
        frozenset(_units(bare)),
        _RELATIVE.search(folded) is not None,
    )


def missing_figures(claim: Figures, known: Figures, digits: frozenset[str]) -> list[str]:
    """Return the numbers, dates and units of a claim that its source contradicts or does not have. `digits`
    are all runs of digits of the source."""
    numbers = known.numbers | known.counted
    missing = [one for one in sorted(claim.numbers) if one not in numbers and one not in digits]
    if known.counted or known.numbers:
        # A source that has other numbers would say this one, too.
        missing += [
            one
            for one in sorted(claim.counted - _LOOSE)
            if one not in numbers and one not in digits and one not in {"2", "100", "1000"}
        ]
    for number, unit in sorted(claim.units):
        others = {other for same, other in known.units if same == number}
        if others and unit not in others and number not in missing:
            missing.append(f"{number} {unit}")
    if not known.relative:
        missing += [_shown(date) for date in sorted(claim.dates) if _contradicts(date, known.dates)]
    return missing


def without_dates(text: str) -> str:
    """Return the text without dates, years and times of day."""
    for pattern in (_ISO, _DAY_FIRST, _MONTH_FIRST, _MONTH_YEAR, _TIME, _YEAR):
        text = pattern.sub(" ", text)
    return text


def digits_of(text: str) -> frozenset[str]:
    """Return the runs of digits of a text."""
    return frozenset(_DIGITS.findall(text))


def _contradicts(date: tuple[int, int, int], known: frozenset[tuple[int, int, int]]) -> bool:
    """Return whether the source has dates that say as much, and none that agrees."""
    comparable = [other for other in known if all(b for a, b in zip(date, other, strict=True) if a)]
    return bool(comparable) and not any(
        all(a in (0, b) for a, b in zip(date, other, strict=True)) for other in comparable
    )


def _shown(date: tuple[int, int, int]) -> str:
    return "-".join(f"{part:02}" for part in date if part)


def _dates(text: str) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for match in _ISO.finditer(text):
        year, month, day = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
        found.append((int(year), int(month), int(day or 0)))
    text = _ISO.sub(" ", text)
    for pattern, at in ((_DAY_FIRST, (3, 2, 1)), (_MONTH_FIRST, (3, 1, 2))):
        for match in pattern.finditer(text):
            year, month, day = (match[place] for place in at)
            found.append((int(year or 0), _month(month), int(day)))
        text = pattern.sub(" ", text)
    for match in _MONTH_YEAR.finditer(text):
        found.append((int(match[2]), _month(match[1]), 0))
    text = _MONTH_YEAR.sub(" ", text)
    return [*found, *((int(year), 0, 0) for year in _YEAR.findall(text))]


def _month(name: str) -> int:
    return next((_MONTH_OF[name[:size]] for size in (4, 3) if name[:size] in _MONTH_OF), 0)


def _units(text: str) -> list[tuple[str, str]]:
    found = []
    for sign, number, other, unit in _WITH_UNIT.findall(text):
        name = sign or unit
        known = _UNITS.get(name) or _UNITS.get(name.removesuffix("s")) or _UNITS.get(name.removesuffix("n"))
        if known:
            found.append((_plain(number or other), known))
    return found


def _plain(number: str) -> str:
    """Return a number without thousands separators."""
    return re.sub(r"[,.](?=\d{3}(?!\d))", "", number)
