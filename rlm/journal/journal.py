"""One store of runs: start, resume, list, read and remove them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from rlm.database.store import Row, RowConflict, Store, Transaction, one_of
from rlm.errors import JournalError
from rlm.journal import inputs
from rlm.journal.checks import is_record, is_time, parse
from rlm.journal.events import JournalEvent, RunState, RunSummary
from rlm.journal.provider_batches import drop_calls_of
from rlm.journal.redaction import Redaction
from rlm.journal.schema import open_store
from rlm.journal.stored_log import ALL, StoredLog, encode, event_bytes, read_events, read_last_event
from rlm.results import RESUMABLE, RunTotals
from rlm.sandbox.folders import OwnerProcess

__all__ = ["Journal"]

_LISTED = 5
_RUN = "SELECT * FROM runs WHERE run_id = :run_id"
_NAME = "SELECT run_id FROM runs WHERE run_id = :run_id"
_OWNER = "SELECT process FROM runs WHERE run_id = :run_id"
_BEGINS = "run_id LIKE :pattern ESCAPE '/'"
_NEWEST_FIRST = "ORDER BY started_at DESC, run_id DESC"
_INPUT = re.compile(r"[0-9a-f]{64}")
_LATEST = re.compile(r"(?:latest|last)(?:~(\d{1,4}))?")


class Journal:
    """One store. Any number of runs, in any number of processes, may write to it concurrently."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._redaction = Redaction()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, path_or_url: str | Path) -> AsyncIterator[Journal]:
        """Open the store in a file or at a database URL. A missing file is created, with private folders.

        Leaving the context waits for writes in flight. Raises JournalError if the store cannot be opened.
        """
        async with open_store(path_or_url) as store:
            yield cls(store)

    @property
    def name(self) -> str:
        """The store's file, or its URL without a password."""
        return self._store.name

    def redact(self, values: Iterable[str]) -> None:
        """Blank each of `values` (keys, tokens) in every task, settings and event written from now on.

        Values under 8 characters are ignored.
        """
        self._redaction.add(values)

    @contextlib.asynccontextmanager
    async def run(
        self, run_id: str, task: str, settings: Mapping[str, Any], *, input: Path | None = None
    ) -> AsyncIterator[StoredLog]:
        """Start a run and yield its log. The first event is `run_started`, which holds `settings`.

        A run that is left without a `finished` event is marked interrupted. `input` is the context folder to
        store with the run. Raises JournalError if the store has a run of that name.
        """
        log = self._log(run_id, owner := _new_claim())
        name = None if input is None else await asyncio.to_thread(inputs.identify, input)
        try:
            await self._insert_run(run_id, task, settings, name, owner)
            if input is not None and name is not None:
                await inputs.keep(self._store, name, input)
            await log.append("run_started", {"task": task, "settings": settings})
            yield log
        finally:
            await log.close()

    @contextlib.asynccontextmanager
    async def resume(self, run_id: str, *, take_over: bool = False) -> AsyncIterator[StoredLog]:
        """Resume an interrupted run: append `resumed` and yield its log.

        Raises JournalError if the run is not found, still runs, or is being resumed by another process.
        With `take_over` the run is taken from its present owner, whose next append fails.
        """
        await self.get(run_id)
        log = self._log(run_id, owner := _new_claim())
        try:
            await self._claim(run_id, take_over, owner)
            await log.append("resumed", {})
            yield log
        finally:
            await log.close()

    async def restore_input(self, run_id: str, folder: Path) -> bool:
        """Write the stored context of a run to `folder`, which must not exist. Return False if the context
        was not stored."""
        summary = await self.get(run_id)
        return summary.input is not None and await inputs.restore(self._store, summary.input, folder)

    async def size(self) -> int:
        """Return the size of the store in bytes."""
        return await self._store.size()

    def may_keep(self, folder: Path, most: int) -> bool:
        """Return whether a context has at most `most` bytes and holds no secret."""
        return inputs.may_be_kept(folder, most, self._redaction)

    async def runs(self, limit: int | None = 20) -> tuple[RunSummary, ...]:
        """Return the newest runs, newest first; `limit` None returns all. Skips damaged ones."""
        query = f"SELECT * FROM runs {_NEWEST_FIRST} LIMIT :most"  # noqa: S608 - a constant
        rows = await self._store.rows(query, most=ALL if limit is None else limit)
        found: list[RunSummary] = []
        for row in rows:
            with contextlib.suppress(JournalError):  # whoever asks for that run by name is told
                found.append(_summarize(self.name, row))
        return tuple(found)

    async def get(self, run_id: str) -> RunSummary:
        """Return one run by its full name. Raises JournalError if it is not found."""
        found = await self._store.rows(_RUN, run_id=run_id)
        if not found:
            raise self._unknown(run_id)
        return _summarize(self.name, found[0])

    async def holds(self, run_id: str) -> bool:
        """Return whether there is a run of that name."""
        return bool(await self._store.rows(_NAME, run_id=run_id))

    async def unfinished(self, prefix: str) -> tuple[str, ...]:
        """Return the names that begin with `prefix` of runs that are running or can be resumed."""
        listed, parameters = one_of(sorted(RESUMABLE))
        query = (
            f"SELECT run_id FROM runs WHERE {_BEGINS} "  # noqa: S608 - constants
            f"AND NOT (state = 'finished' AND stop_reason NOT IN {listed})"
        )
        rows = await self._store.rows(query, pattern=_pattern(prefix), **parameters)
        return tuple(row["run_id"] for row in rows)

    async def events(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[JournalEvent, ...]:
        """Return the committed events of a run, in order: at most `limit`, those with a `seq` above `after`.
        Raises JournalError if the run is not found."""
        await self.get(run_id)
        return await read_events(self._store, run_id, after, limit)

    async def last_event(self, run_id: str) -> JournalEvent | None:
        """Return the newest committed event of a run. Raises JournalError if it is damaged."""
        return await read_last_event(self._store, run_id)

    async def release(self, run_id: str) -> None:
        """Mark a run as interrupted, whoever its owner is: an owner that still lives can write no more.
        A run that has ended stays as it is. For a caller that knows that the owner is gone, also from another
        machine."""
        ended = {"state": "interrupted", "process": _new_claim()}

        def put(transaction: Transaction) -> None:
            transaction.update("runs", ended, "run_id = :run_id AND state = 'running'", run_id=run_id)

        await self._store.write(put)

    async def resolve(self, prefix: str) -> str:
        """Return the full name of the one run whose name is or starts with `prefix`. `latest` is the run that
        started last, `latest~1` the one before it.

        Raises JournalError if no run matches, or several do; the message lists the candidates.
        """
        if (counted := _LATEST.fullmatch(prefix)) is not None:
            back = int(counted[1] or 0)
            nth = f"SELECT run_id FROM runs {_NEWEST_FIRST} LIMIT 1 OFFSET :back"  # noqa: S608 - a constant
            rows = await self._store.rows(nth, back=back)
            if not rows:
                raise JournalError(f"{self._store.name} has no run {prefix!r}: ask something first")
            return str(rows[0]["run_id"])
        rows = await self._store.rows(_NAME, run_id=prefix)
        if not rows:
            query = f"SELECT run_id FROM runs WHERE {_BEGINS} {_NEWEST_FIRST} LIMIT :most"  # noqa: S608 - constants
            rows = await self._store.rows(query, pattern=_pattern(prefix), most=_LISTED + 1)
        names = [row["run_id"] for row in rows]
        if len(names) == 1:
            return str(names[0])
        if not names:
            raise JournalError(f"no run in {self._store.name} starts with {prefix!r}; `rlm runs` lists them")
        listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        raise JournalError(f"several runs start with {prefix!r}: {listed}; give more of the name")

    async def remove(self, run_id: str) -> None:
        """Delete a run with its events and overwrite their text in the file.

        Raises JournalError if the run is not found or still running.
        """
        found = await self._store.rows(_RUN, run_id=run_id)
        is_running = False
        with contextlib.suppress(JournalError):  # a damaged run can be removed
            is_running = bool(found) and _summarize(self.name, found[0]).state == "running"
        if is_running:
            raise JournalError(f"run {run_id} is still running; stop it first")
        if not found:
            raise self._unknown(run_id)
        await self._delete(run_id)
        await self._store.shrink()

    async def prune(
        self, *, keep: int | None = None, older_than: float | None = None, most_bytes: int | None = None
    ) -> tuple[str, ...]:
        """Remove ended runs and return their names, oldest first.

        `keep` keeps the newest runs; `older_than` (Unix seconds) keeps runs started later. If the store takes
        more than `most_bytes`, runs are removed one by one until it fits. Interrupted runs, which can be
        resumed, are removed last.
        """
        if keep is None and older_than is None:
            # The first look is cheap. Every run begins with it.
            if most_bytes is None or await self._store.size_on_disk() <= most_bytes:
                return ()
            if await self.size() <= most_bytes:
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
                await self._delete(run_id)
        if most_bytes is not None:
            oldest = sorted(ended, key=lambda run: (run.state == "interrupted", run.started_at))
            # The size of a run is cheap to query. The size of the store needs a scan, so it is checked again
            # only when the runs removed so far should be enough.
            excess = await self._store.size() - most_bytes
            for run in oldest:
                if excess <= 0 and (excess := await self._store.size() - most_bytes) <= 0:
                    break
                if run.run_id not in chosen:
                    excess -= await event_bytes(self._store, run.run_id)
                    await self._delete(run.run_id)
                    chosen.append(run.run_id)
        if chosen:
            await self._store.shrink()
        return tuple(chosen)

    def _unknown(self, run_id: str) -> JournalError:
        return JournalError(f"there is no run {run_id!r} in {self._store.name}; `rlm runs` lists them")

    def _log(self, run_id: str, owner: str) -> StoredLog:
        return StoredLog(self._store, self._redaction, run_id=run_id, owner=owner)

    async def _claim(self, run_id: str, take_over: bool, owner: str) -> None:
        """Make this process the owner of the run."""
        (row,) = await self._store.rows(_RUN, run_id=run_id)
        taken = JournalError(f"run {run_id} is still running; stop it first, or wait for it")
        if _summarize(self.name, row).state == "running" and not take_over:
            raise taken
        unchanged, known = "run_id = :run_id", {"run_id": run_id}
        if not take_over:
            # Two processes may resume at once. The second finds another owner than the one it read, and
            # updates no row.
            unchanged += " AND process = :process AND state = :state"
            known |= {"process": row["process"], "state": row["state"]}
        claim = {"state": "running", "process": owner, "stop_reason": None, "finished_at": None}

        def put(transaction: Transaction) -> None:
            if transaction.update("runs", claim, unchanged, **known) == 1:
                return
            # A server that went away may have committed a first attempt: then the claim is ours already.
            if transaction.scalar(_OWNER, run_id=run_id) != owner:
                raise taken

        await self._store.write(put)

    async def _insert_run(
        self, run_id: str, task: str, settings: Mapping[str, Any], input: str | None, owner: str
    ) -> None:
        row = {
            "run_id": run_id,
            "task": encode(self._redaction.blank(task)),
            "state": "running",
            "started_at": time.time(),
            **asdict(RunTotals()),
            "settings": encode(self._redaction.blank(settings)),
            "process": owner,
            "input": input,
        }

        try:
            await self._store.write(lambda transaction: transaction.insert("runs", [row]))
        except RowConflict as error:
            # The server may have gone away just after it committed a first attempt.
            found = await self._store.rows(_OWNER, run_id=run_id)
            if found and found[0]["process"] == owner:
                return
            raise JournalError(f"there is a run {run_id!r} already; give the new one another name") from error

    async def _delete(self, run_id: str) -> None:
        def put(transaction: Transaction) -> None:
            transaction.execute("DELETE FROM events WHERE run_id = :run_id", run_id=run_id)
            drop_calls_of(transaction, run_id)
            transaction.execute("DELETE FROM runs WHERE run_id = :run_id", run_id=run_id)
            inputs.drop_unused(transaction)

        await self._store.write(put)


def _new_claim() -> str:
    """Return an owner: this process and a random token, so that two resumes in one process differ."""
    return encode({**asdict(OwnerProcess.here()), "claim": secrets.token_hex(8)})


def _pattern(prefix: str) -> str:
    """Return the pattern of `_BEGINS` for names that begin with `prefix`."""
    return re.sub(r"[%_/]", r"/\g<0>", prefix) + "%"


def _summarize(store: str, row: Row) -> RunSummary:
    """Return a run by its row. Raises JournalError for a damaged one."""
    try:
        return _read_run(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise JournalError(
            f"run {row['run_id']!s:.64} is damaged in {store} ({error}): "
            f"remove it (rlm runs rm {row['run_id']!s:.64}) and ask again"
        ) from error


def _read_run(row: Row) -> RunSummary:
    task, settings = parse(row["task"]), parse(row["settings"])
    totals = {field.name: row[field.name] for field in fields(RunTotals)}
    times = [row[name] for name in ("started_at", "finished_at") if row[name] is not None]
    for name, is_right in (
        ("task", isinstance(task, str)),
        ("settings", is_record(settings)),
        ("state", row["state"] in get_args(RunState)),
        ("stop_reason", is_record({"reason": row["stop_reason"]})),
        ("totals", is_record(totals)),
        ("time", row["started_at"] is not None and all(map(is_time, times))),
        # Its name is that of a folder, too.
        ("input", row["input"] is None or _INPUT.fullmatch(row["input"])),
    ):
        if not is_right:
            raise ValueError(f"its {name} is unreadable")
    state: RunState = row["state"]
    if state == "running":
        owner = parse(row["process"])
        owner.pop("claim", None)
        if OwnerProcess(**owner).is_gone():
            state = "interrupted"
    return RunSummary(
        run_id=row["run_id"],
        task=task,
        state=state,
        stop_reason=row["stop_reason"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        totals=RunTotals(**totals),
        settings=settings,
        input=row["input"],
    )
