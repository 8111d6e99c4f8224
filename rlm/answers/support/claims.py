"""Splits an answer into claims, each with the sources that it cites."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from rlm.citation_markers import Mark, marks_of
from rlm.prompts import is_not_found, states_absence

__all__ = ["MAX_CLAIMS", "MAX_CLAIM_CHARS", "TABLE_RULE", "Claim", "claims_of", "sentence_places"]

MAX_CLAIMS = 1_000
"""Claims of one answer. Later ones are joined to the last, which is then too long to be checked."""
MAX_CLAIM_CHARS = 4_000
_MAX_DEPTH = 20
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
_LEAD = re.compile(
    r"^[ \t>]*(?:(?:[-*+•|]|\d{1,3}[.)](?![ \t]*(?:\[[\d⁰¹²³⁴⁵⁶⁷⁸⁹]|$)))[ \t]+|\|[ \t]*|\[[ xX]\][ \t]+)*"
)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}[ \t]|\*\*[^*\n]{1,200}\*\*:?[ \t]*$|[-=*_|: \t]{3,}$)")
_END = re.compile(r"[.!?…][\"'”’»)\]*_]{0,3}(?=\s)|[。！？][”」』）]{0,2}")
_MARKS_AFTER = re.compile(r"(?:[ \t]*(?:\[[mp0-9⁰¹²³⁴⁵⁶⁷⁸⁹,; \t–—-]{1,80}\]|[.!?…](?=[\s\[]|$)))+")
"""Marks, and a stop of their own: `he said "no." [1].`"""
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|approx|no|nr|fig|mr|mrs|ms|dr|st|sec|ver|prof|inc|ltd|co|z\.b|d\.h|bzw|ca)"
    r"|\b[^\W\d_]|^\W*\d{1,3})\.$",
    re.IGNORECASE,
)
_TRAILING = " \t|*_"
_CLOSING = "\"'”’»"
_SECOND_STOP = re.compile(r"(?<=[^.!?…][.!?…])([\"'”’»)\]*_]{0,3})[ \t]*[.!?…]$")
_BEFORE_STOP = re.compile(r" (?=[.,;:!?…](?:\s|$))")
TABLE_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-{3,}[-| :\t]*$")
_WORD = re.compile(r"[^\W_]")
_QUOTE = re.compile('"')


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence or a line of an answer, without its marks.

    `sources` are the numbers of the passages that it cites, from 1; () if it cites none. `start` and `end`
    are its place in the answer with its marks, or None in a value that is no text.
    """

    text: str
    sources: tuple[int, ...] = ()
    start: int | None = None
    end: int | None = None
    is_computed: bool = False


def claims_of(answer: Any, sources: Collection[int]) -> tuple[Claim, ...]:
    """Return the claims of an answer with these sources, in order.

    Headings, code, lines that only introduce a list, and statements that the documents hold no answer make no
    claim. If no sentence has a mark of a source, every claim cites all sources. Of a value that is no text,
    each text and number in it is a claim.
    """
    every = tuple(sources)
    if not isinstance(answer, str):
        return tuple(Claim(text, every) for text in _values(answer))[:MAX_CLAIMS]
    if is_not_found(answer) or states_absence(answer):
        return ()
    waiting = deque(marks_of(answer, every))
    claims = []
    for start, end in _sentences(answer):
        own = []
        while waiting and waiting[0].end <= end:
            own.append(waiting.popleft())
        own = [mark for mark in own if mark.start >= start]
        text = _without(answer, start, end, own)
        if _WORD.search(text):
            numbers = dict.fromkeys(number for mark in own for number in mark.numbers)
            claims.append(Claim(text, tuple(numbers), start, end))
    if not any(claim.sources for claim in claims):
        claims = [replace(claim, sources=every) for claim in claims]
    return tuple(claims)


def _without(answer: str, start: int, end: int, marks: Sequence[Mark]) -> str:
    """Return a sentence on one line, without its marks."""
    kept, at = [], start
    for mark in marks:
        kept.append(answer[at : mark.start])
        at = mark.end
    sentence = _BEFORE_STOP.sub("", " ".join("".join([*kept, answer[at:end]]).split()))
    # Without the stop that followed its marks, if it has another: `"No." [1].`
    return _SECOND_STOP.sub(r"\1", sentence)


def _sentences(answer: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the sentences and lines that claim something, without those that introduce a
    list."""
    found = 0
    at = 0
    in_fence = False
    for line, following in pairwise([*answer.splitlines(keepends=True), ""]):
        start, at = at, at + len(line)
        if _FENCE.match(line):
            in_fence = not in_fence
            continue
        if in_fence or _HEADING.match(line) or ("|" in line and TABLE_RULE.match(following)):
            continue
        lead = _LEAD.match(line)
        low, high = start + (lead.end() if lead else 0), start + len(line.rstrip())
        for begin, end in _split(answer, low, high):
            if found == MAX_CLAIMS - 1:
                yield begin, len(answer)
                return
            text = answer[begin:end].rstrip(_TRAILING)
            if text and not text.endswith((":", "：")):
                found += 1
                yield begin, begin + len(text)


def sentence_places(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of the sentences of a paragraph, each with the marks behind it."""
    return list(_split(text, start, end))


def _split(answer: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    begin = low
    for match in _END.finditer(answer, low, high):
        if match.end() <= begin or _ABBREVIATION.search(
            answer, max(begin, match.start() - 12), match.start() + 1
        ):
            continue
        if _is_in_quotation(answer[max(begin, match.end() - MAX_CLAIM_CHARS) : match.end()]):
            continue
        if match[0][-1] in _CLOSING and answer[match.end() : match.end() + 2].strip()[:1].islower():
            # The quotation ends, and the sentence goes on.
            continue
        marks = _MARKS_AFTER.match(answer, match.end(), high)
        end = marks.end() if marks else match.end()
        yield begin, end
        begin = end
        while begin < high and answer[begin].isspace():
            begin += 1
    if begin < high:
        yield begin, high


def _is_in_quotation(begun: str) -> bool:
    """Return whether the beginning of a sentence ends within a quotation, whose full stop it then is."""
    is_open = False
    for mark in _QUOTE.finditer(begun):
        # Behind a digit it opens none: `5'10"` is a length.
        is_open = not is_open and not begun[max(0, mark.start() - 1) : mark.start()].isdigit()
    opened = begun.count("“") + begun.count("„") - begun.count("”")
    return is_open or opened > 0 or begun.count("«") > begun.count("»")


def _values(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the texts and numbers of a JSON value, each with its key."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, str(key), depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _values(inner, name, depth + 1)
    elif value is not None and (shown := value if isinstance(value, str) else json.dumps(value)).strip():
        yield f"{name}: {shown}" if name else shown
