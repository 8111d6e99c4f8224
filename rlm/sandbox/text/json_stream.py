"""A streaming JSON parser. It holds one value in memory at a time.

The kernel reads rows with it, and the host reads chats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["BadJson", "JsonStream"]

_SPACE = re.compile(r"[ \t\r\n]+")
_LARGEST = 8_000_000
"""Characters of the largest value, unless the caller sets another limit."""
_NUMBER_TAIL = 3
_NEAR_END = 12
"""For a value cut within a word like `false` or an escape, the decoder reports an error this far before the
cut at most."""


class BadJson(ValueError):
    """The stream holds no JSON at `position`, or a value that is too large. Nothing of it is taken."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class JsonStream:
    """Parses the text of `pieces` value by value.

    Positions count characters from `start`. `value_start` is the position of the last value taken.
    """

    def __init__(self, pieces: Iterator[str], *, start: int = 0, largest: int = _LARGEST) -> None:
        self._pieces = pieces
        self._base = start
        self._largest = largest
        self._text = ""
        self._at = 0
        self._decoder = json.JSONDecoder()
        self.value_start = start

    @property
    def position(self) -> int:
        """The position of the next character."""
        return self._base + self._at

    def next_mark(self) -> str:
        """Skip white space and return the next character without taking it; "" at the end."""
        while True:
            if found := _SPACE.match(self._text, self._at):
                self._at = found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, mark: str) -> bool:
        """Take `mark` if it is next, and return whether it was."""
        if self.next_mark() != mark:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """Take the next value. Raises BadJson."""
        self.next_mark()
        while True:
            try:
                found, stop = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise BadJson("nested too deeply", self.position) from None
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_END
                if not cut:
                    raise BadJson(error.msg, self._base + error.pos) from None
                if len(self._text) - self._at > self._largest:
                    raise BadJson(
                        f"a value of more than {self._largest:,} characters", self.position
                    ) from None
                # Double the text each time, or a large value would be decoded a thousand times.
                if not self._more(len(self._text) - self._at):
                    raise BadJson(error.msg, self._base + error.pos) from None
            except ValueError:
                raise BadJson("a number with too many digits", self.position) from None
            else:
                # A number may continue in the next piece: `1`, `1.` and `1.5e` all give a value.
                open_end = isinstance(found, int | float) and len(self._text) - stop < _NUMBER_TAIL
                if (stop < len(self._text) and not open_end) or not self._more():
                    self.value_start, self._at = self.position, stop
                    return found

    def elements(self) -> Iterator[Any]:
        """Take the next array and yield its elements. Raises BadJson."""
        if not self.take("["):
            raise BadJson("not an array", self.position)
        if self.take("]"):
            return
        while True:
            yield self.value()
            if self.take("]"):
                return
            if not self.take(","):
                raise BadJson("',' or ']' has to come next", self.position)

    def members(self) -> Iterator[str]:
        """Take the next object and yield its keys. The caller takes each value before the next key. Raises
        BadJson."""
        if not self.take("{"):
            raise BadJson("not an object", self.position)
        if self.take("}"):
            return
        while True:
            key = self.value()
            if not isinstance(key, str) or not self.take(":"):
                raise BadJson("a key and ':' have to come next", self.position)
            yield key
            if self.take("}"):
                return
            if not self.take(","):
                raise BadJson("',' or '}' has to come next", self.position)

    def rest(self) -> Iterator[str]:
        """Yield the text that was not taken, to the end."""
        text, self._text = self._text[self._at :], ""
        self._base += self._at
        self._at = 0
        if text:
            yield text
        yield from self._pieces

    def _more(self, least: int = 1) -> bool:
        """Read at least `least` characters and drop what was taken. Return False at the end, where nothing
        changes."""
        pieces: list[str] = []
        got = 0
        while got < least:
            piece = next(self._pieces, None)
            if piece is None:
                break
            pieces.append(piece)
            got += len(piece)
        if not got:
            return False
        self._text = "".join((self._text[self._at :], *pieces))
        self._base += self._at
        self._at = 0
        return True
