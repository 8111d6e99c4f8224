"""When batches are sent and polled, and what is reported meanwhile. Nobody sets it; tests wait less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from rlm.lazy_dataclass import dataclass
from rlm.models.options import RetryPolicy

if TYPE_CHECKING:
    from rlm.events import BatchesWaiting

__all__ = ["BatchingPolicy", "OnBatches"]


OnBatches: TypeAlias = "Callable[[BatchesWaiting], None]"
"""Called from the event loop when a batch was sent or polled, for the batches of one model."""


@dataclass(frozen=True, slots=True)
class BatchingPolicy:
    """All times are in seconds.

    A batch is sent when no call has come for `idle_seconds`, and `longest_wait` after its first call at the
    latest, or when its requests take `max_bytes`. The interval between two polls grows from `first_poll` to
    `longest_poll`. `retry` is for the requests that create and read a batch. A request that failed within a
    batch for a reason that passes is sent again, in `attempts` batches at most.
    """

    idle_seconds: float = 3.0
    longest_wait: float = 60.0
    first_poll: float = 2.0
    longest_poll: float = 60.0
    max_requests: int = 100_000
    max_bytes: int = 64_000_000
    attempts: int = 3
    retry: RetryPolicy = field(
        default_factory=lambda: RetryPolicy(
            attempts=20, base=1.0, cap=60.0, total=3_600.0, retry_after_cap=600.0
        )
    )
