"""Says where a slice comes from: document, section, page, message, and whether it is cut in mid-sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rlm.models.base import SliceText
from rlm.prompts import ChildSliceText
from rlm.sandbox.in_kernel.body.body import Body, Document
from rlm.sandbox.types import Span

__all__ = ["SlicePlaces"]

_SAMPLE = 8_000
"""Characters of a document that tell whether it consists of one-line records."""
_MIN_LINES = 8
_MIN_SHARE = 0.6
_BORDER = 200
_LINE_KINDS = frozenset({"code", "chat", "mail", "jsonl", "csv"})
# The start of a log line (a date, a clock time, a level) or of a turn in a transcript (a speaker).
_RECORD = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d|\[?\d\d?:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d|\d{1,3}(?:\.\d{1,3}){3} |<\d+>"
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|\[\w[\w .'/-]{0,40}\]:? |[A-Z][\w.'-]{0,24}(?: [A-Z][\w.'-]{0,24}){0,3}(?: \([^)\n]{1,30}\))?:\s)"
)
_OWN_NUMBER = re.compile(r"\s*[\[(]?(?:[A-Za-z]{1,3}[\d:.]*?)?(\d{1,7})(?:[\])]|[.:)](?=\s))")
_SENTENCE_END = re.compile(r"[.!?…:;。！？][\"'”’»)\]]*\s*\Z")


class SlicePlaces:
    """Describes slices of one body."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._line_based: dict[int, bool] = {}
        self._own_numbers: dict[int, bool] = {}

    def describe(self, piece: SliceText) -> ChildSliceText:
        """Return a piece for a prompt, with its place. A text that a cell made has none."""
        span = piece.span
        if span is None:
            return ChildSliceText(piece.text)
        body, document = self._body, self._body.document_at(span.start)
        place = body.place(span.start)
        by = () if place is None else (place.author or place.role, place.time)
        message = None if place is None or place.message is None else str(place.message)
        if message is not None and any(by):
            message += f" ({', '.join(filter(None, by))})"
        return ChildSliceText(
            piece.text,
            span.start,
            span.end,
            piece.document,
            section=" > ".join(place.heading_path) or None if place else None,
            page=place.page if place else None,
            message=message,
            first_line=body.line_of(span.start),
            cut_start=document is not None and self._is_cut(span.start, document),
            cut_end=document is not None and span.end < document.end and self._is_cut(span.end, document),
        )

    def are_numbered(self, pieces: Sequence[Span | str]) -> bool:
        """Return whether lines of these pieces are shown with their numbers, if the cell does not say: where
        all of them come from transcripts, logs and code that do not number their lines themselves."""
        documents = [None if isinstance(one, str) else self._body.document_at(one.start) for one in pieces]
        return bool(documents) and all(
            one is not None and self._is_line_based(one) and not self._numbers_itself(one)
            for one in documents
        )

    def shown(self, start: int, end: int) -> str:
        """Return a stretch of the body as a child sees it."""
        text = self._body.text(start, end)
        if not self.are_numbered((Span(start, end),)):
            return text
        first = self._body.line_of(start)
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(text.split("\n"), first))

    def _is_line_based(self, document: Document) -> bool:
        known = self._line_based.get(document.start)
        if known is None:
            text = self._body.text(document.start, min(document.end, document.start + _SAMPLE))
            known = self._line_based[document.start] = document.kind in _LINE_KINDS or _holds_records(text)
        return known

    def _numbers_itself(self, document: Document) -> bool:
        known = self._own_numbers.get(document.start)
        if known is None:
            text = self._body.text(document.start, min(document.end, document.start + _SAMPLE))
            known = self._own_numbers[document.start] = _has_own_numbers(text)
        return known

    def _is_cut(self, at: int, document: Document) -> bool:
        """Return whether a border of a slice is in mid-sentence, or within a line of a log or of code."""
        if at <= document.start or at >= document.end:
            return False
        before = self._body.text(max(document.start, at - _BORDER), at)
        after = self._body.text(at, at + 1)
        at_line = before.endswith("\n") or after == "\n"
        if self._is_line_based(document):
            return not at_line
        if at_line and (not before.strip(" \t").strip("\n") or before.endswith("\n\n") or after in "\n#-*|"):
            return False
        between_words = before[-1:].isspace() or after.isspace() or bool(re.search(r"[。！？]\Z", before))
        return not (between_words and _SENTENCE_END.search(before))


def _holds_records(text: str) -> bool:
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    return len(lines) >= _MIN_LINES and sum(map(_is_record, lines)) >= _MIN_SHARE * len(lines)


def _is_record(line: str) -> bool:
    return _RECORD.match(line) is not None


def _has_own_numbers(text: str) -> bool:
    """Return whether most lines of a text begin with a number that is one more than that of the line before:
    `[12] Ann: …`. Two numberings would contradict each other."""
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    numbers = [int(found[1]) if (found := _OWN_NUMBER.match(line)) else None for line in lines]
    follow = sum(
        one is not None and other is not None and other == one + 1 for one, other in pairwise(numbers)
    )
    return len(lines) >= _MIN_LINES and follow >= _MIN_SHARE * (len(lines) - 1)
