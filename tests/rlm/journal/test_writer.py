"""Test the thread that writes to a SQLite file: shared commits, failures that stay alone, broken loops."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.journal.database import sqlite
from rlm.journal.database.writer import Writer


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)")
    return connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "numbers.db"


def add(number: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO numbers VALUES (?)", [number])
        return number

    return work


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as database:
        return [number for (number,) in database.execute("SELECT number FROM numbers ORDER BY number")]


async def hold(writer: Writer) -> threading.Event:
    """Keep the thread busy until the event is set, so that work gathers behind."""
    held, free = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        held.set()
        free.wait(60)

    asyncio.ensure_future(writer.run(wait))  # noqa: RUF006 - the writer answers it before it is closed
    await asyncio.to_thread(held.wait, 60)
    return free


async def test_writes_that_wait_together_share_a_commit_in_order(path: Path) -> None:
    writer, ran = Writer(partial(connect, path)), list[str]()
    await writer.run(lambda connection: connection.set_trace_callback(ran.append))
    free = await hold(writer)
    waiting = asyncio.gather(*(writer.commit(add(number)) for number in range(50)))
    await asyncio.sleep(0)
    free.set()
    assert await waiting == list(range(50))
    assert ran.count("COMMIT") == 1
    assert [one for one in ran if one.startswith("INSERT")] == [
        f"INSERT INTO numbers VALUES ({number})" for number in range(50)
    ]
    await writer.close()


async def test_a_write_that_fails_is_undone_alone(path: Path) -> None:
    """Its own earlier statements are undone, too, and those of its neighbours are kept."""
    writer = Writer(partial(connect, path))

    def half(connection: sqlite3.Connection) -> None:
        add(100)(connection)
        add(1)(connection)

    free = await hold(writer)
    works = (add(1), half, add(2), partial(lambda _: 1 // 0), add(3))
    waiting = asyncio.gather(*map(writer.commit, works), return_exceptions=True)
    await asyncio.sleep(0)
    free.set()
    first, failed, second, wrong, third = await waiting
    assert (first, second, third) == (1, 2, 3)
    assert isinstance(failed, sqlite3.IntegrityError)
    assert isinstance(wrong, ZeroDivisionError)
    await writer.close()
    assert numbers(path) == [1, 2, 3]


async def test_a_transaction_that_fails_is_repeated_work_by_work(path: Path) -> None:
    """A work that ends the whole transaction takes no other with it."""
    writer = Writer(partial(connect, path))

    def end(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR ROLLBACK INTO numbers VALUES (1)")

    free = await hold(writer)
    waiting = asyncio.gather(*map(writer.commit, (add(1), add(2), end, add(3))), return_exceptions=True)
    await asyncio.sleep(0)
    free.set()
    outcomes = await waiting
    assert outcomes[:2] == [1, 2]
    assert isinstance(outcomes[2], sqlite3.IntegrityError)
    assert outcomes[3] == 3
    await writer.close()
    assert numbers(path) == [1, 2, 3]


async def test_a_write_is_answered_after_its_commit(path: Path) -> None:
    writer = Writer(partial(connect, path))
    for number in range(20):
        await writer.commit(add(number))
        assert numbers(path)[-1] == number
    await writer.close()


async def test_a_write_whose_caller_was_cancelled_is_committed(path: Path) -> None:
    writer = Writer(partial(connect, path))
    free = await hold(writer)
    writing = asyncio.ensure_future(writer.commit(add(7)))
    await asyncio.sleep(0)
    writing.cancel()
    free.set()
    await writer.commit(add(8))
    await writer.close()
    assert numbers(path) == [7, 8]


async def test_a_file_that_cannot_be_opened_fails_every_work(tmp_path: Path) -> None:
    writer = Writer(partial(connect, tmp_path / "none" / "numbers.db"))
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            await writer.commit(add(1))
    await writer.close()


async def test_event_loops_of_several_threads_may_write(path: Path) -> None:
    """Each is answered in its own loop."""
    writer = Writer(partial(connect, path))

    async def write(first: int) -> list[int]:
        return [await writer.commit(add(number)) for number in range(first, first + 50)]

    both = [asyncio.to_thread(asyncio.run, write(first)) for first in (0, 100)]
    assert await asyncio.gather(*both) == [list(range(50)), list(range(100, 150))]
    await writer.close()
    assert len(numbers(path)) == 100


def writing_threads() -> int:
    return sum(thread.name == "rlm-journal-writer" for thread in threading.enumerate())


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
        writer = journal.database._writer  # type: ignore[attr-defined]

        def limit(connection: sqlite3.Connection) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages + 20}")

        await writer.run(limit)
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
        reading = asyncio.ensure_future(journal.database.read(lambda _: free.wait(60)))
        for number in range(5):
            await log.append("cell", {"number": number})
        assert len(await log.events()) == 6
        assert not reading.done()
        free.set()
        assert await reading


async def test_the_cell_and_the_totals_of_a_round_share_a_transaction(tmp_path: Path) -> None:
    from rlm.results import RunTotals

    ran: list[str] = []
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r1", "t", {}) as log:
        writer = journal.database._writer  # type: ignore[attr-defined]
        await writer.run(lambda connection: connection.set_trace_callback(ran.append))
        await log.append("cell", {"round": 1}, totals=RunTotals(1, 2, 0.5))
        assert [one.split()[0] for one in ran] == ["BEGIN", "INSERT", "SELECT", "UPDATE", "COMMIT"]
        assert (await journal.get("r1")).totals == RunTotals(1, 2, 0.5)


def test_a_journal_in_a_file_imports_no_sqlalchemy(tmp_path: Path) -> None:
    """It would be a third of the start of a process."""
    code = (
        "import asyncio, sys\n"
        "from rlm import RLM, Settings\n"
        "from rlm.journal import Journal\n"
        "from rlm.journal.provider_batches import BatchLedger\n"
        "async def main(store):\n"
        "    async with Journal.open(store) as journal, journal.run('r', 't', {}) as log:\n"
        "        await log.append('finished', {'stop_reason': 'finalized'})\n"
        "    await BatchLedger(store).batches()\n"
        "    await RLM('extractive', settings=Settings(store=store)).run('Who?', 'Acme.')\n"
        "asyncio.run(main(sys.argv[1]))\n"
        "print(sorted({'sqlalchemy', 'alembic', 'greenlet', 'aiosqlite', 'psycopg'} & set(sys.modules)))\n"
    )
    program = [sys.executable, "-c", code, tmp_path / "rlm.db"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    "address", ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:///x.db?mode=ro"]
)
async def test_an_address_that_is_half_understood_is_refused(address: str) -> None:
    with pytest.raises(JournalError, match="can't be read; give a path"):
        async with Journal.open(address):
            pass
