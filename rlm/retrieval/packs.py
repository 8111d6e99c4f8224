"""Packs: ranked passages with where they stand, made wider where that is wanted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from rlm.retrieval.passages import Passages
from rlm.retrieval.words import SearchTerms, Tokens
from rlm.sandbox import Body, Span, section_of

__all__ = ["SECTION_MOST", "Expand", "Pack", "PackMaker", "heading_path"]

SECTION_MOST = 8_000
"""Characters of a section that a pack takes in, around its passage."""

Expand = Literal["neighbors", "section"]


@dataclass(frozen=True, slots=True)
class Pack:
    """A stretch of the body that fits a query. Offsets are characters of the body, ends exclusive.

    `pack_id` names document and place: the same stretch has the same one in every query. `doc_id` is the
    document's number, `document` its name. `score` is its passage's (higher is better), `order` its rank
    from 0. `heading_path` leads to its first hit from the top of its document. `hits` are where words of the
    query (or another form of them) and its quoted phrases stand in it.
    """

    pack_id: str
    doc_id: str
    document: str
    score: float
    order: int
    start: int
    end: int
    heading_path: tuple[str, ...]
    text: str
    hits: tuple[Span, ...]


class PackMaker:
    """Makes packs of ranked passages of one body."""

    def __init__(self, body: Body, passages: Passages, tokens: Tokens) -> None:
        self._body = body
        self._passages = passages
        self._tokens = tokens

    def packs(
        self,
        ranked: Sequence[tuple[int, float]],
        query: SearchTerms,
        *,
        limit: int,
        expand: Expand | None,
        neighbors: int,
    ) -> list[Pack]:
        """Up to `limit` packs in the order of `ranked`. A passage that an earlier pack holds makes none."""
        made: dict[str, Pack] = {}
        for number, score in ranked:
            if len(made) == limit:
                break
            own = self._trimmed(self._passages.span(number))
            if own.start == own.end or any(
                pack.start <= own.start and own.end <= pack.end for pack in made.values()
            ):
                continue
            pack = self._pack(self._widened(number, own, expand, neighbors), score, len(made), query)
            made.setdefault(pack.pack_id, pack)
        return list(made.values())

    def _pack(self, span: Span, score: float, order: int, query: SearchTerms) -> Pack:
        document = self._body.document_at(span.start)
        assert document is not None
        text = self._body.text(*span)
        hits = tuple(self._hits(text, span.start, query))
        return Pack(
            pack_id=f"{document.index}:{span.start}-{span.end}",
            doc_id=str(document.index),
            document=document.name,
            score=score,
            order=order,
            start=span.start,
            end=span.end,
            heading_path=heading_path(self._body, hits[0].start if hits else span.start),
            text=text,
            hits=hits,
        )

    def _widened(self, number: int, own: Span, expand: Expand | None, neighbors: int) -> Span:
        document = self._body.document_at(own.start)
        assert document is not None
        if expand is None:
            return own
        if expand == "neighbors":
            left, right = max(0, number - neighbors), min(len(self._passages) - 1, number + neighbors)
        else:
            path = heading_path(self._body, own.start)
            left = right = number

            def belongs(other: int) -> bool:
                if not 0 <= other < len(self._passages):
                    return False
                span = self._passages.span(other)
                most = max(span.end, self._passages.span(right).end) - min(
                    span.start, self._passages.span(left).start
                )
                inside = document.start <= span.start < document.end
                return inside and most <= SECTION_MOST and heading_path(self._body, span.start) == path

            before = after = True
            while before or after:
                before = before and belongs(left - 1)
                left -= before
                after = after and belongs(right + 1)
                right += after
        start = max(document.start, self._passages.span(left).start)
        return self._trimmed(Span(start, min(document.end, self._passages.span(right).end)))

    def _trimmed(self, span: Span) -> Span:
        text = self._body.text(*span)
        start = span.start + len(text) - len(text.lstrip())
        return Span(start, max(start, span.start + len(text.rstrip())))

    def _hits(self, text: str, offset: int, query: SearchTerms) -> list[Span]:
        flat = _flat(text)
        places = [match.span() for match in _word().finditer(flat)]
        stems = self._tokens.stems(flat[start:end] for start, end in places)
        wanted = set(query.stems)
        found = []
        for (start, end), own in zip(places, stems, strict=True):
            if len(own) == 1 and own[0] in wanted:
                found.append((start, end))
            elif wanted.intersection(own):
                # A run of a script without spaces: each pair of characters by itself.
                found += [
                    (start + at, start + at + 2)
                    for at in range(end - start - 1)
                    if flat[start + at : start + at + 2] in wanted
                ]
        for phrase in query.phrases:
            found += _phrase(flat, phrase)
        joined: list[Span] = []
        for start, end in sorted(found):
            if joined and offset + start < joined[-1].end:
                joined[-1] = Span(joined[-1].start, max(joined[-1].end, offset + end))
            else:
                joined.append(Span(offset + start, offset + end))
        return joined


@cache
def _word() -> re.Pattern[str]:
    """Letters, digits and the marks on them, as the index takes them for a word."""
    marks = (chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"(?:[^\W_]|[{''.join(marks)}])+")


def _phrase(flat: str, phrase: Sequence[str]) -> list[tuple[int, int]]:
    pieces = [re.escape(word) for word in phrase]
    pattern = r"[\W_]*".join(pieces)
    return [match.span() for match in re.finditer(rf"(?<![^\W_]){pattern}(?![^\W_])", flat)]


def _flat(text: str) -> str:
    """`text` in small letters without accents, every character in its old place."""
    if text.isascii():
        return text.lower()
    return "".join(map(_flat_character, text))


def _flat_character(character: str) -> str:
    if character.isascii():
        return character.lower()
    parts = unicodedata.normalize("NFD", character)
    # A Hangul syllable comes apart too, but not into a letter and its accents.
    small = (parts[0] if all(map(unicodedata.combining, parts[1:])) else character).lower()
    return small if len(small) == 1 else character


_SEARCHED = 1 << 20
"""Characters of a document up to which headings that its index does not hold are looked for."""


def heading_path(body: Body, char: int) -> tuple[str, ...]:
    """The headings over `char`, the outermost first; in code, and where the index holds no headings, the
    nearest heading or definition above. Empty where there is nothing of the kind."""
    path = body.heading_path(char)
    document = body.document_at(char)
    if path or document is None or document.end - document.start > _SEARCHED:
        return path
    section = section_of(body, char)
    return (section["title"],) if section["kind"] in ("heading", "code") else ()
