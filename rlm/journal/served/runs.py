"""What was asked of the server, by whom, and what it may cost. The steps of a run are in the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from rlm.journal.database import Row, Transaction
from rlm.journal.journal import Journal
from rlm.journal.served.keys import ServedKey
from rlm.journal.stored_events import encode
from rlm.lazy_dataclass import dataclass

__all__ = ["RunStore", "ServedRun", "ServedState"]

ServedState = Literal["queued", "running", "interrupted", "finished", "failed", "cancelled", "deleted"]
_IS_OPEN = "state IN ('queued', 'running')"
_COST = "SELECT sum(cost_usd) AS usd FROM served_runs WHERE user_name = :user AND ended_at >= :since"
_RESERVED = f"SELECT sum(reserved_usd) AS usd FROM served_runs WHERE user_name = :user AND {_IS_OPEN}"  # noqa: S608
_USED = (
    "SELECT sum(cost_usd + reserved_usd) AS usd FROM served_runs "  # noqa: S608 - a constant
    f"WHERE user_name = :user AND run_id <> :run_id AND ({_IS_OPEN} OR ended_at >= :since)"
)
"""What a user's other runs cost since then, or may still cost."""


@dataclass(frozen=True, slots=True)
class ServedRun:
    """A run as it was asked for. `journal_id` is its name in the journal. `face` is the API that asked, and
    `kind` the task (`run`, `summary`, `research`). `outcome` is the result as JSON, or `{"error": …}`.

    `interrupted` runs are those whose client left: the same request resumes them."""

    run_id: str
    journal_id: str
    user_name: str
    key_id: str
    face: str
    kind: str
    state: ServedState
    request: Mapping[str, Any]
    digest: str
    outcome: Mapping[str, Any] | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    reserved_usd: float
    cost_usd: float


class RunStore:
    """The runs of the server in an open journal. Every method raises JournalError if the store fails."""

    def __init__(self, journal: Journal) -> None:
        self._database = journal.database
        self._writes = journal.writes

    async def add(self, run: ServedRun) -> None:
        """Store a new run."""
        row = {
            **{name: getattr(run, name) for name in ServedRun.__slots__},
            "request": encode(run.request),
            "outcome": None if run.outcome is None else encode(run.outcome),
        }

        await self._writes.finish(
            self._database.write(lambda transaction: transaction.insert("served_runs", [row]))
        )

    async def get(self, run_id: str, user: str) -> ServedRun | None:
        """Return a run of that user. A run of somebody else is not there."""
        query = (
            "SELECT * FROM served_runs WHERE run_id = :run_id AND user_name = :user AND state <> 'deleted'"
        )
        rows = await self._database.rows(query, run_id=run_id, user=user)
        return _run(rows[0]) if rows else None

    async def owns(self, journal_id: str, user: str) -> bool:
        """Return whether a run of the journal is one of that user's."""
        query = (
            "SELECT run_id FROM served_runs "
            "WHERE journal_id = :journal_id AND user_name = :user AND state <> 'deleted'"
        )
        return bool(await self._database.rows(query, journal_id=journal_id, user=user))

    async def list(self, user: str, *, limit: int, before: str | None = None) -> tuple[ServedRun, ...]:
        """Return the newest runs of a user, newest first, those that are older than `before` if given."""
        query, known = "SELECT * FROM served_runs WHERE user_name = :user AND state <> 'deleted'", {}
        if before is not None:
            query += (
                " AND created_at < "
                "(SELECT created_at FROM served_runs WHERE run_id = :before AND user_name = :user)"
            )
            known = {"before": before}
        query += " ORDER BY created_at DESC, run_id DESC LIMIT :most"
        return tuple(map(_run, await self._database.rows(query, user=user, most=limit, **known)))

    async def open_runs(self) -> tuple[ServedRun, ...]:
        """Return the runs that wait or were running, in the order in which they came."""
        query = f"SELECT * FROM served_runs WHERE {_IS_OPEN} ORDER BY created_at"  # noqa: S608 - a constant
        return tuple(map(_run, await self._database.rows(query)))

    async def find_interrupted(self, user: str, digest: str) -> ServedRun | None:
        """Return the newest interrupted run of a user for the same request."""
        query = (
            "SELECT * FROM served_runs WHERE user_name = :user AND digest = :digest "
            "AND state = 'interrupted' ORDER BY created_at DESC LIMIT 1"
        )
        rows = await self._database.rows(query, user=user, digest=digest)
        return _run(rows[0]) if rows else None

    async def change(self, run_id: str, **values: Any) -> None:
        """Change columns of a run. `request` and `outcome` are given as JSON-like values."""
        for name in ("request", "outcome"):
            if values.get(name) is not None:
                values[name] = encode(values[name])

        def put(transaction: Transaction) -> None:
            transaction.update("served_runs", values, "run_id = :run_id", run_id=run_id)

        await self._writes.finish(self._database.write(put))

    async def reserve(self, run_id: str, key: ServedKey | None, user: str, wanted: float) -> float:
        """Reserve what a run may cost, at most `wanted` dollars and what the budgets of its key leave, and
        return it; 0 if nothing is left. What other runs of the user have reserved is not left."""

        def put(transaction: Transaction) -> float:
            # This write makes the reservations of one user wait for each other.
            transaction.update("served_keys", {"user_name": user}, "user_name = :user", user=user)
            granted = wanted
            for budget, since in _budgets(key):
                used = transaction.scalar(_USED, user=user, since=since, run_id=run_id)
                granted = min(granted, max(0.0, budget - float(used or 0.0)))
            transaction.update("served_runs", {"reserved_usd": granted}, "run_id = :run_id", run_id=run_id)
            return granted

        return await self._writes.finish(self._database.write(put))

    async def left(self, user: str, key: ServedKey | None) -> float | None:
        """Return the dollars that the budgets of a key leave, without what runs have reserved; None without a
        budget."""
        left = []
        for budget, since in _budgets(key):
            left.append(max(0.0, budget - await self._sum(_COST, user=user, since=since)))
        return min(left) if left else None

    async def usage(self, user: str) -> Mapping[str, float]:
        """Return the dollars that a user has spent today and this month (UTC), and has reserved."""
        found = {}
        for name, since in (("day_usd", _day()), ("month_usd", _month())):
            found[name] = await self._sum(_COST, user=user, since=since)
        found["reserved_usd"] = await self._sum(_RESERVED, user=user)
        return found

    async def _sum(self, query: str, **parameters: Any) -> float:
        return float((await self._database.rows(query, **parameters))[0]["usd"] or 0.0)


def _budgets(key: ServedKey | None) -> tuple[tuple[float, float], ...]:
    """Return the budgets of a key with the times from which they count."""
    if key is None:
        return ()
    both = ((key.day_usd, _day()), (key.month_usd, _month()))
    return tuple((budget, since) for budget, since in both if budget is not None)


def _day() -> float:
    return (
        datetime.fromtimestamp(time.time(), UTC)
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .timestamp()
    )


def _month() -> float:
    return datetime.fromtimestamp(_day(), UTC).replace(day=1).timestamp()


def _run(row: Row) -> ServedRun:
    outcome = None if row["outcome"] is None else json.loads(row["outcome"])
    return ServedRun(**{**row, "request": json.loads(row["request"]), "outcome": outcome})
