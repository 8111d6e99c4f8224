"""What the parts of one run share: its ledger, its calls, what was read, its log, its past, who watches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlm.budget import Budget
from rlm.calls import Caller
from rlm.coverage import CoverageLedger
from rlm.events import Observer
from rlm.playback import Playback
from rlm.tree import Tree

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["Accounts"]


@dataclass(frozen=True, slots=True)
class Accounts:
    """One run's books. Each is kept by one class and read by many."""

    budget: Budget
    caller: Caller
    coverage: CoverageLedger
    log: RunLog
    playback: Playback
    tree: Tree
    observe: Observer
