"""Reads from a journal's events what a run did without, so that a resumed run still names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["recorded_degradation"]

_WARNINGS = (
    ("the direct call gave no checked answer (", "direct_call"),
    ("the rounds gave no answer (", "strategy"),
)
"""How warnings begin that are degradations, and their kinds."""


def recorded_degradation(event: JournalEvent) -> tuple[str, str] | None:
    """Return the kind and the detail of what an event says that the run did without, in the words of the run;
    None if it says nothing of that."""
    data = event.data
    match event.kind:
        case "kernel_died":
            return "kernel", "a kernel died and was replaced"
        case "compaction":
            words = "the root's window was full: rounds up to {} were folded into notes"
            return "folded_history", words.format(data["last_round"])
        case "limit" if data.get("violation") == "truncated_reply":
            return "cut_reply", f"the root's reply of round {data['round']} was cut by its output limit"
        case "warning":
            message = data["message"]
            found = (kind for beginning, kind in _WARNINGS if message.startswith(beginning))
            return next(((kind, message) for kind in found), None)
        case _:
            return None
