"""Events and summaries of runs, as the journal returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rlm.results import RunTotals

__all__ = ["EVENT_KINDS", "EventKind", "JournalEvent", "RunState", "RunSummary"]

EventKind = Literal[
    "run_started",
    "model_call",
    "cell",
    "child",
    "charge",
    "tool",
    "sub_rlm",
    "sub_rlm_ended",
    "planned",
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
    """One event of a run. `seq` counts from 1 without gaps; `at` is Unix time in seconds. `data` is the
    appended payload as JSON: tuples are lists, and secrets are blanked."""

    run_id: str
    seq: int
    at: float
    kind: EventKind
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run without its events. Times are Unix seconds.

    An `interrupted` run has no `finished` event, and its process has ended or left it: it can be resumed.
    `input` is the name of the stored input, if the input was stored.
    """

    run_id: str
    task: str
    state: RunState
    stop_reason: str | None
    started_at: float
    finished_at: float | None
    totals: RunTotals
    settings: Mapping[str, Any]
    input: str | None = None
