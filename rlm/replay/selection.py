"""Which runs of a journal are exported, and in which order."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rlm.lazy_dataclass import dataclass
from rlm.replay.rewards import Reward

if TYPE_CHECKING:
    from rlm.journal import Journal, RunSummary

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that a run must meet. Each that is not given is met by all.

    model: a pattern of the root's model (`openai:*`). status: a state or a stop reason. since, until: Unix
    seconds of its start. after: the name of a run; only later ones are taken. The others are bounds of its
    rewards: a run without that number (no claim was checked, a price is unknown) does not meet them.
    """

    model: str | None = None
    status: str | None = None
    since: float | None = None
    until: float | None = None
    after: tuple[float, str] | None = None
    min_supported: float | None = None
    min_coverage: float | None = None
    max_cost_usd: float | None = None

    @property
    def has_bounds(self) -> bool:
        """Return whether the rewards of a run matter."""
        return any(one is not None for one in (self.min_supported, self.min_coverage, self.max_cost_usd))

    async def runs(self, journal: Journal) -> list[str]:
        """Return the names of the runs of one question that meet the conditions but for those of rewards,
        oldest first. The order does not change when runs are added, so an export can continue after one."""
        found = [one for one in await journal.runs(None) if one.settings.get("job") is None]
        found.sort(key=lambda one: (one.started_at, one.run_id))
        return [one.run_id for one in found if self._takes(one)]

    def _takes(self, run: RunSummary) -> bool:
        return (
            (self.model is None or fnmatchcase(str(run.settings.get("model", "")), self.model))
            and (self.status is None or self.status in (run.state, run.stop_reason))
            and (self.since is None or run.started_at >= self.since)
            and (self.until is None or run.started_at < self.until)
            and (self.after is None or (run.started_at, run.run_id) > self.after)
        )

    def accepts(self, reward: Reward) -> bool:
        """Return whether the rewards of a run are within the bounds."""
        return (
            _at_least(reward.supported_share, self.min_supported)
            and _at_least(reward.coverage, self.min_coverage)
            and (
                self.max_cost_usd is None
                or (reward.cost_usd is not None and reward.cost_usd <= self.max_cost_usd)
            )
        )


def _at_least(value: float | None, bound: float | None) -> bool:
    return bound is None or (value is not None and value >= bound)
