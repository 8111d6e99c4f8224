"""The journal itself: runs and their events, appended, listed, read and removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from rlm.errors import JournalError
from rlm.journal import inputs
from rlm.journal.database import Database
from rlm.journal.events import EVENT_KINDS, EventKind, JournalEvent, RunState, RunSummary
from rlm.journal.location import store_url
from rlm.journal.redaction import Redaction
from rlm.journal.tables import events, runs
from rlm.journal.writes import PendingEvent, WriteQueue
from rlm.results import RESUMABLE
from rlm.sandbox import OwnerProcess

__all__ = ["Journal", "RunLog"]

_LISTED = 5
_CONFIRMED_SECONDS = 0.25
"""How long a run that was just seen to be ours counts as ours: the children of a batch do not all ask."""
_CROWDED_SECONDS = 0.02
_GATHERED_SECONDS = 0.005
"""Where several events were written together so short a time ago, a child's waits a little for others: it
is one of many, and a transaction takes longer than all the rest of a write."""
_LAST = frozenset({"finished", "interrupted"})


class RunLog:
    """The open end of one run's events. Appending is in order, whoever calls; what was appended is
    committed, and stays so if the process is killed."""

    within = ""
    """Which sub-RLM's part this is; "" is the whole run's."""

    def __init__(self, journal: Journal, run_id: str, owner: str, *, after: int = 0) -> None:
        self.run_id = run_id
        self._owner = owner
        self._journal = journal
        self._seq = after
        self._order = asyncio.Lock()
        self._waiting: list[PendingEvent] = []
        self._next: asyncio.Task[None] | None = None
        self._finished = False
        self._confirmed = -math.inf
        self._crowded = -math.inf

    @property
    def finished(self) -> bool:
        """Whether the `finished` event is written."""
        return self._finished

    async def append(self, kind: EventKind, payload: Mapping[str, Any]) -> int:
        """Write one event and return its `seq`, from 1.

        `payload` is JSON-safe (else TypeError). That of `finished` must say `stop_reason` and may say
        `rounds`, `sub_calls` and `cost_usd`, which become the run's; nothing can be appended after it. So may
        that of `interrupted`, after which the run may be resumed. A `key` in it is what the call can be found
        by (`remembered`).
        A caller that is cancelled meanwhile does not undo the event. Raises JournalError.
        """
        if kind not in EVENT_KINDS:
            raise ValueError(f"{kind!r} is no kind of event; use one of {', '.join(sorted(EVENT_KINDS))}")
        if kind in _LAST and "stop_reason" not in payload:
            raise ValueError(f"a {kind} event must say its stop_reason")
        data = _encoded(payload)
        if self._journal._redaction.may_occur_in(data):
            payload = self._journal._redaction.blank(payload)
            data = _encoded(payload)
        waiting = PendingEvent(kind, payload, data, time.time())
        self._waiting.append(waiting)
        # Whatever comes while others are being written goes in the next transaction, together.
        if self._next is None:
            crowded = kind == "child" and time.monotonic() - self._crowded < _CROWDED_SECONDS
            self._next = self._journal._writes.begin(
                self._write_waiting(_GATHERED_SECONDS if crowded else 0.0)
            )
        await asyncio.shield(self._next)
        if waiting.fault is not None:
            raise waiting.fault
        return waiting.seq

    def redacted(self, value: Any) -> Any:
        """A JSON-like value as this log would keep it: secrets blanked."""
        return self._journal._redaction.blank(value)

    async def events(self) -> tuple[JournalEvent, ...]:
        """All that was appended to this run so far, in order; also what is still being written because its
        caller was cancelled."""
        await self._journal._writes.done()
        return await self._journal.events(self.run_id)

    async def remembered(self, key: str) -> Mapping[str, Any] | None:
        """What a child of any run in the store answered to the call `key`, last and in full; None when none
        did."""
        return await self._journal._remembered(key)

    async def check_mine(self) -> None:
        """Raises JournalError when the run was taken over (`Journal.resume`) or removed: before money is
        spent on what could not be kept. What was so a moment ago is not looked at again."""
        if time.monotonic() - self._confirmed < _CONFIRMED_SECONDS:
            return
        query = select(runs.c.process).where(runs.c.run_id == self.run_id)
        rows = await self._journal._database.rows(query)
        self._refuse_if_lost(rows[0].process if rows else None)
        self._confirmed = time.monotonic()

    async def tally(self, *, rounds: int, sub_calls: int, cost_usd: float | None) -> None:
        """Tell the list of runs how far this one is: totals so far."""
        await self._journal._writes.finish(
            self._update(rounds=rounds, sub_calls=sub_calls, cost_usd=cost_usd)
        )

    async def _write_waiting(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)
        async with self._order:
            batch, self._waiting, self._next = self._waiting, [], None
            await self._write(batch)

    async def _write(self, batch: Sequence[PendingEvent]) -> None:
        """Commit these events together, or tell each why not."""
        rows: list[dict[str, Any]] = []
        for waiting in batch:
            if self._finished:
                waiting.fault = JournalError(f"run {self.run_id} is finished; start a new run")
                continue
            waiting.seq = self._seq + len(rows) + 1
            rows.append(waiting.row(self.run_id))
            self._finished = waiting.kind == "finished"
        written = [waiting for waiting in batch if waiting.fault is None]
        if not rows:
            return

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(insert(events), rows)
            await self._claimed(connection)
            for waiting in written:
                if waiting.kind in _LAST:
                    changed = update(runs).where(runs.c.run_id == self.run_id)
                    await connection.execute(changed.values(**waiting.end()))

        fault: JournalError
        try:
            try:
                await self._journal._database.write(put)
            except IntegrityError:
                # The server may have gone away just after it had committed a first attempt.
                if not await self._has(rows):
                    raise
        except IntegrityError:
            fault = self._lost()
        except JournalError as error:
            fault = error
        else:
            self._seq += len(rows)
            self._confirmed = time.monotonic()
            if len(rows) > 1:
                self._crowded = self._confirmed
            return
        self._finished = False
        self._confirmed = -math.inf
        for waiting in written:
            waiting.fault = fault

    async def _has(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the store holds just these events."""
        mine = (events.c.run_id == self.run_id) & (events.c.seq >= rows[0]["seq"])
        found = await self._journal._database.rows(select(events).where(mine).order_by(events.c.seq))
        return [dict(row._mapping) for row in found] == list(rows)

    async def _claimed(self, connection: AsyncConnection) -> None:
        """Hold on to the run until the end of the transaction. Raises JournalError when another process has
        taken it: whoever comes with a claim waits for this write, and sees it."""
        query = select(runs.c.process).where(runs.c.run_id == self.run_id).with_for_update(read=True)
        self._refuse_if_lost(await connection.scalar(query))

    def _refuse_if_lost(self, owner: str | None) -> None:
        if owner != self._owner:
            raise self._lost()

    def _lost(self) -> JournalError:
        return JournalError(
            f"run {self.run_id} was removed or is written by another process; start a new run"
        )

    async def _update(self, **values: Any) -> None:
        """Change the run's own row, as long as the run is ours."""
        mine = (runs.c.run_id == self.run_id) & (runs.c.process == self._owner)

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(update(runs).where(mine).values(**values))

        await self._journal._database.write(put)


class Journal:
    """One store. Any number of runs, in any number of processes, may write to it at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._redaction = Redaction()
        self._writes = WriteQueue()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, path_or_url: str | Path) -> AsyncIterator[Journal]:
        """The store in a file (made, with private folders, if missing) or at a database URL. Leaving waits
        for what is being written. Raises JournalError, one line with the remedy, if it can't be had."""
        database = Database(store_url(path_or_url))
        await database.open()
        journal = cls(database)
        try:
            yield journal
        finally:
            await journal._close()

    def redact(self, values: Iterable[str]) -> None:
        """Never write any of `values` (keys, tokens): each is blanked wherever it occurs in a task,
        settings or an event. Values under 8 characters are ignored."""
        self._redaction.add(values)

    @contextlib.asynccontextmanager
    async def run(
        self, run_id: str, task: str, settings: Mapping[str, Any], *, input: Path | None = None
    ) -> AsyncIterator[RunLog]:
        """A new run, with `run_started` (holding `settings`) as its first event. Left without a `finished`
        event it is marked interrupted. `input` is the context's folder, to be kept with it. Raises
        JournalError if there is a run of that name already."""
        log = RunLog(self, run_id, owner := _process())
        name = None if input is None else await asyncio.to_thread(inputs.identify, input)
        await self._writes.finish(self._insert_run(run_id, task, settings, name, owner))
        try:
            if input is not None and name is not None:
                await self._writes.finish(inputs.keep(self._database, name, input))
            await log.append("run_started", {"task": task, "settings": settings})
            yield log
        finally:
            await self._left(log)

    @contextlib.asynccontextmanager
    async def resume(self, run_id: str, *, take_over: bool = False) -> AsyncIterator[RunLog]:
        """A run that was left, to be gone on with: `resumed` is appended to it. Raises JournalError if it is
        not here, still runs, or is being resumed by another process. `take_over` takes it from whoever has
        it: the next event that one appends fails."""
        await self.get(run_id)
        await self._writes.finish(self._claim(run_id, take_over, owner := _process()))
        found = await self.events(run_id)
        log = RunLog(self, run_id, owner, after=found[-1].seq if found else 0)
        try:
            await log.append("resumed", {})
            yield log
        finally:
            await self._left(log)

    async def restore_input(self, run_id: str, folder: Path) -> bool:
        """Make the context of a run anew in `folder`, which must not exist; False when it was not kept."""
        summary = await self.get(run_id)
        return summary.input is not None and await inputs.restore(self._database, summary.input, folder)

    async def size(self) -> int:
        """Bytes that the store takes."""
        return await self._database.size()

    def may_keep(self, folder: Path, most: int) -> bool:
        """Whether a context is small enough, of at most `most` bytes, and free of secrets."""
        return inputs.may_be_kept(folder, most, self._redaction)

    async def runs(self, limit: int | None = 20) -> tuple[RunSummary, ...]:
        """The newest runs, newest first, at most `limit`; None is all."""
        query = select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(limit)
        return tuple(map(_summary, await self._database.rows(query)))

    async def get(self, run_id: str) -> RunSummary:
        """One run, by its full name. Raises JournalError if it is not here."""
        found = await self._database.rows(select(runs).where(runs.c.run_id == run_id))
        if not found:
            raise JournalError(
                f"there is no run {run_id!r} in {self._database.name}; list the runs to see their names"
            )
        return _summary(found[0])

    async def holds(self, run_id: str) -> bool:
        """Whether there is a run of that name."""
        return bool(await self._database.rows(select(runs.c.run_id).where(runs.c.run_id == run_id)))

    async def unfinished(self, prefix: str) -> tuple[str, ...]:
        """The names, each beginning with `prefix`, of runs that can be gone on with, or still run."""
        ended = (runs.c.state == "finished") & runs.c.stop_reason.not_in(RESUMABLE)
        query = select(runs.c.run_id).where(runs.c.run_id.startswith(prefix, autoescape=True), ~ended)
        return tuple(row.run_id for row in await self._database.rows(query))

    async def events(self, run_id: str) -> tuple[JournalEvent, ...]:
        """Every event of a run committed so far, in order. Raises JournalError if the run is not here."""
        await self.get(run_id)
        query = select(events).where(events.c.run_id == run_id).order_by(events.c.seq)
        return tuple(map(self._event, await self._database.rows(query)))

    async def resolve(self, prefix: str) -> str:
        """The full name of the one run whose name is `prefix` or starts with it. Raises JournalError
        listing the candidates when several do, or none does."""
        query = (
            select(runs.c.run_id)
            .where(runs.c.run_id.startswith(prefix, autoescape=True))
            .order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
            .limit(_LISTED + 1)
        )
        exact = await self._database.rows(select(runs.c.run_id).where(runs.c.run_id == prefix))
        names = [row.run_id for row in exact or await self._database.rows(query)]
        if len(names) == 1:
            return str(names[0])
        if not names:
            raise JournalError(
                f"no run in {self._database.name} starts with {prefix!r}; list the runs to see their names"
            )
        listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        raise JournalError(f"several runs start with {prefix!r}: {listed}; give more of the name")

    async def remove(self, run_id: str) -> None:
        """Delete a run and its events, and overwrite their text in the file. Raises JournalError if it is
        not here or still running."""
        summary = await self.get(run_id)
        if summary.state == "running":
            raise JournalError(f"run {run_id} is still running; stop it first")
        await self._writes.finish(self._delete(run_id))
        await self._writes.finish(self._database.shrink())

    async def prune(
        self, *, keep: int | None = None, older_than: float | None = None, most_bytes: int | None = None
    ) -> tuple[str, ...]:
        """Remove runs that have ended and give their names, oldest first: all but the `keep` newest of them,
        those begun before `older_than` (Unix seconds), or, once the store takes more than `most_bytes`, one
        after another until it does not, interrupted ones (which can be resumed) last."""
        if keep is None and older_than is None and (most_bytes is None or await self.size() <= most_bytes):
            return ()
        ended = [run for run in await self.runs(limit=None) if run.state != "running"]
        chosen: list[str] = []
        if keep is not None or older_than is not None:
            chosen = [
                run.run_id
                for place, run in enumerate(ended)
                if (keep is None or place >= keep) and (older_than is None or run.started_at < older_than)
            ][::-1]
            for run_id in chosen:
                await self._writes.finish(self._delete(run_id))
        if most_bytes is not None:
            oldest = sorted(ended, key=lambda run: (run.state == "interrupted", run.started_at))
            # What a run takes is soon known, the whole only by looking through it.
            excess = await self._database.size() - most_bytes
            for run in oldest:
                if excess <= 0 and (excess := await self._database.size() - most_bytes) <= 0:
                    break
                if run.run_id not in chosen:
                    excess -= await self._bytes(run.run_id)
                    await self._writes.finish(self._delete(run.run_id))
                    chosen.append(run.run_id)
        if chosen:
            await self._writes.finish(self._database.shrink())
        return tuple(chosen)

    def _event(self, row: Row[Any]) -> JournalEvent:
        try:
            data = json.loads(row.data)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise JournalError(
                f"event {row.seq} of run {row.run_id} is damaged in {self._database.name}: "
                f"remove the run (rlm runs rm {row.run_id}) and ask again"
            )
        return JournalEvent(row.run_id, row.seq, row.at, row.kind, data)

    async def _bytes(self, run_id: str) -> int:
        """What the events of a run take, about."""
        query = select(func.sum(func.length(events.c.data)).label("bytes"))
        return int((await self._database.rows(query.where(events.c.run_id == run_id)))[0].bytes or 0)

    async def _remembered(self, key: str) -> Mapping[str, Any] | None:
        query = select(events.c.data).where(events.c.key == key, events.c.kind == "child")
        for row in await self._database.rows(query.order_by(events.c.at.desc())):
            data: Mapping[str, Any] = json.loads(row.data)
            if data.get("finish_reason") == "stop" and data.get("reply"):
                return data
        return None

    async def _claim(self, run_id: str, take_over: bool, owner: str) -> None:
        """Make this process the one that the run belongs to."""
        query = select(runs).where(runs.c.run_id == run_id)
        (row,) = await self._database.rows(query)
        taken = JournalError(f"run {run_id} is still running; stop it first, or wait for it")
        if _summary(row).state == "running" and not take_over:
            raise taken
        there = runs.c.run_id == run_id
        if not take_over:
            # Whoever comes second finds another owner than the one that was looked at.
            there &= (runs.c.process == row.process) & (runs.c.state == row.state)
        mine = (
            update(runs)
            .where(there)
            .values(state="running", process=owner, stop_reason=None, finished_at=None)
        )
        now = select(runs.c.process).where(runs.c.run_id == run_id)

        async def put(connection: AsyncConnection) -> None:
            if (await connection.execute(mine)).rowcount != 1 and await connection.scalar(now) != owner:
                raise taken

        await self._database.write(put)

    async def _left(self, log: RunLog) -> None:
        if not log.finished:
            await self._writes.finish(log._update(state="interrupted", finished_at=time.time()))

    async def _insert_run(
        self, run_id: str, task: str, settings: Mapping[str, Any], input: str | None, owner: str
    ) -> None:
        row = {
            "run_id": run_id,
            "task": _encoded(self._redaction.blank(task)),
            "state": "running",
            "started_at": time.time(),
            "rounds": 0,
            "sub_calls": 0,
            "settings": _encoded(self._redaction.blank(settings)),
            "process": owner,
            "input": input,
        }

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(insert(runs).values(**row))

        try:
            await self._database.write(put)
        except IntegrityError as error:
            # The server may have gone away just after it had committed a first attempt.
            found = await self._database.rows(select(runs.c.process).where(runs.c.run_id == run_id))
            if found and found[0].process == owner:
                return
            raise JournalError(f"there is a run {run_id!r} already; give the new one another name") from error

    async def _delete(self, run_id: str) -> None:
        async def put(connection: AsyncConnection) -> None:
            await connection.execute(delete(events).where(events.c.run_id == run_id))
            await connection.execute(delete(runs).where(runs.c.run_id == run_id))
            await inputs.drop_unused(connection)

        await self._database.write(put)

    async def _close(self) -> None:
        try:
            await self._writes.done()
        finally:
            await self._database.close()


def _process() -> str:
    """This process, and this use of it: two resumes within one are two owners."""
    return _encoded({**asdict(OwnerProcess.here()), "claim": secrets.token_hex(8)})


def _encoded(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _summary(row: Row[Any]) -> RunSummary:
    state: RunState = row.state
    if state == "running":
        owner = json.loads(row.process)
        owner.pop("claim", None)
        if OwnerProcess(**owner).is_gone():
            state = "interrupted"
    return RunSummary(
        run_id=row.run_id,
        task=json.loads(row.task),
        state=state,
        stop_reason=row.stop_reason,
        started_at=row.started_at,
        finished_at=row.finished_at,
        rounds=row.rounds,
        sub_calls=row.sub_calls,
        cost_usd=row.cost_usd,
        settings=json.loads(row.settings),
        input=row.input,
    )
