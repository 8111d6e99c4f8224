"""What the journal gives back: events and summaries of runs, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["EVENT_KINDS", "EventKind", "JournalEvent", "RunState", "RunSummary"]

EventKind = Literal[
    "run_started",
    "model_call",
    "cell",
    "child",
    "charge",
    "helper",
    "sub_rlm",
    "sub_rlm_ended",
    "part",
    "part_ended",
    "compaction",
    "limit",
    "warning",
    "kernel_died",
    "interrupted",
    "resumed",
    "diverged",
    "finished",
]
EVENT_KINDS: frozenset[str] = frozenset(get_args(EventKind))

RunState = Literal["running", "finished", "interrupted"]


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One thing that happened in a run. `seq` counts from 1 without gaps; `at` is Unix time in seconds;
    `data` is JSON as it was appended, tuples turned to lists and secrets blanked."""

    run_id: str
    seq: int
    at: float
    kind: EventKind
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run without its events. Times are Unix seconds. `interrupted` is a run that ended without a
    `finished` event: its process is gone, or left it; it can be resumed. `cost_usd` is None while it is not
    known. `input` names the kept input, if there was one to keep."""

    run_id: str
    task: str
    state: RunState
    stop_reason: str | None
    started_at: float
    finished_at: float | None
    rounds: int
    sub_calls: int
    cost_usd: float | None
    settings: Mapping[str, Any]
    input: str | None = None
