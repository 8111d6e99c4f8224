"""Store pieces of prompts: records, adapters that an assembly reads from, and the store.

The store is imported on first use: most prompts need no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlm.prompts.segments.adapter import BatchAdapter, DbAdapter, MemoryAdapter, RevisedAdapter
from rlm.prompts.segments.errors import (
    AdapterFailed,
    ScopeRefused,
    SegmentConflict,
    SegmentError,
    SegmentNotFound,
    SegmentRefused,
    StoreUnavailable,
)
from rlm.prompts.segments.segment import (
    DEPRECATED,
    LAYERS,
    SCOPES,
    EntryRuleset,
    Segment,
    SegmentVersion,
    StoredSegment,
)

if TYPE_CHECKING:
    from rlm.prompts.segments.exchange import Imported, export_segments, import_segments
    from rlm.prompts.segments.store import SegmentStore, StoreAdapter

__all__ = [
    "DEPRECATED",
    "LAYERS",
    "SCOPES",
    "AdapterFailed",
    "BatchAdapter",
    "DbAdapter",
    "EntryRuleset",
    "Imported",
    "MemoryAdapter",
    "RevisedAdapter",
    "ScopeRefused",
    "Segment",
    "SegmentConflict",
    "SegmentError",
    "SegmentNotFound",
    "SegmentRefused",
    "SegmentStore",
    "SegmentVersion",
    "StoreAdapter",
    "StoreUnavailable",
    "StoredSegment",
    "export_segments",
    "import_segments",
]

_LATE = {
    "Imported": "exchange",
    "SegmentStore": "store",
    "StoreAdapter": "store",
    "export_segments": "exchange",
    "import_segments": "exchange",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"rlm.prompts.segments.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
