"""Convert boards, cards and threads of issue trackers, in JSON or JSON Lines, into chats."""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, BinaryIO

from rlm.documents import PathSource, Source, StreamSource, TextSource
from rlm.prompts.json_input import parse_json
from rlm.tasks.summaries.cards import Card, card_of, day
from rlm.tasks.summaries.github import as_chats, has_reviews, is_thread

__all__ = ["Cards", "with_cards"]

Cards = Mapping[str, Card]
"""The cards that were read, by the text of their entries."""

_MAX_BYTES = 64 << 20
"""Larger files are not examined."""
_CARD_SHARE = 0.8
"""The share of the values of a board that are cards; others may be headers or notes."""
_LIST_SHARE = 0.8
"""The share of an object's JSON that its list of cards has."""
_TEXT_KINDS = {".md": "markdown", ".markdown": "markdown", ".txt": "text", ".text": "text"}
_SUFFIXES = (".json", ".jsonl", ".ndjson", *_TEXT_KINDS)
_HEADING = re.compile(
    r"^#{1,6}[ \t]+(?:(?:CARD|EPIC|ISSUE|STORY|TICKET)\b[ \t:#]*)?(?P<title>[^\n]*)$", re.MULTILINE
)
_CARD_HEADING = re.compile(r"^#{1,6}[ \t]+(?:CARD|EPIC|ISSUE|STORY|TICKET)\b", re.MULTILINE)
_CHANGE = re.compile(r"^(?P<before>[^\n{}\"]{0,60})(?P<fields>\{.*\})[ \t]*$", re.MULTILINE)


def with_cards(sources: Sequence[Source]) -> tuple[list[Source], Cards]:
    """Return the sources, with boards, cards, issues and pull requests converted to chats, and the cards. A
    card of a board is one message; a single card is a message, and each of its comments another.
    """
    cards: dict[str, Card] = {}
    return [_converted(source, cards) for source in sources], cards


def _converted(source: Source, cards: dict[str, Card]) -> Source:
    match source:
        case StreamSource(name, stream):
            head, rest = _peek(stream)
            source = StreamSource(name, rest)
            if head is None:
                return source
            data: bytes | str = head
        case PathSource(path):
            name = path.name
            try:
                if path.suffix.lower() not in _SUFFIXES or not path.is_file():
                    return source
                if path.stat().st_size > _MAX_BYTES:
                    return source
                data = path.read_bytes()
            except OSError:
                return source  # the loader reports the error
        case TextSource(name, data, kind):
            if kind not in ("json", "jsonl", "text", "markdown") or len(data) > _MAX_BYTES:
                return source
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
    except UnicodeDecodeError:
        return source
    if _CARD_HEADING.search(text):
        told = _tell_changes(text)
        kind = "markdown" if PurePath(name).suffix.lower() in (".md", ".markdown") else "text"
        return source if told == text else TextSource(name, told, kind)
    chats = _read(text, cards)
    if not chats:
        return source
    found = chats[0] if len(chats) == 1 else chats
    return TextSource(name, json.dumps(found, ensure_ascii=False), "json")


def _peek(stream: BinaryIO) -> tuple[bytes | None, BinaryIO]:
    """Return the bytes of a stream and a stream of the same bytes. A long stream is not kept in memory: None
    stands for its bytes."""
    head = stream.read(_MAX_BYTES + 1)
    if len(head) <= _MAX_BYTES:
        return head, io.BytesIO(head)
    return None, io.BufferedReader(_Joined(io.BytesIO(head), stream))


class _Joined(io.RawIOBase):
    """A stream of the bytes of several streams."""

    def __init__(self, *streams: BinaryIO) -> None:
        self._streams = list(streams)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._streams:
            data = self._streams[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            self._streams.pop(0)
        return 0


def _tell_changes(text: str) -> str:
    """Return a text of cards (`# CARD …`) with the JSON of their changes (`[2026-05-01] {"status": "open"}`)
    told in words: each change names its card."""
    titles = [(match.start(), match["title"].strip()) for match in _HEADING.finditer(text)]

    def tell(match: re.Match[str]) -> str:
        try:
            fields = parse_json(match["fields"])
        except ValueError:
            return match[0]
        if not isinstance(fields, Mapping) or not {"status", "state"} & fields.keys():
            return match[0]
        at = bisect_left(titles, (match.start(), ""))
        card = titles[at - 1][1] if at else ""
        changes = (
            f"{str(key).replace('_', ' ')}: {' '.join(_words(value).split())}"
            for key, value in fields.items()
            if value not in (None, "", [], {})
        )
        return f"{match['before']}State of {card or 'the card'} – {'; '.join(changes)}."

    return _CHANGE.sub(tell, text)


def _read(text: str, cards: dict[str, Card]) -> list[dict[str, Any]]:
    """Return the chats that a board, a card or threads become; [] if `text` is none of these."""
    if text.lstrip()[:1] not in ("{", "["):
        return []
    try:
        value = parse_json(text)
    except ValueError:
        value = None
        values = _line_values(text)
    else:
        values = _values(value)
    board = _board(values, cards)
    return [board] if board is not None else as_chats(value) or []


def _board(values: Sequence[Any], cards: dict[str, Card]) -> dict[str, Any] | None:
    """Return the chat that a board or card becomes; None if the values are neither."""
    found = [card_of(value) for value in values]
    known = [card for card in found if card is not None]
    if not known or len(known) < _CARD_SHARE * len(values):
        return None
    if len(values) == 1:
        return None if is_thread(values[0]) else _single(known[0], cards)
    if any(isinstance(value, Mapping) and has_reviews(value) for value in values):
        return None  # pull requests: each is a conversation
    messages = []
    for place, (value, card) in enumerate(zip(values, found, strict=True), 1):
        if card is None:
            content = value if isinstance(value, str) else _words(value)
            messages.append({"author": f"line {place}", "content": content})
            continue
        content = card.text()
        cards[content] = card
        messages.append(
            {"author": card.id or f"card {place}", "created_at": day(card.created), "content": content}
        )
    return {"messages": messages}


def _values(value: Any) -> list[Any]:
    """Return the values of a list, or of the list in an object."""
    for _ in range(4):  # Linear: {"data": {"issues": {"nodes": […]}}}
        if isinstance(value, list):
            return value
        if not isinstance(value, Mapping) or card_of(value) is not None:
            break
        largest = max(value.values(), key=_size, default=None)
        if not isinstance(largest, list | Mapping) or _size(largest) < _LIST_SHARE * _size(value):
            break
        value = largest
    return [value]


def _line_values(text: str) -> list[Any]:
    """Return the values of the lines. A broken line is a text."""
    values: list[Any] = []
    for line in text.split("\n"):
        if line.strip():
            try:
                values.append(parse_json(line))
            except ValueError:
                values.append(line.strip())
    return values


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _single(card: Card, cards: dict[str, Card]) -> dict[str, Any]:
    content = card.text(with_comments=False)
    cards[content] = card
    first = {"author": card.id or "card", "created_at": day(card.created), "content": content}
    said = [
        {"author": one.author or "comment", "created_at": one.date, "content": one.text}
        for one in card.comments
    ]
    return {"messages": [first, *said]}


def _words(value: Any) -> str:
    """Return a value that is no card as lines of a name and a text."""
    if isinstance(value, Mapping):
        return "\n".join(
            f"{key}: {_words(one)}" for key, one in value.items() if one not in (None, "", [], {})
        )
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return str(value)
