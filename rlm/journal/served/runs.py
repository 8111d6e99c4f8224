"""What was asked of the server, by whom, and what it may cost. The steps of a run are in the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from rlm.journal.journal import Journal
from rlm.journal.served.keys import ServedKey
from rlm.journal.stored_events import encode
from rlm.journal.tables import served_keys, served_runs

__all__ = ["RunStore", "ServedRun", "ServedState"]

ServedState = Literal["queued", "running", "interrupted", "finished", "failed", "cancelled", "deleted"]
OPEN: tuple[ServedState, ...] = ("queued", "running")


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

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(insert(served_runs).values(**row))

        await self._writes.finish(self._database.write(put))

    async def get(self, run_id: str, user: str) -> ServedRun | None:
        """Return a run of that user. A run of somebody else is not there."""
        mine = (served_runs.c.run_id == run_id) & (served_runs.c.user_name == user)
        rows = await self._database.rows(select(served_runs).where(mine, served_runs.c.state != "deleted"))
        return _run(rows[0]) if rows else None

    async def owns(self, journal_id: str, user: str) -> bool:
        """Return whether a run of the journal is one of that user's."""
        mine = (served_runs.c.journal_id == journal_id) & (served_runs.c.user_name == user)
        query = select(served_runs.c.run_id).where(mine, served_runs.c.state != "deleted")
        return bool(await self._database.rows(query))

    async def list(self, user: str, *, limit: int, before: str | None = None) -> tuple[ServedRun, ...]:
        """Return the newest runs of a user, newest first, those that are older than `before` if given."""
        query = select(served_runs).where(served_runs.c.user_name == user, served_runs.c.state != "deleted")
        if before is not None:
            at = select(served_runs.c.created_at).where(
                served_runs.c.run_id == before, served_runs.c.user_name == user
            )
            query = query.where(served_runs.c.created_at < at.scalar_subquery())
        query = query.order_by(served_runs.c.created_at.desc(), served_runs.c.run_id.desc()).limit(limit)
        return tuple(map(_run, await self._database.rows(query)))

    async def open_runs(self) -> tuple[ServedRun, ...]:
        """Return the runs that wait or were running, in the order in which they came."""
        query = select(served_runs).where(served_runs.c.state.in_(OPEN)).order_by(served_runs.c.created_at)
        return tuple(map(_run, await self._database.rows(query)))

    async def find_interrupted(self, user: str, digest: str) -> ServedRun | None:
        """Return the newest interrupted run of a user for the same request."""
        same = (served_runs.c.user_name == user) & (served_runs.c.digest == digest)
        query = select(served_runs).where(same, served_runs.c.state == "interrupted")
        rows = await self._database.rows(query.order_by(served_runs.c.created_at.desc()).limit(1))
        return _run(rows[0]) if rows else None

    async def change(self, run_id: str, **values: Any) -> None:
        """Change columns of a run. `request` and `outcome` are given as JSON-like values."""
        for name in ("request", "outcome"):
            if values.get(name) is not None:
                values[name] = encode(values[name])

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(
                update(served_runs).where(served_runs.c.run_id == run_id).values(**values)
            )

        await self._writes.finish(self._database.write(put))

    async def reserve(self, run_id: str, key: ServedKey | None, user: str, wanted: float) -> float:
        """Reserve what a run may cost, at most `wanted` dollars and what the budgets of its key leave, and
        return it; 0 if nothing is left. What other runs of the user have reserved is not left."""
        granted = 0.0

        async def put(connection: AsyncConnection) -> None:
            nonlocal granted
            # This write makes the reservations of one user wait for each other.
            await connection.execute(
                update(served_keys).where(served_keys.c.user_name == user).values(user_name=user)
            )
            granted = wanted
            for budget, since in _budgets(key):
                used = await connection.scalar(_used(user, since, without=run_id))
                granted = min(granted, max(0.0, budget - float(used or 0.0)))
            await connection.execute(
                update(served_runs).where(served_runs.c.run_id == run_id).values(reserved_usd=granted)
            )

        await self._writes.finish(self._database.write(put))
        return granted

    async def left(self, user: str, key: ServedKey | None) -> float | None:
        """Return the dollars that the budgets of a key leave, without what runs have reserved; None without a
        budget."""
        left = []
        for budget, since in _budgets(key):
            rows = await self._database.rows(_cost(user, since))
            left.append(max(0.0, budget - float(rows[0][0] or 0.0)))
        return min(left) if left else None

    async def usage(self, user: str) -> Mapping[str, float]:
        """Return the dollars that a user has spent today and this month (UTC), and has reserved."""
        found = {}
        for name, since in (("day_usd", _day()), ("month_usd", _month())):
            found[name] = float((await self._database.rows(_cost(user, since)))[0][0] or 0.0)
        held = select(func.sum(served_runs.c.reserved_usd)).where(
            served_runs.c.user_name == user, served_runs.c.state.in_(OPEN)
        )
        found["reserved_usd"] = float((await self._database.rows(held))[0][0] or 0.0)
        return found


def _budgets(key: ServedKey | None) -> tuple[tuple[float, float], ...]:
    """Return the budgets of a key with the times from which they count."""
    if key is None:
        return ()
    both = ((key.day_usd, _day()), (key.month_usd, _month()))
    return tuple((budget, since) for budget, since in both if budget is not None)


def _cost(user: str, since: float) -> Any:
    ended = (served_runs.c.user_name == user) & (served_runs.c.ended_at >= since)
    return select(func.sum(served_runs.c.cost_usd)).where(ended)


def _used(user: str, since: float, *, without: str) -> Any:
    """Return the query for what a user's other runs cost since then, or may still cost."""
    others = (served_runs.c.user_name == user) & (served_runs.c.run_id != without)
    counted = served_runs.c.state.in_(OPEN) | (served_runs.c.ended_at >= since)
    return select(func.sum(served_runs.c.cost_usd + served_runs.c.reserved_usd)).where(others, counted)


def _day() -> float:
    return (
        datetime.fromtimestamp(time.time(), UTC)
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .timestamp()
    )


def _month() -> float:
    return datetime.fromtimestamp(_day(), UTC).replace(day=1).timestamp()


def _run(row: Row[Any]) -> ServedRun:
    values = dict(row._mapping)
    values["request"] = json.loads(row.request)
    values["outcome"] = None if row.outcome is None else json.loads(row.outcome)
    return ServedRun(**values)
