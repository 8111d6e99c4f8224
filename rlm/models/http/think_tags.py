"""Separates the thinking that some models write into their reply, between `<think>` tags."""

from __future__ import annotations

import re

__all__ = ["ThinkSplitter", "split_bare_close"]

_TAGS = ("<think>", "<thinking>")
_LONGEST = max(map(len, _TAGS))
_CLOSE = {tag: f"</{tag[1:]}" for tag in _TAGS}
_BARE_CLOSE = re.compile(r"</think(?:ing)?>[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


class ThinkSplitter:
    """Splits a stream of pieces into text and thinking.

    Only tags at the start of a reply count; a tag within its text is text. A tag that is never closed makes
    all of the rest thinking. A tag may be cut between two pieces.
    """

    def __init__(self) -> None:
        self._tag: str | None = None
        self._buffer = ""
        self._has_text = False
        self._has_thought = False

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the text and to the thinking. Some of it may be kept for later."""
        if self._has_text:
            return piece, ""
        self._buffer += piece
        thinking: list[str] = []
        while True:
            if self._tag is None:
                start = self._buffer.lstrip()
                head = start[:_LONGEST].lower()
                tag = next((one for one in _TAGS if head.startswith(one)), None)
                if tag is None:
                    if not start or any(one.startswith(head) for one in _TAGS):
                        return "", "".join(thinking)
                    text, self._buffer, self._has_text = self._text_of(start), "", True
                    return text, "".join(thinking)
                self._tag, self._buffer, self._has_thought = tag, start[len(tag) :], True
            close = _CLOSE[self._tag]
            at = self._buffer.lower().find(close)
            if at < 0:
                kept = _cut_tag(self._buffer.lower(), close)
                end = len(self._buffer) - kept
                thinking.append(self._buffer[:end])
                self._buffer = self._buffer[end:]
                return "", "".join(thinking)
            thinking.append(self._buffer[:at])
            self._buffer, self._tag = self._buffer[at + len(close) :], None

    def close(self) -> tuple[str, str]:
        """Return what was kept, at the end of the stream."""
        rest = self._buffer if self._tag is not None else self._text_of(self._buffer.lstrip())
        self._buffer = ""
        return ("", rest) if self._tag is not None else (rest, "")

    def _text_of(self, start: str) -> str:
        """Return the buffer as text. Blanks between thinking and text belong to neither."""
        return start if self._has_thought else self._buffer


def split_bare_close(text: str) -> tuple[str, str]:
    """Return text and thinking of a reply that begins within its thinking: some chat templates write the
    opening tag themselves. A closing tag counts only at the end of a line, with a reply after it."""
    match = _BARE_CLOSE.search(text)
    if match is None or not text[match.end() :].strip():
        return text, ""
    return text[match.end() :].lstrip(), text[: match.start()]


def _cut_tag(text: str, tag: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `tag`."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
