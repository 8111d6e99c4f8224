"""Packs: ranked passages with their places, widened on request."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from rlm.prompts.packs import Pack
from rlm.retrieval.errors import QueryStopped
from rlm.retrieval.index import Stop
from rlm.retrieval.languages import ENGLISH, Languages, word_pattern
from rlm.retrieval.passages import Passages
from rlm.retrieval.words import SearchTerms, Tokens
from rlm.sandbox.text.body import Body, Span
from rlm.sandbox.text.surroundings import section_of

__all__ = ["MAX_SECTION", "Expand", "Pack", "PackMaker", "heading_path"]

MAX_SECTION = 8_000
"""Characters of a section that a pack contains, around its passage."""

Expand = Literal["neighbors", "section"]


class PackMaker:
    """Turns ranked passages of one body into packs."""

    def __init__(self, body: Body, passages: Passages, languages: Languages, tokens: Tokens) -> None:
        self._body = body
        self._passages = passages
        self._languages = languages
        self._tokens = tokens
        self._stems: dict[tuple[str, str], list[str]] = {}

    def packs(
        self,
        ranked: Sequence[tuple[int, float]],
        query: SearchTerms,
        *,
        limit: int,
        expand: Expand | None,
        neighbors: int,
        stop: Stop,
    ) -> list[Pack]:
        """Return up to `limit` packs in the order of `ranked`. Skips passages that an earlier pack
        contains. Raises QueryStopped."""
        made: dict[str, Pack] = {}
        for number, score in ranked:
            if len(made) == limit:
                break
            if stop():
                raise QueryStopped
            own = self._trim(self._passages.span(number))
            if own.start == own.end or any(
                pack.start <= own.start and own.end <= pack.end for pack in made.values()
            ):
                continue
            language = self._languages.of(number)
            span = self._widen(number, own, expand, neighbors)
            pack = self._make_pack(span, language, score, len(made), query)
            made.setdefault(pack.pack_id, pack)
        return list(made.values())

    def _make_pack(self, span: Span, language: str, score: float, order: int, query: SearchTerms) -> Pack:
        document = self._body.document_at(span.start)
        assert document is not None
        text = self._body.text(*span)
        hits = tuple(self._find_hits(text, span.start, language, query))
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
            document_start=document.start,
        )

    def _widen(self, number: int, own: Span, expand: Expand | None, neighbors: int) -> Span:
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
                size = max(span.end, self._passages.span(right).end) - min(
                    span.start, self._passages.span(left).start
                )
                inside = document.start <= span.start < document.end
                return inside and size <= MAX_SECTION and heading_path(self._body, span.start) == path

            before = after = True
            while before or after:
                before = before and belongs(left - 1)
                left -= before
                after = after and belongs(right + 1)
                right += after
        start = max(document.start, self._passages.span(left).start)
        return self._trim(Span(start, min(document.end, self._passages.span(right).end)))

    def _trim(self, span: Span) -> Span:
        text = self._body.text(*span)
        start = span.start + len(text) - len(text.lstrip())
        return Span(start, max(start, span.start + len(text.rstrip())))

    def _find_hits(self, text: str, offset: int, language: str, query: SearchTerms) -> list[Span]:
        flat = _flatten(text)
        places = [match.span() for match in word_pattern().finditer(flat)]
        stems = self._stems_of([flat[start:end] for start, end in places], ENGLISH)
        query_stems = set(query.stems)
        found = []
        if language != ENGLISH:
            # A stemmer needs the accents.
            forms = self._stems_of([text[start:end] for start, end in places], language)
            found += [
                place
                for place, own in zip(places, forms, strict=True)
                if len(own) == 1 and own[0] in query.form_stems
            ]
        for (start, end), own in zip(places, stems, strict=True):
            if len(own) == 1 and own[0] in query_stems:
                found.append((start, end))
            elif query_stems.intersection(own):
                # A run of a script without spaces: look for each pair of characters.
                found += [
                    (start + at, start + at + 2)
                    for at in range(end - start - 1)
                    if flat[start + at : start + at + 2] in query_stems
                ]
        for phrase in query.phrases:
            found += _find_phrase(flat, phrase)
        joined: list[Span] = []
        for start, end in sorted(found):
            if joined and offset + start < joined[-1].end:
                joined[-1] = Span(joined[-1].start, max(joined[-1].end, offset + end))
            else:
                joined.append(Span(offset + start, offset + end))
        return joined

    def _stems_of(self, words: Sequence[str], language: str) -> list[list[str]]:
        """Return the stems of each word. Each word is looked up once: packs share most of their words."""
        new = [word for word in dict.fromkeys(words) if (language, word) not in self._stems]
        for word, stems in zip(new, self._tokens.stems(new, language), strict=True):
            self._stems[language, word] = stems
        return [self._stems[language, word] for word in words]


def _find_phrase(flat: str, phrase: Sequence[str]) -> list[tuple[int, int]]:
    pieces = [re.escape(word) for word in phrase]
    pattern = r"[\W_]*".join(pieces)
    return [match.span() for match in re.finditer(rf"(?<![^\W_]){pattern}(?![^\W_])", flat)]


def _flatten(text: str) -> str:
    """Return `text` in lower case without accents. Every character keeps its offset."""
    if text.isascii():
        return text.lower()
    return "".join(map(_flatten_character, text))


def _flatten_character(character: str) -> str:
    if character.isascii():
        return character.lower()
    parts = unicodedata.normalize("NFD", character)
    # NFD splits a Hangul syllable too, but not into a letter and its accents.
    lowered = (parts[0] if all(map(unicodedata.combining, parts[1:])) else character).lower()
    return lowered if len(lowered) == 1 else character


_MAX_SEARCHED = 1 << 20
"""Characters of a document beyond which headings outside its index are not searched for."""
_MAX_TITLE = 200
_HEADING = re.compile(r"#{1,6}[ \t]+(?=\S)")


def heading_path(body: Body, char: int) -> tuple[str, ...]:
    """Return the headings above `char`, outermost first. Of a Markdown document, whose headings are in no
    index, return the nearest one above. Empty if there is none."""
    path = body.heading_path(char)
    document = body.document_at(char)
    if path or document is None or document.kind != "markdown":
        return path
    if document.end - document.start > _MAX_SEARCHED:
        return ()
    start = section_of(body, char).start
    line = body.text(start, min(start + _MAX_TITLE, document.end)).partition("\n")[0]
    heading = _HEADING.match(line)
    return (line[heading.end() :].strip(" \t\r#"),) if heading else ()
