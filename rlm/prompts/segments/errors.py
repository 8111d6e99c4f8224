"""Define the errors of stored segments.

PromptError
└── SegmentError             base of all below; the message is one line, remedy last
    ├── ScopeRefused         a scope that can't be stored; names what to use instead
    ├── SegmentRefused       an invalid segment, link or label; lists every fault
    ├── SegmentNotFound      no segment, version or label of that name
    ├── SegmentConflict      edited by someone else since it was read
    ├── StoreUnavailable     the database can't be opened, read or written
    └── AdapterFailed        a DbAdapter raised; names the scope
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
    "StoreUnavailable",
]


class SegmentError(PromptError):
    """Base class of all errors of stored segments."""


class ScopeRefused(SegmentError):
    """The scope can't be stored."""


class SegmentRefused(SegmentError):
    """The data to write is invalid. `faults` lists every reason."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class SegmentNotFound(SegmentError):
    """There is no segment, version or label of that name."""


class SegmentConflict(SegmentError):
    """The segment was edited between reading and writing it. Nothing was written.

    `expected` is the version the writer had read, `found` the current one.
    """

    def __init__(self, segment_id: str, expected: int, found: int) -> None:
        super().__init__(
            f"segment {segment_id} is at version {found}, not {expected}: someone else edited it; "
            "read it again and repeat your edit"
        )
        self.segment_id = segment_id
        self.expected = expected
        self.found = found


class StoreUnavailable(SegmentError):
    """The database can't be opened, read or written."""


class AdapterFailed(SegmentError):
    """A DbAdapter raised an error, which is chained. `scope` is the scope it was asked for."""

    def __init__(self, scope: str, error: BaseException) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        super().__init__(f"the segments of scope {scope!r} could not be fetched: {reason}")
        self.scope = scope
