"""What ranking can fail with."""

from __future__ import annotations

from rlm.errors import RLMError

__all__ = ["QueryStopped", "RetrievalError"]


class RetrievalError(RLMError):
    """The ranked index can't be built or read."""


class QueryStopped(Exception):
    """Whoever asked no longer waits."""
