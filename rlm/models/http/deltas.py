"""Pass on the text of a reply while it is written, in pieces of at least 50 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rlm.escaping import encodable
from rlm.models.http.reply_limits import BoundedText

__all__ = ["TextDeltas"]

_SECONDS = 0.05
_HIGH_SURROGATES = ("\ud800", "\udbff")


class TextDeltas:
    """Passes what `text` has grown by to `on_text`, which is that of ReplyListener.

    The first piece is passed on at once. Concatenated, the pieces are the text: a surrogate pair whose halves
    arrive apart is passed on whole.
    """

    def __init__(self, text: BoundedText, on_text: Callable[[str | None], None]) -> None:
        self._text = text
        self._on_text = on_text
        self._position = 0
        self._held = ""
        self._has_passed = False
        self._timer: asyncio.TimerHandle | None = None

    def update(self) -> None:
        """Pass on the new text soon. Call it when events have been added."""
        if self._timer is not None or self._position == self._text.pieces:
            return
        self._pass()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._tick)

    def close(self, *, failed: bool) -> None:
        """Pass on the rest, or say that what was passed on is void."""
        if self._timer is not None:
            self._timer.cancel()
        if not failed:
            self._pass(is_end=True)
        elif self._has_passed:
            self._on_text(None)

    def _tick(self) -> None:
        self._timer = None
        self.update()

    def _pass(self, *, is_end: bool = False) -> None:
        piece = self._held + self._text.since(self._position)
        self._position = self._text.pieces
        split = not is_end and bool(piece) and _HIGH_SURROGATES[0] <= piece[-1] <= _HIGH_SURROGATES[1]
        piece, self._held = (piece[:-1], piece[-1]) if split else (piece, "")
        if piece:
            self._has_passed = True
            self._on_text(encodable(piece))
