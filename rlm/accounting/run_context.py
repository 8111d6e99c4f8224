"""Holds what the parts of one run share: budget, metered calls, coverage, log, playback, observer."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from rlm.accounting.budget import Budget
from rlm.accounting.concurrency import ConcurrencyLimits
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.degradations import Degradations
from rlm.accounting.metered_model import MeteredModel
from rlm.accounting.sightings import Sightings
from rlm.events import Observer
from rlm.lazy_dataclass import dataclass
from rlm.playback.cursor import ReplayCursor

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["RunContext"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The shared state of one run."""

    budget: Budget
    metered: MeteredModel
    coverage: CoverageLedger
    log: RunLog
    playback: ReplayCursor
    concurrency: ConcurrencyLimits
    observe: Observer
    degradations: Degradations = field(default_factory=Degradations)
    sightings: Sightings = field(default_factory=Sightings)
