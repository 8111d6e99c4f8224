"""The journal: append-only events of every run, in one private store.

It holds document text, so its file is readable by its owner only; it never holds a key (`Journal.redact`).
"""

from __future__ import annotations

from rlm.journal.events import EventKind, JournalEvent, RunState, RunSummary
from rlm.journal.part import PartLog
from rlm.journal.past import ReadOnlyLog
from rlm.journal.run_id import new_run_id
from rlm.journal.store import Journal, RunLog
from rlm.store_file import default_store

__all__ = [
    "EventKind",
    "Journal",
    "JournalEvent",
    "PartLog",
    "ReadOnlyLog",
    "RunLog",
    "RunState",
    "RunSummary",
    "default_store",
    "new_run_id",
]
