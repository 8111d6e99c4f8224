"""The styles of a Word document's paragraphs, the numbers of its lists and headings, and fonts of symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rlm.documents.formats.office_xml import Element, attribute, children, find, is_on, local_name, number

__all__ = ["FORMS", "SYMBOLS", "Numbering", "Styles", "written"]

_HEADING = re.compile(r"heading ?(\d)|(title)", re.IGNORECASE)
_DEEPEST = 8
_MOST_ANCESTORS = 20
_PLACE = re.compile(r"%([1-9])")
_MOST_LETTERS = 20
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
    (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
"""The forms of numbers as OpenDocument and HTML name them."""
_GREEK = dict(
    zip(
        range(0x41, 0x7B),
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ",
        strict=True,
    )
)
SYMBOLS = {
    "Symbol": _GREEK
    | dict(zip(b"\xa3\xb3\xb1\xb4\xb8\xb9\xbb\xa5\xb0\xd6\xac\xae\xe5\xf2", "≤≥±×÷≠≈∞°√←→∑∫", strict=True)),
    "Wingdings": dict(zip(b"\xfb\xfc\xfd\xfe\xa8\x6f\x78\xdf\xe0\xa7", "✗✓☒☑☐☐☒←→▪", strict=True)),
}
"""What the characters of these fonts look like. Word stores them by their places in the font."""


class Styles:
    """The styles of paragraphs, by their ids. A style has what it does not state from the one that it is
    based on."""

    def __init__(self, styles: Iterable[Element]) -> None:
        self._styles = {attribute(one, "styleId"): one for one in styles}
        self._levels = {name: self._level(name) for name in self._styles}
        self._lists = {name: self._list(name) for name in self._styles}

    def level(self, style: str) -> int:
        """Return the level of a heading, 0 for other text."""
        found = self._levels.get(style)
        # A document without styles still names its headings.
        return _heading(style) if found is None else found

    def list_of(self, style: str) -> tuple[str, int | None]:
        """Return the list that a style belongs to, "" without one, and its depth if that is stated."""
        return self._lists.get(style, ("", None))

    def _level(self, style: str) -> int:
        for one in self._ancestry(style):
            if level := _heading(_value(one, "name")):
                return level
            if (outline := number(find(one, "pPr", "outlineLvl"))) is not None:
                return outline + 1 if outline <= _DEEPEST else 0
        return 0

    def _list(self, style: str) -> tuple[str, int | None]:
        for one in self._ancestry(style):
            if (properties := find(one, "pPr", "numPr")) is not None:
                return _value(properties, "numId"), number(find(properties, "ilvl"))
        return "", None

    def _ancestry(self, style: str) -> Iterable[Element]:
        known: set[str] = set()
        while style in self._styles and style not in known and len(known) < _MOST_ANCESTORS:
            known.add(style)
            yield self._styles[style]
            style = _value(self._styles[style], "basedOn")


@dataclass(slots=True)
class _Level:
    """How a level of a list is numbered. `text` holds `%1` for the number of the first level."""

    start: int = 1
    form: str = "decimal"
    text: str = ""
    style: str = ""
    is_legal: bool = False


@dataclass(slots=True)
class _List:
    """A list, and the levels at which it begins anew. Lists of one kind count on from each other."""

    kind: str
    levels: dict[int, _Level] = field(default_factory=dict)
    restarts: set[int] = field(default_factory=set)


class Numbering:
    """Counts the items of the lists of a document, in the order in which `label` is called."""

    def __init__(self, parts: Iterable[Element], styles: Styles) -> None:
        parts = list(parts)
        self._styles = styles
        self._counts: dict[str, dict[int, int]] = {}
        self._kinds = {
            attribute(one, "abstractNumId"): one for one in parts if local_name(one) == "abstractNum"
        }
        self._elements = {attribute(one, "numId"): one for one in parts if local_name(one) == "num"}
        self._lists: dict[str, _List] = {}

    def label(self, properties: Element | None, style: str) -> tuple[int, str] | None:
        """Return the depth of a paragraph in its list, and what stands before its text: "2.1", "-" for a
        bullet. Return None outside of lists. `properties` are the paragraph's own (`numPr`)."""
        name, stated = self._styles.list_of(style)
        if (named := find(properties, "numId")) is not None:
            name = attribute(named, "val")
        depth = number(find(properties, "ilvl"))
        found = self._find(name)
        if found is None:
            return None if name in ("", "0") else (_bounded(str(depth or 0)), "-")
        if depth is None:
            depth = next((key for key, one in found.levels.items() if style and one.style == style), stated)
        depth = min(depth or 0, _DEEPEST)
        counts = self._counts.setdefault(found.kind, {})
        if depth in found.restarts or depth not in counts:
            found.restarts.discard(depth)
            counts[depth] = found.levels.get(depth, _Level()).start
        else:
            counts[depth] += 1
        for deeper in [key for key in counts if key > depth]:
            del counts[deeper]
        return depth, _label(found.levels, counts, depth)

    def _find(self, name: str) -> _List | None:
        """Return a list by its id. A document may define many that it does not use."""
        if name in self._lists or name not in self._elements:
            return self._lists.get(name)
        element = self._elements[name]
        kind = _value(element, "abstractNumId")
        if (linked := find(self._kinds.get(kind), "numStyleLink")) is not None:
            # The levels are those of the list that a style names.
            other, _ = self._styles.list_of(attribute(linked, "val"))
            kind = _value(self._elements.get(other), "abstractNumId")
        made = self._lists[name] = _List(kind, _levels(self._kinds.get(kind)))
        for override in children(element, "lvlOverride"):
            level = _bounded(attribute(override, "ilvl"))
            made.levels |= _levels(override)
            if (start := number(find(override, "startOverride"))) is not None:
                made.levels.setdefault(level, _Level()).start = start
                made.restarts.add(level)
        return made


def _label(levels: dict[int, _Level], counts: dict[int, int], depth: int) -> str:
    level = levels.get(depth)
    if level is None or level.form == "bullet":
        return "-"

    def counted(place: re.Match[str]) -> str:
        above = int(place[1]) - 1
        other = levels.get(above, _Level())
        form = "decimal" if level.is_legal else other.form
        return written(counts.get(above, other.start), form)

    return _PLACE.sub(counted, level.text).strip()


def written(value: int, form: str) -> str:
    """Return a number as a list shows it."""
    match form:
        case "none" | "bullet":
            return ""
        case "decimalZero":
            return f"{value:02}"
        case "lowerLetter" | "upperLetter" if 0 < value <= 26 * _MOST_LETTERS:
            text = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
        case "lowerRoman" | "upperRoman" if 0 < value < 4000:
            text = ""
            for size, letters in _ROMAN:
                text += letters * (value // size)
                value %= size
        case _:
            return str(value)
    return text.upper() if form.startswith("upper") else text


def _levels(parent: Element | None) -> dict[int, _Level]:
    """Return the levels that are defined below an element."""
    levels: dict[int, _Level] = {}
    for one in children(parent, "lvl"):
        start = number(find(one, "start"))
        levels[_bounded(attribute(one, "ilvl"))] = _Level(
            1 if start is None else start,
            _value(one, "numFmt") or "decimal",
            _value(one, "lvlText")[:100],
            _value(one, "pStyle"),
            is_on(find(one, "isLgl")),
        )
    return levels


def _heading(name: str) -> int:
    match = _HEADING.fullmatch(name)
    return int(match[1] or 1) if match else 0


def _value(parent: Element | None, name: str) -> str:
    """Return the value of a child, "" without one."""
    found = find(parent, name)
    return attribute(found, "val") if found is not None else ""


def _bounded(level: str) -> int:
    return min(int(level), _DEEPEST) if level.isdecimal() else 0
