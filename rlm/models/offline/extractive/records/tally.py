"""Look at each record once, and collect what a question asks of those that fit."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rlm.models.offline.extractive.records.fields import Record, to_date, to_number
from rlm.models.offline.extractive.records.query import Query
from rlm.models.offline.extractive.records.rows import Place, Row
from rlm.models.offline.extractive.records.wording import SHOWN, Fields, describe

__all__ = ["AMOUNTS", "Ranked", "Tally", "stem"]

AMOUNTS = ("sum", "mean", "median")
_TIME = re.compile(r"^\W*\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\s*")
_MOST_RANKED = 1_000
_MOST_LINES = 100_000


def stem(word: str) -> str:
    """Return the start of a word that its other forms have as well: `charged` → charg."""
    return re.sub(r"(?:ies|ing|ed|es|s|e|y)$", "", word) if len(word) > 5 else word


class Ranked(NamedTuple):
    """A record by its value. `subject` is what `which` asks for."""

    value: float | str
    number: int
    place: Place
    line: str
    subject: str


class Tally:
    """What was found: `matching` records, `alone` for each condition without the others, the `first` ones
    as lines, `groups` with their sum or count, the `amounts`, and the `ranked` records of a superlative."""

    def __init__(self, query: Query, fields: Fields, rows: Iterable[Row]) -> None:
        self.query = query
        self.fields = fields
        self.matching = 0
        self.only: Record = {}
        self.alone: Counter[int] = Counter()
        self.first: list[tuple[Place, str]] = []
        self.repeats: Counter[str] = Counter()
        self.groups: dict[str, float] = {}
        self.sizes: Counter[str] = Counter()
        self.examples: dict[str, Place] = {}
        self.amounts: list[float] = []
        self.ranked: list[Ranked] = []
        words = [re.compile(r"(?<!\w)" + re.escape(stem(word)), re.IGNORECASE) for word in query.words]
        for number, (place, record, line) in enumerate(rows):
            holds = [condition.holds(record) for condition in query.conditions]
            self.alone.update(index for index, held in enumerate(holds) if held)
            if all(holds) and (not words or _has_words(record, words)):
                self._add(number, place, record, line)

    @property
    def best(self) -> list[Ranked]:
        """The records with the highest or the lowest value, of equal ones the first. If one is asked for,
        all that share its value."""
        choose = heapq.nlargest if self.query.highest else heapq.nsmallest
        sign = 1 if self.query.highest else -1
        limit = self.query.limit if self.query.limit > 1 else SHOWN
        best = choose(limit, self.ranked, key=lambda one: (one.value, sign * one.number))
        return best if self.query.limit > 1 else [one for one in best if one.value == best[0].value]

    def times(self, line: str) -> int:
        """Return how many records differ from a log's line in their time only."""
        return self.repeats[_TIME.sub("", line)]

    def _add(self, number: int, place: Place, record: Record, line: str) -> None:
        query, self.only = self.query, record
        self.matching += 1
        folded = _TIME.sub("", line)
        if line and (folded in self.repeats or len(self.repeats) < _MOST_LINES):
            self.repeats[folded] += 1
        if len(self.first) < SHOWN and self.repeats[folded] <= 1:
            self.first.append((place, line or describe(record, self.fields, query)))
        value = self._read_value(record)
        if isinstance(value, float):
            self.amounts.append(value)
        elif query.work in AMOUNTS:
            return
        source = query.group or (query.target if query.work == "distinct" else None)
        for text in dict.fromkeys(record.get(source, ["(none)"])) if source else ():
            group = (to_date(text) or "(none)")[: query.period] if query.period else text
            self.groups[group] = self.groups.get(group, 0.0) + (value if isinstance(value, float) else 1)
            self.sizes[group] += 1
            self.examples.setdefault(group, place)
        if query.work == "top" and value is not None:
            subject = "; ".join(record.get(query.subject, [])) if query.subject else ""
            shown = line or describe(record, self.fields, query)
            self.ranked.append(Ranked(value, -number, place, shown, subject))
            if len(self.ranked) > _MOST_RANKED:
                self.ranked = self.best

    def _read_value(self, record: Record) -> float | str | None:
        """Return the amount or the date that is computed with; None if the record has none."""
        target = self.query.target
        own = record.get(target, []) if target and self.query.work in (*AMOUNTS, "top") else []
        if not own or target is None:
            return None
        return to_date(own[0]) if self.fields[target].is_date else to_number(own[0])


def _has_words(record: Record, words: list[re.Pattern[str]]) -> bool:
    text = "\n".join(value for values in record.values() for value in values)
    return all(word.search(text) for word in words)
