"""Prepare messages for providers, and read fields of their replies."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rlm.models.base import Message
from rlm.models.http.reply_limits import MAX_COUNT

__all__ = ["alternating", "cache_borders", "count_in", "field", "list_in", "text_in", "with_header_lines"]
__all__ += ["with_openai_cache"]


def cache_borders(messages: Sequence[Message], maximum: int) -> frozenset[int]:
    """Return the positions of messages that end a cached prefix: at most `maximum` of the stable ones. These
    are the first, which runs share, and the latest, which the next round repeats."""
    stable = [index for index, message in enumerate(messages) if message.stable and message.content]
    if len(stable) <= maximum:
        return frozenset(stable)
    return frozenset((stable[0], *stable[len(stable) - maximum + 1 :]))


def with_openai_cache(body: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
    """Return a body for OpenAI with what its cache should keep. `messages` are those of the body, in order.

    Requests with one key go to one machine, which has the prefix. The key is that of the system text and of
    the first message if that is repeated, too: all rounds of a run share them, or all children of a batch. A
    prefix that is too short to be cached has no key.
    Later models also charge for writing to the cache, and write every request as a whole unless they are told
    where the repeated prefix ends. The slice of a child is never repeated.
    """
    borders = [at for at, message in enumerate(messages) if message.stable]
    shared = "\n".join(message.content for message in messages[: borders[:2][-1] + 1]) if borders else ""
    fields: dict[str, Any] = {}
    if len(shared) >= _MIN_CACHED_CHARS:
        key = hashlib.sha256(shared.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        fields["prompt_cache_key"] = key
    if not _CHARGES_WRITES.match(str(body["model"])):
        return body | fields
    fields["prompt_cache_options"] = {"mode": "explicit"}
    written = list(body["messages"])
    for at in cache_borders(messages, _MAX_BREAKPOINTS):
        content = written[at]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        kept = {"mode": "explicit", **({"ttl": "12h"} if messages[at].long_lived else {})}
        parts[-1] = {**parts[-1], "prompt_cache_breakpoint": kept}
        written[at] = {**written[at], "content": parts}
    return body | fields | {"messages": written}


_MIN_CACHED_CHARS = 3_000
"""OpenAI caches from 1,024 tokens. A token of English has about 4 characters, one of code fewer."""
_MAX_BREAKPOINTS = 4
_CHARGES_WRITES = re.compile(r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)")


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merge neighbouring messages of one role. Many servers' templates require roles to alternate, while a
    run's history keeps a correction apart from the reply."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            joined = f"{merged[-1].content}\n\n{message.content}"
            images = (*merged[-1].images, *message.images)
            merged[-1] = replace(message, content=joined, images=images)
        else:
            merged.append(message)
    return tuple(merged)


def with_header_lines(headers: dict[str, str], variable: str) -> dict[str, str]:
    """Return `headers` with those of an environment variable, which win: one in each line, as the SDKs read
    them."""
    named = {name.lower(): name for name in headers}
    merged = dict(headers)
    for line in os.environ.get(variable, "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            merged.pop(named.get(name.strip().lower(), ""), None)
            merged[name.strip()] = value.strip()
    return merged


def field(record: object, *path: str) -> Any:
    """Return a field of a server's JSON object, or of an object in it; None where anything is missing."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def text_in(record: object, *path: str) -> str:
    """Return a text that a server's JSON holds, or an empty one where it holds something else."""
    value = field(record, *path)
    return value if isinstance(value, str) else ""


def list_in(record: object, *path: str) -> list[Any]:
    """Return a list that a server's JSON holds, or an empty one where it holds something else."""
    value = field(record, *path)
    return value if isinstance(value, list) else []


def count_in(record: object, *path: str) -> int:
    """Return a count of tokens that a server's JSON holds, or 0 where it holds something else. Some servers
    write whole numbers as 9.0."""
    value = field(record, *path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, MAX_COUNT) if isinstance(value, int) and value > 0 else 0
