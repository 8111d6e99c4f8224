"""Find the records that have most of a question's words, where no field answers it."""

from __future__ import annotations

import heapq
import math
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator

from rlm.models.offline.extractive.records.fields import Record, measure, norm
from rlm.models.offline.extractive.records.rows import Rows, TooSlow, timed
from rlm.models.offline.extractive.records.tally import stem
from rlm.models.offline.extractive.records.wording import CITED, Answer, Fields, cut, label, lines

__all__ = ["closest_records"]

_CLOSEST_SECONDS = 20.0
_MIN_ROWS = 5
"""Fewer rows are settings or a document, not records."""
_NEAR = 0.6
"""The share of the best record's score that another one needs to be shown."""


def closest_records(question: str, rows: Rows, plain: Collection[str]) -> Answer | None:
    """Return the three records that have most of the question's words, each with the sentence that does."""
    words = list(dict.fromkeys(word for word in norm(question) if word not in plain and len(word) > 1))
    if not words:
        return None
    patterns = {word: re.compile(r"(?<!\w)" + re.escape(stem(word)), re.IGNORECASE) for word in words}
    counts = Counter[str]()
    limit = time.monotonic() + _CLOSEST_SECONDS

    def found_in(record: Record) -> list[str]:
        text = "\n".join(value for values in record.values() for value in values)
        return [word for word, pattern in patterns.items() if pattern.search(text)]

    def counted() -> Iterator[Record]:
        for _, record, _ in timed(rows, limit):
            counts.update(found_in(record))
            yield record

    try:
        fields, total = measure(counted())
    except TooSlow:
        return None
    if total < _MIN_ROWS or not counts:
        return None
    weights = {word: math.log(1 + total / (1 + counts[word])) for word in words}
    scored = (
        (sum(weights[word] for word in found_in(record)), -number, place, record)
        for number, (place, record, _) in enumerate(rows())
    )
    best = heapq.nlargest(CITED, scored, key=lambda one: one[:2])
    best = [one for one in best if one[0] >= _NEAR * best[0][0] > 0]
    shown = [_quote(record, fields, patterns, weights) for *_, record in best]
    return Answer(lines(shown), "low", [place for _, _, place, _ in best]) if shown else None


def _quote(
    record: Record, fields: Fields, patterns: dict[str, re.Pattern[str]], weights: dict[str, float]
) -> str:
    """Return the name of a record and its sentence with most of the words."""
    named = label(record, fields)
    pieces = [
        (name, piece)
        for name, values in record.items()
        for value in values
        for piece in re.split(r"(?<=[.!?])\s+|\n+", value)
        if piece.strip() and piece not in named
    ]

    def rate(piece: str) -> float:
        return sum(weights[word] for word, pattern in patterns.items() if pattern.search(piece))

    name, piece = max(pieces, key=lambda pair: rate(pair[1]), default=("", ""))
    if not named:
        return cut(", ".join(f"{key} {values[0]}" for key, values in record.items()), 300)
    return f"{named} — {name}: {cut(piece, 300)}" if rate(piece) else named
