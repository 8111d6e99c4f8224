"""The batches that runs have sent to providers, so that a killed run finds its paid replies again."""

from __future__ import annotations

from rlm.journal.provider_batches.ledger import BatchLedger
from rlm.journal.provider_batches.record import BatchRecord, BatchState

__all__ = ["BatchLedger", "BatchRecord", "BatchState"]
