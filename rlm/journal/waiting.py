"""An event on its way into a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlm.errors import JournalError
from rlm.journal.events import EventKind

__all__ = ["Waiting"]


@dataclass(slots=True)
class Waiting:
    """An event on its way into the store. `seq` is set when it is there, else `fault`."""

    kind: EventKind
    payload: Mapping[str, Any]
    data: str
    at: float
    seq: int = 0
    fault: JournalError | None = None

    def row(self, run_id: str) -> dict[str, Any]:
        return {
            "run_id": run_id,
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "data": self.data,
            "key": self.payload.get("key"),
        }

    def end(self) -> dict[str, Any]:
        """What the run's own row says after it."""
        totals = ("stop_reason", "rounds", "sub_calls", "cost_usd")
        return {
            "state": self.kind,
            "finished_at": self.at,
            **{name: self.payload[name] for name in totals if name in self.payload},
        }
