"""Rendering of chats and cards, stored as JSON, as readable text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlm.documents.message import is_message, message_of, plain_text
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.json_stream import BadJson, JsonStream
from rlm.sandbox.text.place_index import MessageHeader

__all__ = ["Form", "form_of", "render"]

Form = str
"""A kind (`chat` or `card`), a colon, and `array`, `object` or `lines`."""

_MESSAGES = ("messages", "chat_messages", "conversation", "conversations", "turns", "history")
_CARD = frozenset(
    ("state", "notes", "adrs", "libraries", "source_files", "build_logs", "pod_logs", "test_results")
)
_TITLES = ("title", "name", "path", "file", "id")
_CONTENTS = ("content", "text", "body", "log", "output")
_LOOKED_AT = 20
_LONGEST_LINE = 8_000_000
_LONGEST_TITLE = 200


def form_of(head: str, *, lines: bool) -> Form | None:
    """Return the form of the chat or card that begins with `head`; None if it is neither. `lines`: the file
    is named as JSON Lines."""
    first = head.lstrip("\ufeff \t\r\n")[:1]
    if first not in ("{", "["):
        return None
    values = _line_values(head, broken=lines)
    if first == "{" and (lines or len(values) > 1):
        # A file named as JSON Lines may have damaged lines and messages without text.
        least = 0.5 if lines else 1.0
        talk = sum(_is_chat(value) for value in values)
        return "chat:lines" if values and talk >= least * len(values) else None
    stream = JsonStream(iter((head.lstrip("\ufeff"),)))
    if first == "[":
        seen = list(_take_first(stream.elements()))
        # A few elements may be other events: somebody joined, somebody left.
        talk = sum(_is_chat(value) for value in seen)
        return "chat:array" if seen and talk >= 0.8 * len(seen) else None
    return _form_of_object(stream)


def render(stream: Iterator[str], form: Form, writer: ContextFileWriter) -> str | None:
    """Write a chat or card into the open document of `writer`.

    From the first character that is not JSON, the text is written unchanged, and the fault is returned.
    """
    rendering = _Rendering(writer)
    if form == "chat:lines":
        return rendering.lines(stream)
    json_stream = JsonStream(stream)
    try:
        if form == "chat:array":
            for value in json_stream.elements():
                rendering.entry(value)
        else:
            rendering.sections(json_stream, card=form == "card:object")
        fault = None
    except BadJson as error:
        fault = f"is not JSON after message {rendering.number:,} ({error}): the rest was read as plain text"
    writer.end_message()
    for piece in json_stream.rest():
        if piece.strip() or fault:
            writer.write(piece)
    return fault


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


def _form_of_object(stream: JsonStream) -> Form | None:
    keys: set[str] = set()
    talks = False
    try:
        for key in stream.members():
            keys.add(key)
            if key in _MESSAGES and stream.next_mark() == "[":
                seen = list(_take_first(stream.elements()))
                talks = talks or any(is_message(one) for one in seen)
                if len(seen) == _LOOKED_AT:
                    break  # the stream is within the array
            elif key == "mapping":
                return None if not isinstance(stream.value(), Mapping) else "chat:object"
            else:
                stream.value()
    except BadJson:
        pass  # the head was cut: decide by the keys so far
    if keys & _CARD and "messages" in keys and (talks or {"id", "title"} & keys):
        return "card:object"
    return "chat:object" if talks else None


class _Rendering:
    """Writes one document. `number` is that of its last message."""

    def __init__(self, writer: ContextFileWriter) -> None:
        self.number = 0
        self._conversations = 0
        self._writer = writer

    def lines(self, stream: Iterator[str]) -> str | None:
        bad = 0
        for line in _split_lines(stream):
            if not line.strip():
                continue
            try:
                self.entry(json.loads(line.lstrip("\ufeff")))
            except (ValueError, RecursionError):
                bad += 1
                self._raw(line if line.endswith("\n") else f"{line}\n")
        return f"holds {bad:,} lines that are not JSON: they were read as plain text" if bad else None

    def entry(self, value: Any) -> None:
        """Write a message or a conversation; any other value as JSON."""
        if is_message(value):
            self._message(value)
            return
        messages = _messages_in(value)
        if messages is None:
            self._raw(json.dumps(value, ensure_ascii=False) + "\n")
            return
        self._conversations += 1
        title = next((value[key] for key in ("title", "name") if isinstance(value.get(key), str)), "")
        self._heading(1, title or f"Conversation {self._conversations}")
        for one in messages:
            self.entry(one)
        self._writer.end_message()

    def sections(self, stream: JsonStream, *, card: bool) -> None:
        """Write an object that holds messages: all of its fields, in order."""
        tree: dict[str, Any] = {}
        has_sections = False
        for key in stream.members():
            if key in _MESSAGES and stream.next_mark() == "[":
                if card or has_sections:
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
        message = message_of(value)
        self.number += 1
        self._writer.begin_message(MessageHeader(self.number, message.role, message.author, message.time))
        self._writer.write(f"{message.text}\n\n" if message.text else "\n")

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


def _split_lines(stream: Iterator[str]) -> Iterator[str]:
    """Yield lines with their ends. A line longer than any message is cut into pieces."""
    held = io.StringIO()
    size = 0
    for piece in stream:
        lines = piece.split("\n")
        for line in lines[:-1]:
            held.write(f"{line}\n")
            yield held.getvalue()
            held, size = io.StringIO(), 0
        held.write(lines[-1])
        size += len(lines[-1])
        if size > _LONGEST_LINE:
            yield held.getvalue()
            held, size = io.StringIO(), 0
    if rest := held.getvalue():
        yield rest
