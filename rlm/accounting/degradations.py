"""Keeps what a run did without: a limit that was not held, a kernel that died, children that failed."""

from __future__ import annotations

from rlm.events import Event, RoundsFolded, Violated
from rlm.playback.degradation import cut_reply, folded_history
from rlm.results import Degradation

__all__ = ["Degradations"]

_MAX_NOTES = 50


class Degradations:
    """Keeps each kind with its first detail, in the order in which they came. A run and its sub-RLMs share
    it."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> tuple[Degradation, ...]:
        """Return all of them, for the result."""
        return tuple(Degradation(kind, detail) for kind, detail in self._notes.items())

    def note_event(self, event: Event) -> None:
        """Note what an event of the run says, if it is one of these."""
        match event:
            case RoundsFolded(last=last):
                self.note(*folded_history(last))
            case Violated(round=number, kind="truncated_reply"):
                self.note(*cut_reply(number))
            case _:
                pass

    def note(self, kind: str, detail: str) -> None:
        """Note that the run did without something. `kind` is a word, `detail` a line for a reader."""
        if len(self._notes) < _MAX_NOTES:
            self._notes.setdefault(kind, detail)
