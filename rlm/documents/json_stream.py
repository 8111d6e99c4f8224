"""JSON read piece by piece from a stream of text: never more of it in memory than one value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["BadJson", "JsonStream"]

_SPACE = " \t\r\n"
_LARGEST = 8_000_000
"""Characters of the largest value that is taken whole."""
_NUMBER_TAIL = 3
_NEAR_END = 12
"""Where a value was cut within a word like `false` or an escape, the decoder faults a place before it."""


class BadJson(ValueError):
    """What comes next is not JSON, or too large a value; `rest` of the stream gives it as it stands."""


class JsonStream:
    """The text of `pieces`, taken value by value."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._decoder = json.JSONDecoder()

    def next_mark(self) -> str:
        """The next character that is no white space, left where it is; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, mark: str) -> bool:
        """Go past `mark` if it comes next."""
        if self.next_mark() != mark:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The value that comes next, whole. Raises BadJson, with nothing taken."""
        self.next_mark()
        while True:
            try:
                found, stop = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise BadJson("nested too deeply") from None
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_END
                if not cut:
                    raise BadJson(error.msg) from None
                if len(self._text) - self._at > _LARGEST:
                    raise BadJson(f"a value of more than {_LARGEST:,} characters") from None
                # Twice as much each time, or a large value would be decoded a thousand times.
                if not self._more(len(self._text) - self._at):
                    raise BadJson(error.msg) from None
            else:
                # A number may go on in the next piece: `1`, `1.` and `1.5e` all give a value.
                open_end = isinstance(found, int | float) and len(self._text) - stop < _NUMBER_TAIL
                if (stop < len(self._text) and not open_end) or not self._more():
                    self._at = stop
                    return found

    def elements(self) -> Iterator[Any]:
        """The elements of the array that comes next. Raises BadJson where it goes wrong."""
        if not self.take("["):
            raise BadJson("no array")
        if self.take("]"):
            return
        while True:
            yield self.value()
            if self.take("]"):
                return
            if not self.take(","):
                raise BadJson("',' or ']' has to come next")

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; each value has to be taken before the next key. Raises
        BadJson where it goes wrong."""
        if not self.take("{"):
            raise BadJson("no object")
        if self.take("}"):
            return
        while True:
            key = self.value()
            if not isinstance(key, str) or not self.take(":"):
                raise BadJson("a key and ':' have to come next")
            yield key
            if self.take("}"):
                return
            if not self.take(","):
                raise BadJson("',' or '}' has to come next")

    def rest(self) -> Iterator[str]:
        """All that was not taken."""
        text, self._text = self._text[self._at :], ""
        self._at = 0
        if text:
            yield text
        yield from self._pieces

    def _more(self, least: int = 1) -> bool:
        """Read on by `least` characters, dropping what was taken; False at the end, where nothing changes."""
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
        self._at = 0
        return True
