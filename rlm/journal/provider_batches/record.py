"""One batch that was sent to a provider."""

from __future__ import annotations

from typing import Literal

from rlm.lazy_dataclass import dataclass

__all__ = ["BatchRecord", "BatchState"]

BatchState = Literal["creating", "open", "ended"]
"""`creating`: it may or may not have reached the provider. `ended`: the provider has all its results."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """`batch` is our own name of it and `provider_id` the provider's, once it is known. `sent_at` is Unix
    time."""

    batch: str
    model: str
    sent_at: float
    requests: int
    provider_id: str | None = None
    state: BatchState = "creating"
