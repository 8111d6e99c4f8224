"""Tell what was computed from records, with a mark for each record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlm.models.offline.extractive.records.fields import Field, Record, norm
from rlm.models.offline.extractive.records.query import Query
from rlm.models.offline.extractive.records.rows import Place

__all__ = [
    "BY_CODE",
    "CITED",
    "SHOWN",
    "Answer",
    "Fields",
    "cut",
    "describe",
    "form",
    "label",
    "lines",
    "mark",
    "shifted",
    "where",
]

SHOWN = 10
"""Records of a list."""
CITED = 3
"""Records that stand for a number."""
BY_CODE = "(computed by code over every record)"

Fields = Mapping[str, Field]
_TITLES = ("title", "summary", "name", "subject", "message", "headline")
_LINE = 160
_PLAIN_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(r"\[([⁰¹²³⁴-⁹]+)\]")
_OWN_MARK = re.compile(r"\[([⁰¹²³⁴-⁹][⁰¹²³⁴-⁹,; ]*)\]")


@dataclass
class Answer:
    """The text with its marks, how sure it is, and the places that the marks name."""

    text: str
    confidence: str
    evidence: list[Place] = field(default_factory=list)


def where(query: Query) -> str:
    parts = [str(condition) for condition in query.conditions]
    parts += (
        [f'the word{"s" if len(query.words) > 1 else ""} "{" ... ".join(query.words)}"']
        if query.words
        else []
    )
    return " and ".join(parts)


def mark(number: int) -> str:
    return "[" + str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) + "]"


def lines(texts: list[str]) -> str:
    plain = (_OWN_MARK.sub(r"(\1)", line) for line in texts)
    return "\n".join(f"- {line} {mark(number)}" for number, line in enumerate(plain, 1))


def shifted(text: str, by: int) -> str:
    """Return a text with each of its marks raised by a number."""

    def raised(found: re.Match[str]) -> str:
        return mark(int(found[1].translate(_PLAIN_DIGITS)) + by)

    return _MARK.sub(raised, text)


def cut(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def form(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def label(record: Record, fields: Fields) -> str:
    """Return how a person would name a record: its id and its title."""
    ids = [name for name, own in fields.items() if own.is_id and name in record]
    titles = [name for name in record if norm(name.rsplit(".", 1)[-1])[-1:] in [(word,) for word in _TITLES]]
    parts = [record[name][0] for name in (ids[:1] + titles[:1] if titles else [])]
    return cut(": ".join(dict.fromkeys(parts)), _LINE)


def describe(record: Record, fields: Fields, query: Query) -> str:
    """Return a line about a record: its name, or its short fields, and what was asked for."""
    named = label(record, fields)
    if not named:
        short = [f"{name} {cut(values[0], 40)}" for name, values in record.items() if len(values[0]) <= 80]
        return ", ".join(short[:8])
    wanted = [name for name in (query.target, *query.asked) if name and record.get(name)]
    wanted = [] if query.work == "show" else wanted
    wanted = [
        name for name in dict.fromkeys(wanted) if not fields[name].is_text and record[name][0] not in named
    ]
    return named + "".join(f", {name} {cut(record[name][0], 40)}" for name in wanted[:3])
