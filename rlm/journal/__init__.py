"""The journal: append-only events of every run, in one private store.

It holds document text, so its file is readable by its owner only. It never holds an API key
(`Journal.redact`).
"""

from __future__ import annotations

from rlm.journal.events import EventKind, JournalEvent, RunState, RunSummary
from rlm.journal.journal import Journal
from rlm.journal.run_log import ReadOnlyLog, RunLog, new_run_id
from rlm.journal.stored_log import StoredLog
from rlm.store_file import default_store

__all__ = [
    "EventKind",
    "Journal",
    "JournalEvent",
    "ReadOnlyLog",
    "RunLog",
    "RunState",
    "RunSummary",
    "StoredLog",
    "default_store",
    "new_run_id",
]
