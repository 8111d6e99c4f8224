"""Writes chats, cards and the boards of issue trackers as readable text, message by message.

A `card` is that of a development board, with its messages, notes and logs. A `board` holds the cards of an
issue tracker: each is a message. Of a single one, and of issues with reviews, each comment is a message, too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rlm.documents.cards import Card, card_of, day
from rlm.documents.message import NO_NAMES, is_message, message_of, plain_text
from rlm.documents.talk import lines_of, talk_form, write_talk
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.json_stream import BadJson, JsonStream
from rlm.sandbox.text.place_index import MessageHeader

__all__ = ["Form", "form_of", "render"]

Form = str
"""A kind of document, a colon, and its shape: `array`, `object`, `lines` or `text` (`chat:lines`)."""

_MESSAGES = ("messages", "chat_messages", "conversation", "conversations", "turns", "history")
_CARD = frozenset(
    ("state", "notes", "adrs", "libraries", "source_files", "build_logs", "pod_logs", "test_results")
)
_TITLES = ("title", "name", "path", "file", "id")
_CONTENTS = ("content", "text", "body", "log", "output")
_WRAPPERS = (
    "data", "repository", "issue", "issues", "pullRequest", "pullRequests", "project", "organization",
    "search", "nodes", "items",
)  # fmt: skip
"""Objects around the issues in the answers of APIs."""
_MOST_WRAPPERS = 5
_TELLING = (*_MESSAGES, "mapping", "status", "state", "closed", "completed", "body")
"""Keys of which an object of messages or cards has at least one."""
_LOOKED_AT = 20
_CHAT_SHARE = 0.8
"""The share of a list's elements that are messages. The others may be events: somebody joined or left."""
_CARD_SHARE = 0.8
"""The share of a board's values that are cards. The others may be headers or notes."""
_LONGEST_TITLE = 200


def form_of(head: str, kind: str) -> Form | None:
    """Return the form of the messages in a document of this kind that begins with `head`; None if it holds
    none."""
    found = _form_of_json(head.lstrip("\ufeff"), lines=kind == "jsonl")
    if found is None and kind == "text" and (talk := talk_form(head.removeprefix("\ufeff"))) is not None:
        return f"{talk}:text"
    return found


def _form_of_json(head: str, *, lines: bool) -> Form | None:
    first = head.lstrip()[:1]
    if first not in ("{", "["):
        return None
    values = _line_values(head, broken=lines)
    if first == "{" and (lines or len(values) > 1):
        # A file named as JSON Lines may have damaged lines and messages without text.
        return _form_of_values(values, "lines", 0.5 if lines else 1.0)
    stream = JsonStream(iter((head,)))
    if first == "[":
        return _form_of_values(list(_take_first(stream.elements())), "array", _CHAT_SHARE)
    is_likely = any(
        f'"{key}"' in head for key in (*_MESSAGES, "mapping", "status", "state", "closed", "body")
    )
    return _form_of_object(stream) if is_likely else None


def render(
    texts: Iterator[str], form: Form, writer: ContextFileWriter, names: Mapping[str, str] = NO_NAMES
) -> str:
    """Write a document of this form into the open document of `writer`. Return what was wrong with it.
    `names` are those of users by their ids.

    From the first character that is not JSON, the text is written unchanged.
    """
    kind, _, shape = form.partition(":")
    if shape == "text":
        write_talk(texts, "commits" if kind == "commits" else "chat", writer)
        return ""
    rendering = _Rendering(writer, kind, names)
    if shape == "lines":
        return rendering.lines(texts)
    stream = JsonStream(texts)
    fault = ""
    try:
        if shape == "array":
            rendering.entries(stream.elements())
        elif kind == "board" or shape == "issue":
            rendering.board(stream)
        else:
            rendering.sections(stream)
    except BadJson as error:
        fault = f"is not JSON after message {rendering.number:,} ({error}): the rest was read as plain text"
    writer.end_message()
    for piece in stream.rest():
        if piece.strip() or fault:
            writer.write(piece)
    return fault


def _form_of_values(values: Sequence[Any], shape: str, least: float) -> Form | None:
    """Return the form of a list that begins with these values, of which at least this share has to talk."""
    cards = [card for value in values if (card := card_of(value)) is not None]
    if cards and len(cards) >= _CARD_SHARE * len(values):
        return f"{_kind_of(cards, is_single=len(values) == 1)}:{shape}"
    talk = sum(_is_chat(value) for value in values)
    return f"chat:{shape}" if talk and talk >= least * len(values) else None


def _kind_of(cards: Sequence[Card], *, is_single: bool) -> str:
    """Return `board`, or `chat` for issues and pull requests that are conversations."""
    is_talk = (is_single and cards[0].is_thread) or any(card.has_events for card in cards)
    return "chat" if is_talk else "board"


def _is_chat(value: Any) -> bool:
    return is_message(value) or _messages_in(value) is not None


def _messages_in(value: Any) -> list[Any] | None:
    """Return the messages of a conversation, in order; None if `value` is not a conversation."""
    if not isinstance(value, Mapping):
        return None
    for key in _MESSAGES:
        found = value.get(key)
        if isinstance(found, list) and any(is_message(one) for one in found[:_LOOKED_AT]):
            return found
    return _branch(value) if isinstance(value.get("mapping"), Mapping) else None


def _branch(conversation: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a conversation stored as a tree: the branch that was shown last."""
    nodes = conversation["mapping"]
    at = conversation.get("current_node")
    seen: set[Any] = set()
    branch: list[Any] = []
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        node = nodes[at]
        if not isinstance(node, Mapping):
            break
        branch.append(node.get("message"))
        at = node.get("parent")
    if not branch:
        branch = [node.get("message") for node in nodes.values() if isinstance(node, Mapping)][::-1]
    return [one for one in reversed(branch) if is_message(one) and plain_text(one.get("content")).strip()]


def _line_values(head: str, *, broken: bool) -> list[Any]:
    """Return the values of the first lines. A line that is not JSON is skipped with `broken`; otherwise the
    result is empty."""
    lines = head.split("\n", _LOOKED_AT + 1)
    whole = lines[:-1] if len(lines) > 1 else lines
    values = []
    for line in whole[:_LOOKED_AT]:
        if line.strip():
            try:
                values.append(json.loads(line.lstrip("\ufeff")))
            except (ValueError, RecursionError):
                if not broken:
                    return []
    return values


def _take_first(elements: Iterator[Any]) -> Iterator[Any]:
    """Yield the first elements, up to where the head was cut."""
    for _ in range(_LOOKED_AT):
        try:
            yield next(elements)
        except (StopIteration, BadJson):
            return


def _form_of_object(stream: JsonStream, depth: int = 0) -> Form | None:
    fields: dict[str, Any] = {}
    talks = False
    try:
        for key in stream.members():
            mark = stream.next_mark()
            if key == "mapping":
                return None if not isinstance(stream.value(), Mapping) else "chat:object"
            if mark == "{" and key in _WRAPPERS and depth < _MOST_WRAPPERS and card_of(fields) is None:
                if (form := _form_of_object(stream, depth + 1)) is not None:
                    return form.replace(":object", ":issue")
                fields[key] = {}
            elif mark == "[":
                elements = stream.elements()
                fields[key] = seen = list(_take_first(elements))
                if key in _MESSAGES:
                    talks = talks or any(is_message(one) for one in seen)
                elif card_of(fields) is None and (form := _form_of_values(seen, "issue", 2.0)) is not None:
                    return form
                if talks and len(seen) == _LOOKED_AT:
                    break
                for _ in elements:
                    pass
            else:
                fields[key] = stream.value()
    except BadJson:
        pass  # the head was cut: decide by the fields so far
    if _CARD & fields.keys() and "messages" in fields and (talks or {"id", "title"} & fields.keys()):
        return "card:object"
    if talks:
        return "chat:object"
    card = card_of(fields)
    return f"{_kind_of([card], is_single=True)}:issue" if card is not None else None


class _Raw(str):
    """A line of JSON Lines that is not JSON."""


class _Rendering:
    """Writes one document. `number` is that of its last message."""

    def __init__(self, writer: ContextFileWriter, kind: str, names: Mapping[str, str]) -> None:
        self.number = 0
        self._names = names
        self._kind = kind
        self._conversations = 0
        self._writer = writer

    def lines(self, texts: Iterator[str]) -> str:
        """Write JSON Lines."""
        bad = 0

        def values() -> Iterator[Any]:
            nonlocal bad
            for line in lines_of(texts):
                try:
                    if line.strip():
                        yield json.loads(line.lstrip("\ufeff"))
                except (ValueError, RecursionError):
                    bad += 1
                    yield _Raw(line if line.endswith("\n") else f"{line}\n")

        self.entries(values())
        return f"holds {bad:,} lines that are not JSON: they were read as plain text" if bad else ""

    def entries(self, values: Iterator[Any]) -> None:
        """Write the values of a list. A card that is the only one is a conversation."""
        first = list(itertools.islice(values, 2))
        for value in itertools.chain(first, values):
            if self._kind != "card" and (card := card_of(value)) is not None:
                self._card(card, is_talk=self._kind == "chat" or len(first) == 1)
            else:
                self.entry(value)

    def entry(self, value: Any) -> None:
        """Write a message or a conversation; any other value as JSON."""
        if is_message(value):
            self._message(value)
            return
        messages = _messages_in(value)
        if messages is None:
            self._raw(value if isinstance(value, _Raw) else json.dumps(value, ensure_ascii=False) + "\n")
            return
        self._conversations += 1
        title = next((value[key] for key in ("title", "name") if isinstance(value.get(key), str)), "")
        self._heading(1, title or f"Conversation {self._conversations}")
        for one in messages:
            self.entry(one)
        self._writer.end_message()

    def board(self, stream: JsonStream, depth: int = 0) -> None:
        """Write an object that is a card, or holds cards: all of its fields, in order."""
        fields: dict[str, Any] = {}
        for key in stream.members():
            mark = stream.next_mark()
            if mark == "{" and key in _WRAPPERS and depth < _MOST_WRAPPERS and card_of(fields) is None:
                self.board(stream, depth + 1)
            elif mark == "[" and card_of(fields) is None:
                elements = stream.elements()
                seen = list(itertools.islice(elements, _LOOKED_AT))
                if _form_of_values(seen, "", 2.0) is not None:
                    self.entries(itertools.chain(seen, elements))
                else:
                    fields[key] = [*seen, *elements]
            else:
                fields[key] = stream.value()
        if (card := card_of(fields)) is not None:
            self._card(card, is_talk=True)
            return
        for key, value in fields.items():
            if value not in (None, "", [], {}):
                self._raw(
                    f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n"
                )

    def sections(self, stream: JsonStream) -> None:
        """Write an object that holds messages: all of its fields, in order."""
        tree: dict[str, Any] = {}
        has_sections = False
        for key in stream.members():
            if key in _MESSAGES and stream.next_mark() == "[":
                if self._kind == "card" or has_sections:
                    self._heading(2, key)  # else the messages would be below the section before
                for value in stream.elements():
                    self.entry(value)
                self._writer.end_message()
                continue
            value = stream.value()
            if value in (None, "", [], {}):
                continue
            if key in ("title", "name") and isinstance(value, str):
                self._heading(1, value)
            elif (key == "mapping" and isinstance(value, Mapping)) or key == "current_node":
                tree[key] = value
            elif isinstance(value, str) and "\n" not in value and len(value) <= _LONGEST_TITLE:
                self._writer.write(f"{key}: {value}\n")
            elif isinstance(value, str | list | Mapping):
                has_sections = True
                self._heading(2, key)
                self._section(value)
            else:
                self._writer.write(f"{key}: {json.dumps(value)}\n")
        if "mapping" in tree:
            # Which of its branches was shown last may be told after them.
            for one in _branch(tree):
                self.entry(one)
            self._writer.end_message()

    def _section(self, value: Any) -> None:
        if isinstance(value, str):
            self._paragraph(value)
            return
        items: Iterable[Any] = (
            value if isinstance(value, list) else [{"title": k, "content": v} for k, v in value.items()]
        )
        for item in items:
            if not isinstance(item, Mapping):
                self._paragraph(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))
                continue
            title = next((key for key in _TITLES if isinstance(item.get(key), str)), None)
            content = next((key for key in _CONTENTS if isinstance(item.get(key), str)), None)
            if title is not None and item[title].strip():
                self._heading(3, item[title])
            if content is not None:
                self._paragraph(item[content])
            rest = {key: one for key, one in item.items() if key not in (title, content)}
            if rest:
                self._paragraph(json.dumps(rest, ensure_ascii=False))

    def _message(self, value: Mapping[str, Any]) -> None:
        message = message_of(value, self._names)
        self._say(message.role, message.author, message.time, message.text)

    def _card(self, card: Card, *, is_talk: bool) -> None:
        """Write a card with its comments, each of which is a message of its own if the card is a talk."""
        is_board = self._kind == "board"
        if not is_board:
            self._heading(1, card.name)
        author = card.id or f"card {self.number + 1}" if is_board else card.author
        time = day(card.created) if is_board else card.created
        self._say("", author, time, card.text(with_comments=not is_talk))
        for one in card.comments if is_talk else ():
            self._say("", one.author or "unknown", one.time, one.text)

    def _say(self, role: str, author: str, time: str, text: str) -> None:
        self.number += 1
        self._writer.begin_message(MessageHeader(self.number, role, author, time))
        self._writer.write(f"{text}\n\n" if text else "\n")

    def _heading(self, level: int, title: str) -> None:
        self._writer.end_message()
        title = " ".join(title.split())[:_LONGEST_TITLE].strip()
        if title:
            self._writer.write_heading(level, title)

    def _paragraph(self, text: str) -> None:
        self._writer.write(text.rstrip("\n") + "\n\n")

    def _raw(self, text: str) -> None:
        self._writer.end_message()
        self._writer.write(text)
