"""The batch APIs of providers: many requests in one upload, answered within 24 hours at half the price."""

from __future__ import annotations

from rlm.models.http.batches.api import BatchApi, BatchLimits, BatchStatus, SentBatch

__all__ = ["BatchApi", "BatchLimits", "BatchStatus", "SentBatch"]
