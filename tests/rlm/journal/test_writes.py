"""Test how a store is written: commits, cancelled callers, broken event loops, full and locked disks."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from rlm.database import sqlite
from rlm.database.store import RowConflict, Transaction
from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.results import RunTotals


def count_events(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM events").fetchone()[0])


async def hold(journal: Journal) -> threading.Event:
    """Keep the writing thread busy until the event is set, so that writes gather behind."""
    held, free = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        held.set()
        free.wait(60)

    asyncio.ensure_future(journal._store.write(wait))  # noqa: RUF006 - ended before the store is closed
    await asyncio.to_thread(held.wait, 60)
    return free


async def test_an_event_whose_caller_was_cancelled_is_committed(tmp_path: Path) -> None:
    """Both while it is being written and while it waits for its turn."""
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r1", "t", {}) as log:
        free = await hold(journal)
        writing = [asyncio.ensure_future(log.append("cell", {"n": n})) for n in range(3)]
        await asyncio.sleep(0)
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        free.set()
        assert [event.data.get("n") for event in await log.events()] == [None, 0, 1, 2]


async def test_what_was_begun_is_committed_before_the_store_is_closed(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "rlm.db") as journal:
        opened = journal.run("r1", "t", {})
        log = await opened.__aenter__()
        writing = asyncio.ensure_future(log.append("cell", {"text": "x" * 1_000_000}))
        await asyncio.sleep(0)
        writing.cancel()
    assert count_events(tmp_path / "rlm.db") == 2
    with pytest.raises(JournalError, match="is closed; open it again"):
        await log.append("cell", {})


def writing_threads() -> int:
    return sum(thread.name == "rlm-store-writer_0" for thread in threading.enumerate())


def test_a_loop_that_is_broken_off_leaves_no_thread(tmp_path: Path) -> None:
    """What was begun is committed, and the connection is closed once nothing refers to the journal."""
    before = writing_threads()
    loop = asyncio.new_event_loop()
    opened = Journal.open(tmp_path / "rlm.db")
    journal = loop.run_until_complete(opened.__aenter__())
    running = journal.run("r1", "task", {})
    log = loop.run_until_complete(running.__aenter__())
    writing = loop.create_task(log.append("cell", {"text": "x" * 100_000}))
    loop.run_until_complete(asyncio.sleep(0.01))
    writing.cancel()
    loop.run_until_complete(asyncio.gather(writing, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    del opened, journal, running, log, writing, loop
    gc.collect()
    end = time.monotonic() + 60
    while writing_threads() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert writing_threads() == before


async def test_a_full_disk_is_named_and_later_writes_succeed(tmp_path: Path) -> None:
    """A write that does not fit harms none of its neighbours."""
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r1", "t", {}) as log:

        def limit(transaction: Transaction) -> None:
            pages = transaction.scalar("PRAGMA page_count")
            transaction.rows(f"PRAGMA max_page_count={pages + 20}")

        await journal._store.write(limit)
        with pytest.raises(JournalError, match=r"is full; free some space on its disk"):
            await log.append("cell", {"stdout": "x" * 1_000_000})
        async with journal.run("r2", "t", {}) as other:
            outcomes = await asyncio.gather(
                log.append("cell", {"stdout": "y" * 1_000_000}),
                other.append("cell", {"n": 1}),
                return_exceptions=True,
            )
        assert isinstance(outcomes[0], JournalError)
        assert outcomes[1] == 2
        assert await log.append("cell", {"n": 2}) == 2
        assert [event.data.get("n") for event in await log.events()] == [None, 2]


async def test_a_store_that_is_locked_says_so_and_is_written_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.2)
    store = tmp_path / "rlm.db"
    async with Journal.open(store) as journal, journal.run("r1", "t", {}) as log:
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalError, match="another process has locked it"):
                await log.append("cell", {"n": 1})
            assert len(await log.events()) == 1
            other.execute("ROLLBACK")
        assert await log.append("cell", {"n": 2}) == 2


async def test_a_long_read_delays_no_write(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r1", "t", {}) as log:
        free = threading.Event()
        reading = asyncio.ensure_future(journal._store.read(lambda _: free.wait(60)))
        for number in range(5):
            await log.append("cell", {"number": number})
        assert len(await log.events()) == 6
        assert not reading.done()
        free.set()
        assert await reading


async def test_the_event_and_the_totals_of_a_round_share_a_transaction(tmp_path: Path) -> None:
    """A failure of the second statement takes the first one back."""
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r1", "t", {}) as log:
        await log.append("cell", {"round": 1}, totals=RunTotals(1, 2, 0.5))
        assert (await journal.get("r1")).totals == RunTotals(1, 2, 0.5)
        with pytest.raises(RowConflict):
            await log.append("cell", {"round": 2}, totals=RunTotals(None, 2, 0.5))  # type: ignore[arg-type]
        assert len(await log.events()) == 2


@pytest.mark.parametrize(
    "address", ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:///x.db?mode=ro"]
)
async def test_an_address_that_is_half_understood_is_refused(address: str) -> None:
    with pytest.raises(JournalError, match="can't be read; give a path"):
        async with Journal.open(address):
            pass
