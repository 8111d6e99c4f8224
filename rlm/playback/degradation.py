"""Says what a run did without, in the same words while it runs and when its journal is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["KERNEL_DIED", "cut_reply", "folded_history", "recorded_degradation"]

KERNEL_DIED = ("kernel", "a kernel died and was replaced")


def folded_history(last: int) -> tuple[str, str]:
    """Return kind and detail of a compaction whose last round is `last`."""
    return "folded_history", f"the root's window was full: rounds up to {last} were folded into notes"


def cut_reply(round_: int) -> tuple[str, str]:
    """Return kind and detail of a root's reply that its output limit cut."""
    return "cut_reply", f"the root's reply of round {round_} was cut by its output limit"


def recorded_degradation(event: JournalEvent) -> tuple[str, str] | None:
    """Return kind and detail of what an event says that the run did without; None if it says nothing of
    that."""
    data = event.data
    match event.kind:
        case "kernel_died":
            return KERNEL_DIED
        case "compaction":
            return folded_history(data["last_round"])
        case "limit" if data.get("violation") == "truncated_reply":
            return cut_reply(data["round"])
        case "warning" if "degradation" in data:
            return data["degradation"], data["message"]
        case _:
            return None
