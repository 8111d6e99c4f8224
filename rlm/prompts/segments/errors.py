"""What can go wrong with stored segments.

PromptError
└── SegmentError             everything below; the message is one line and ends in the remedy
    ├── ScopeRefused         a scope that may not be stored; names what takes its place
    ├── SegmentRefused       a segment, link or label that contradicts itself or dangles; every fault at once
    ├── SegmentNotFound      no segment, version or label of that name
    ├── SegmentConflict      somebody else edited it since it was read
    ├── StoreUnavailable     the database can't be opened, read or written
    ├── StoreOutdated        its tables are of another version: migrate, or another rlm
    └── AdapterFailed        a DbAdapter raised; names the scope that was asked for
"""

from __future__ import annotations

from rlm.prompts.errors import PromptError

__all__ = [
    "AdapterFailed",
    "ScopeRefused",
    "SegmentConflict",
    "SegmentError",
    "SegmentNotFound",
    "SegmentRefused",
    "StoreOutdated",
    "StoreUnavailable",
]


class SegmentError(PromptError):
    """Base of all that stored segments can fail with."""


class ScopeRefused(SegmentError):
    """A scope that may not be stored."""


class SegmentRefused(SegmentError):
    """What was to be written contradicts itself. `faults` holds every reason found."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class SegmentNotFound(SegmentError):
    """No segment, version or label of that name."""


class SegmentConflict(SegmentError):
    """Somebody edited the segment between reading and writing it; nothing was written.

    `expected` is the version the writer had read, `found` the one that stands now.
    """

    def __init__(self, segment_id: str, expected: int, found: int) -> None:
        super().__init__(
            f"segment {segment_id} is at version {found}, not {expected}: somebody edited it meanwhile; "
            "read it again and repeat your edit"
        )
        self.segment_id = segment_id
        self.expected = expected
        self.found = found


class StoreUnavailable(SegmentError):
    """The database can't be opened, read or written."""


class StoreOutdated(SegmentError):
    """The tables are of another version than this program's."""


class AdapterFailed(SegmentError):
    """A DbAdapter raised. `scope` is what it was asked for; the cause is chained."""

    def __init__(self, scope: str, error: BaseException) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        super().__init__(f"the segments of scope {scope!r} could not be fetched: {reason}")
        self.scope = scope
