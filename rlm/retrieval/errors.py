"""The errors of the ranked index."""

from __future__ import annotations

from rlm.errors import RLMError

__all__ = ["QueryStopped", "RetrievalError"]


class RetrievalError(RLMError):
    """The ranked index can't be built or read."""


class QueryStopped(Exception):
    """The query was stopped because its result is no longer wanted."""
