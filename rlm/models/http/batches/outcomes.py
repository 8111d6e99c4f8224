"""Failures that only requests of a batch have."""

from __future__ import annotations

from rlm.errors import ModelProtocolError, ModelRejected, ModelUnavailable
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper

__all__ = ["cancelled", "expired", "missing", "no_identifier", "too_large", "unknown_batch"]


def expired(mapper: ErrorMapper) -> AttemptFailure:
    """Return the failure of a request that the provider did not get to in time. It costs nothing."""
    return AttemptFailure(
        ModelUnavailable,
        f"{mapper.name}: the batch expired before this request was answered",
        "ask again later, or without --slow",
    )


def cancelled(mapper: ErrorMapper) -> AttemptFailure:
    """Return the failure of a request whose batch was cancelled at the provider."""
    return AttemptFailure(
        ModelUnavailable,
        f"{mapper.name}: the batch was cancelled before this request was answered",
        "ask again",
    )


def missing(mapper: ErrorMapper) -> AttemptFailure:
    """Return the failure of a request for which a batch that has ended holds no result."""
    return AttemptFailure(
        ModelProtocolError,
        f"{mapper.name}: the batch ended without a result for this request",
        "ask again",
    )


def too_large(mapper: ErrorMapper, size: int, limit: int) -> AttemptFailure:
    """Return the failure of a request that is larger than a batch may be."""
    return AttemptFailure(
        ModelProtocolError,
        f"{mapper.name}: a request of {size:,} bytes is larger than a batch may be ({limit:,})",
        "send smaller slices",
    )


def unknown_batch(mapper: ErrorMapper, batch_id: str) -> AttemptFailure:
    """Return the failure of a batch that the provider does not know."""
    return AttemptFailure(
        ModelRejected,
        f"{mapper.name}: the batch {batch_id} is not known to the provider (404)",
        "use the key of the account that sent it, or rlm runs waiting --forget to send its calls again",
    )


def no_identifier(mapper: ErrorMapper) -> AttemptFailure:
    """Return the failure of an answer that names no batch or file."""
    return mapper.map_garbled(ValueError("an answer without an id"))
