"""From the messages of a client to a task and its context.

The last user message is the task. What stands before it is the context, and so is any long part of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlm.server.errors import ApiError

__all__ = ["CONVERSATION", "Conversation", "Message", "read_conversation", "schema_of"]

LONG_CHARS = 4_000
"""A longer text is context and not a task."""
_EDGE_CHARS = 2_000
CONVERSATION = "conversation.json"
_INSTRUCTORS = ("system", "developer")
_TEXTS = ("text", "refusal")


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its texts, and its files as parts of a context."""

    role: str
    texts: tuple[str, ...]
    files: tuple[dict[str, Any], ...] = ()

    @classmethod
    def parse(cls, role: str, content: Any, where: str) -> Message:
        """Return the message. Raises ApiError for content that is no text and no file."""
        if content is None or isinstance(content, str):
            return cls(role, (content,) if content else ())
        if not isinstance(content, list):
            raise ApiError(400, "content is neither a text nor a list of parts", param=where)
        texts, files = [], []
        for number, part in enumerate(content):
            at = f"{where}.{number}"
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in _TEXTS:
                text = part.get("refusal" if kind == "refusal" else "text")
                if not isinstance(text, str):
                    raise ApiError(400, "the part has no text", param=at)
                texts += [text] if text else []
            elif kind == "file":
                files.append(_file_part(part.get("file"), at))
            else:
                raise ApiError(
                    400,
                    f"parts of the type {str(kind)[:40]!r} are not supported: send texts and files",
                    code="unsupported_content",
                    param=at,
                )
        return cls(role, tuple(texts), tuple(files))


@dataclass(frozen=True, slots=True)
class Conversation:
    """A task with its context."""

    task: str
    context: tuple[dict[str, Any], ...] | None


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the task of a conversation and its context. Short system messages stand before the task. Raises
    ApiError if there is no user message."""
    last = max((place for place, one in enumerate(messages) if one.role == "user"), default=None)
    if last is None or not (messages[last].texts or messages[last].files):
        raise ApiError(400, "there is no user message with a text: it is the task", param="messages")
    parts: list[dict[str, Any]] = []
    instructions = "\n\n".join(text for one in messages if one.role in _INSTRUCTORS for text in one.texts)
    if len(instructions) > LONG_CHARS:
        parts.append({"text": instructions, "name": "instructions"})
        instructions = ""
    earlier: list[dict[str, str]] = []
    for number, one in enumerate(messages, 1):
        parts += one.files
        if one is messages[last] or one.role in _INSTRUCTORS:
            continue
        for text in one.texts:
            if len(text) > LONG_CHARS:
                parts.append({"text": text, "name": f"message {number}"})
            shown = text if len(text) <= LONG_CHARS else f"(the document “message {number}”)"
            earlier.append({"role": one.role, "content": shown})
    if earlier:
        text = json.dumps(earlier, ensure_ascii=False)
        parts.append({"text": text, "name": CONVERSATION, "kind": "json"})
    texts = messages[last].texts
    short = [text for text in texts if len(text) <= LONG_CHARS and text.strip()]
    long = [text for text in texts if len(text) > LONG_CHARS]
    names = (
        ["message"] if len(long) == 1 else [f"message, part {number}" for number in range(1, len(long) + 1)]
    )
    parts += [{"text": text, "name": name} for text, name in zip(long, names, strict=True)]
    if short:
        question = "\n\n".join(short)
    elif long:
        question = _edges(long[-1])
    else:
        raise ApiError(400, "the last user message has no text: it is the task", param="messages")
    if len(question) > LONG_CHARS * 4:
        parts.append({"text": question, "name": "message, short parts"})
        question = _edges(question)
    task = f"{instructions}\n\n{question}" if instructions else question
    return Conversation(task, tuple(parts) or None)


def schema_of(given: Any, where: str) -> Any:
    """Return the schema of `response_format`. Raises ApiError for an unknown format."""
    kind = given.get("type") if isinstance(given, dict) else None
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    schema = given.get("json_schema", given).get("schema") if kind == "json_schema" else None
    if not isinstance(schema, dict):
        raise ApiError(400, "give a type of text, json_object, or json_schema with its schema", param=where)
    return schema


def _edges(text: str) -> str:
    """Return the task within a long text: its short first and last paragraph, which people write around a
    document. The whole text is the context, so nothing is lost if this guesses wrong."""
    paragraphs = [one.strip() for one in re.split(r"\n\s*\n", text) if one.strip()]
    if len(paragraphs) == 1:
        paragraphs = [one.strip() for one in text.splitlines() if one.strip()]
    edges = [paragraphs[0], paragraphs[-1]] if len(paragraphs) > 1 else []
    short = [one for one in edges if len(one) <= _EDGE_CHARS]
    if short:
        return "\n\n".join(short)
    half = _EDGE_CHARS // 2
    return f"{text[:half].strip()} … {text[-half:].strip()}"


def _file_part(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ApiError(400, "the part has no file", param=where)
    name = given.get("filename")
    named = {"name": name[:200]} if isinstance(name, str) and name else {}
    if isinstance(given.get("file_id"), str):
        return {"file_id": given["file_id"][:64]}
    data = given.get("file_data")
    if not isinstance(data, str) or not data:
        raise ApiError(400, "a file needs a file_id, or file_data in base64", param=where)
    if data.startswith("data:"):
        data = data.partition(",")[2]
    return {"data": data, **named}
