"""Report the text of one reply while it is written."""

from __future__ import annotations

from collections.abc import Callable

from rlm.escaping import terminal_text
from rlm.events import TextDelta, TextObserver
from rlm.models.base import Reply

__all__ = ["ReplyText", "ShownPart"]

ShownPart = Callable[[str], str]
"""Returns the part of a reply so far that belongs to the answer. It grows with the reply, mostly."""


class ReplyText:
    """Turns the pieces of one reply into deltas for `observe`. With `shown` they are those of the answer,
    else those of call `call` in `role`."""

    def __init__(self, observe: TextObserver, role: str, call: int, shown: ShownPart | None) -> None:
        self._observe = observe
        self._role = role
        self._call = call
        self._shown = shown
        self._received: list[str] = []
        self._reported = ""

    def add(self, piece: str | None) -> None:
        """Report a piece; None voids those before it."""
        if piece is None:
            self._received.clear()
            self._report("")
            return
        self._received.append(piece)
        if self._shown is None:
            # Most replies are not filtered, so nothing needs their whole text.
            self._tell(terminal_text(piece))
            self._reported += piece
        else:
            self._report(self._shown("".join(self._received)))

    def end(self, reply: Reply) -> None:
        """Report what of a whole reply was not reported yet: all of it for a model that does not stream."""
        self._report(reply.text if self._shown is None else self._shown(reply.text + "\n"))

    def _report(self, text: str) -> None:
        """Report the way from what is reported to `text`."""
        before, self._reported = self._reported, text
        if text.startswith(before):
            if len(text) > len(before):
                self._tell(terminal_text(text[len(before) :]))
        else:
            self._tell(terminal_text(text), restarted=True)

    def _tell(self, text: str, *, restarted: bool = False) -> None:
        if self._shown is None:
            self._observe(TextDelta(text, role=self._role, call=self._call, restarted=restarted))
        else:
            self._observe(TextDelta(text, is_answer=True, restarted=restarted))
