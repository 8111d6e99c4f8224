"""Holds what the parts of one run share: budget, metered calls, coverage, log, observer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlm.accounting.budget import Budget
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import MeteredModel
from rlm.events import Observer

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["KERNELS_A_DEPTH", "ConcurrencyLimits", "RunContext", "Slots"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The shared state of one run."""

    budget: Budget
    metered: MeteredModel
    coverage: CoverageLedger
    log: RunLog
    concurrency: ConcurrencyLimits
    observe: Observer


KERNELS_A_DEPTH = 4
"""Sub-RLMs of one depth that run at a time. Each has a kernel, of some 20 MB and of processor time."""


class Slots(asyncio.Semaphore):
    """A semaphore that tells how many may hold it."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class ConcurrencyLimits:
    """`children` limits the calls in flight."""

    def __init__(self, concurrency: int) -> None:
        self.children = Slots(concurrency)
        self._kernels: dict[int, Slots] = {}

    def kernels(self, depth: int) -> Slots:
        """Return the slots of a depth. Each depth has its own, since a run waits for those below it."""
        return self._kernels.setdefault(depth, Slots(KERNELS_A_DEPTH))
