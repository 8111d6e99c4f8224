"""Test the journal while its server goes away, and while a run is taken over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rlm.database import store as stores
from rlm.database.store import Store
from rlm.errors import JournalError
from rlm.journal import Journal, stored_log
from rlm.results import RunTotals


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store of each database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "rlm.db")


async def test_who_lost_a_run_writes_nothing_more_however_fast_it_writes(store: str) -> None:
    """The run of a worker that lost its connection is taken over while it appends events."""
    refused: list[JournalError] = []

    async def write(log: Any, name: str, count: int) -> None:
        for number in range(count):
            await log.append("child", {"from": name, "number": number})

    async def refused_to(writing: Awaitable[Any]) -> None:
        with pytest.raises(JournalError, match="is written by another process") as caught:
            await writing
        refused.append(caught.value)

    async with Journal.open(store) as old, Journal.open(store) as new, old.run("r", "task", {}) as lost:
        writing = [asyncio.ensure_future(write(lost, "old", 10_000)) for _ in range(4)]
        await asyncio.sleep(0.05)
        async with new.resume("r", take_over=True) as mine:
            seen = len(await mine.events())
            await asyncio.gather(*(write(mine, "new", 20) for _ in range(4)))
            for task in writing:
                await refused_to(task)
            await refused_to(lost.check_ownership())
            await mine.check_ownership()
            await mine.append("finished", {"stop_reason": "finalized", "rounds": 3})
        await refused_to(lost.append("finished", {"stop_reason": "rounds"}, totals=RunTotals(99, 99, 99.0)))
        (run,) = await new.runs()
        events = await new.events("r")
    assert len(refused) == 6
    assert (run.state, run.stop_reason, run.totals.rounds) == ("finished", "finalized", 3)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.data["from"] for event in events[seen:-1]} == {"new"}
    assert len(events) == seen + 80 + 1


async def test_leaving_a_run_that_was_lost_does_not_mark_it_as_left(store: str) -> None:
    """Otherwise it could be pruned, or taken over again, while its new owner works."""
    async with Journal.open(store) as old, Journal.open(store) as new:
        async with old.run("r", "task", {}):
            resumed = new.resume("r", take_over=True)
            await resumed.__aenter__()
        assert (await new.get("r")).state == "running"
        await resumed.__aexit__(None, None, None)
        assert (await new.get("r")).state == "interrupted"


async def test_a_server_that_is_restarted_loses_no_event_and_gets_none_twice(
    restartable_postgres: tuple[str, Callable[[float], Future[None]]],
) -> None:
    url, restart = restartable_postgres

    async def write(journal: Journal, name: str) -> None:
        async with journal.run(name, "task", {}) as log:
            for number in range(150):
                await log.append("child", {"number": number})
                await asyncio.sleep(0.01)
            await log.append("finished", {"stop_reason": "finalized"})

    async with Journal.open(url) as journal, Journal.open(url) as other:
        runs = [write(journal if n % 2 else other, f"r{n}") for n in range(6)]
        writing = asyncio.gather(*runs)
        for _ in range(2):
            await asyncio.sleep(0.3)
            await asyncio.wrap_future(restart(0.3))
        await writing
        for n in range(6):
            events = await journal.events(f"r{n}")
            assert [event.data.get("number") for event in events[1:-1]] == list(range(150))


@asynccontextmanager
async def cut_after_commit(url: str, folder: Path) -> AsyncIterator[tuple[str, list[int]]]:
    """A proxy that forwards every third commit to the server of `url` and then cuts the connection.

    Its client cannot know whether the commit happened. Yields the URL of the proxy, and counts the cuts.
    """
    facts = conninfo_to_dict(url)
    server = Path(str(facts["host"])) / f".s.PGSQL.{facts.get('port', 5432)}"
    commits = [0]
    cuts: list[int] = []

    async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(str(server))
        cutting = False

        async def back() -> None:
            while data := await inner_reader.read(65_536):
                if cutting:
                    break
                writer.write(data)
            writer.close()

        answers = asyncio.ensure_future(back())
        while data := await reader.read(65_536):
            if b"COMMIT" in data:
                commits[0] += 1
                cutting = commits[0] % 3 == 0
            inner_writer.write(data)
            if cutting:
                cuts.append(commits[0])
                await answers
                break
        inner_writer.close()
        await asyncio.gather(answers, return_exceptions=True)

    proxy = await asyncio.start_unix_server(serve_client, str(folder / ".s.PGSQL.5432"))
    async with proxy:
        where = urlencode({"host": folder, "port": 5432, "user": facts.get("user", "")})
        yield f"postgresql:///{facts['dbname']}?{where}", cuts


async def test_a_commit_whose_answer_was_lost_is_not_made_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_SERVER_PAUSE_SECONDS", 0.02)
    if not str(conninfo_to_dict(postgres_url).get("host", "")).startswith("/"):
        pytest.skip("the server at RLM_TEST_PG_URL is not on a socket of this machine")
    folder = Path(f"/tmp/rlm-cut-{os.getpid()}")
    folder.mkdir()
    try:
        async with cut_after_commit(postgres_url, folder) as (url, cuts):
            async with Journal.open(url) as journal:
                for n in range(4):
                    async with journal.run(f"r{n}", "task", {}) as log:
                        for number in range(10):
                            await log.append("child", {"number": number})
                async with journal.resume("r1", take_over=True) as log:
                    await log.append("finished", {"stop_reason": "finalized"})
            assert len(cuts) > 10
        async with Journal.open(postgres_url) as journal:
            for n in range(4):
                numbers = [event.data.get("number") for event in await journal.events(f"r{n}")]
                assert numbers == [None, *range(10), *([None, None] if n == 1 else [])]
            assert (await journal.get("r1")).state == "finished"
    finally:
        (folder / ".s.PGSQL.5432").unlink(missing_ok=True)
        folder.rmdir()


async def test_a_server_that_stays_away_is_named_with_what_to_do(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_SERVER_WAIT_SECONDS", 1.0)
    name = conninfo_to_dict(postgres_url)["dbname"]
    async with Journal.open(postgres_url) as journal:
        async with journal.run("r", "task", {}) as log:
            with psycopg.connect(postgres_url, autocommit=True, dbname="postgres") as server:
                server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
                server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
                )
                with pytest.raises(
                    JournalError, match=r"can't be written: .*check its URL.*that its server runs"
                ):
                    await log.append("child", {"number": 1})
                server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
            await log.append("child", {"number": 2})
        assert [event.data.get("number") for event in await journal.events("r")] == [None, 2]


async def test_a_fresh_check_of_the_owner_is_not_repeated_yet_the_next_write_is_refused(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The children of a batch do not all check the owner. After the run is lost, the first write is
    refused, and so is the next check."""
    monkeypatch.setattr(stored_log, "_CONFIRMED_SECONDS", 3_600.0)
    async with Journal.open(store) as old, Journal.open(store) as new, old.run("r", "task", {}) as lost:
        asked: list[str] = []
        rows = Store.rows

        async def noted(database: Store, sql: str, **parameters: Any) -> Any:
            asked.append(sql)
            return await rows(database, sql, **parameters)

        monkeypatch.setattr(Store, "rows", noted)
        await asyncio.gather(*(lost.check_ownership() for _ in range(50)))
        assert asked == []
        async with new.resume("r", take_over=True):
            await lost.check_ownership()
            with pytest.raises(JournalError, match="is written by another process"):
                await lost.append("child", {})
            with pytest.raises(JournalError, match="is written by another process"):
                await lost.check_ownership()
            assert [event.kind for event in await new.events("r")] == ["run_started", "resumed"]


async def test_an_old_check_of_the_owner_is_repeated_before_money_is_spent(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_log, "_CONFIRMED_SECONDS", 0.0)
    async with Journal.open(store) as old, Journal.open(store) as new, old.run("r", "task", {}) as lost:
        await lost.check_ownership()
        async with new.resume("r", take_over=True):
            with pytest.raises(JournalError, match="is written by another process"):
                await lost.check_ownership()
