"""Test that the journal gives the same results on SQLite and PostgreSQL, with several processes at once."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.database.sqlite import SqliteStore
from rlm.database.store import Store, Transaction
from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.sandbox.context.writer import ContextFileWriter


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store of each database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "rlm.db")


async def write_run(journal: Journal, name: str, stop: str | None = "finalized", **options: object) -> None:
    async with journal.run(name, f"task of {name}", {}, **options) as log:  # type: ignore[arg-type]
        await log.append("cell", {"stdout": f"text of {name}. " * 1_000})
        if stop is not None:
            await log.append("finished", {"stop_reason": stop, "rounds": 1, "sub_calls": 2, "cost_usd": 0.5})


async def test_a_run_is_kept_event_by_event(store: str) -> None:
    """Events are append-only on both databases, through one code path."""
    odd = "\0 \ud800 🜁 \u2028"
    async with Journal.open(store) as journal, journal.run("r1", odd, {"model": odd}) as log:
        await asyncio.gather(*(log.append("child", {"n": n, "text": odd}) for n in range(20)))
        await log.append("finished", {"stop_reason": "rounds", "rounds": 2, "cost_usd": None})
    async with Journal.open(store) as journal:
        (run,) = await journal.runs()
        events = await journal.events("r1")
        assert (run.task, run.settings, run.state, run.totals.rounds) == (odd, {"model": odd}, "finished", 2)
        assert [event.seq for event in events] == list(range(1, 23))
        assert {event.data["text"] for event in events[1:-1]} == {odd}
        assert await journal.resolve("r") == "r1"
        with pytest.raises(JournalError, match="already"):
            await write_run(journal, "r1")
        await journal.remove("r1")
        assert await journal.runs() == ()


SCRIPT = """
import asyncio, sys
from rlm.journal import Journal
async def main(store, name):
    sys.stdin.readline()
    async with Journal.open(store) as journal:
        async with journal.run(name, "the task", {}) as log:
            for number in range(60):
                await log.append("child", {"number": number, "text": "x" * 500})
            await log.append("finished", {"stop_reason": "finalized"})
asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_make_and_share_one_store(store: str) -> None:
    """Two processes that start at once migrate the store once, and both write to it."""
    children = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, store, f"r{n}"], stdin=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    async with Journal.open(store) as journal:
        for run in await journal.runs():
            assert run.state == "finished"
            assert [event.seq for event in await journal.events(run.run_id)] == list(range(1, 63))
        assert len(await journal.runs()) == 2


def shape(transaction: Transaction) -> dict[str, set[tuple[str, bool]]]:
    """Return the columns of each table, and whether they may be null."""
    if isinstance(transaction._store, SqliteStore):
        query = (
            'SELECT tables.name AS one, columns.name AS two, columns."notnull" AS three '
            "FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns "
            "WHERE tables.type = 'table'"
        )
        found = [(row["one"], row["two"], not row["three"]) for row in transaction.rows(query)]
    else:
        query = (
            "SELECT table_name AS one, column_name AS two, is_nullable AS three "
            "FROM information_schema.columns WHERE table_schema = 'public'"
        )
        found = [(row["one"], row["two"], row["three"] == "YES") for row in transaction.rows(query)]
    return {name: {(two, three) for one, two, three in found if one == name} for name, _, _ in found}


async def test_both_databases_have_the_same_tables(tmp_path: Path, postgres_url: str) -> None:
    async with Journal.open(tmp_path / "rlm.db") as one, Journal.open(postgres_url) as two:
        made = await one._store.read(shape)
        assert made == await two._store.read(shape)
        assert made["journal_version"] == {("version_num", False)}
        assert len(made) == 5


async def test_tables_are_made_completely_or_not_at_all(store: str, monkeypatch) -> None:
    make_tables = Store._make_tables

    def break_off(self: Store, transaction: Transaction) -> None:
        make_tables(self, transaction)
        raise OSError("the machine went away")

    monkeypatch.setattr(Store, "_make_tables", break_off)
    with pytest.raises(JournalError):
        async with Journal.open(store):
            pass
    monkeypatch.undo()
    async with Journal.open(store) as journal:
        await write_run(journal, "r1")


async def test_old_runs_are_pruned(store: str) -> None:
    """Prune removes runs by number and by age, and keeps running ones."""
    async with Journal.open(store) as journal:
        for name in "abcde":
            await write_run(journal, name)
        async with journal.run("f", "t", {}):
            assert await journal.prune(keep=3) == ("a", "b")
            assert await journal.prune(keep=0, older_than=0.0) == ()
            middle = (await journal.get("d")).started_at
            assert await journal.prune(older_than=middle) == ("c",)
            assert await journal.prune(keep=0) == ("d", "e")
            assert [run.run_id for run in await journal.runs()] == ["f"]


async def test_a_store_over_its_cap_loses_its_oldest_finished_runs(store: str) -> None:
    """Prune removes runs until the store fits, and interrupted runs last: they can be resumed."""
    async with Journal.open(store) as journal:
        await write_run(journal, "a", stop=None)
        chance = random.Random(0)  # random bytes, which a database can't compress
        for name in "bcd":
            async with journal.run(name, "t", {}) as log:
                for _ in range(30):
                    await log.append("cell", {"stdout": chance.randbytes(20_000).hex()})
                await log.append("finished", {"stop_reason": "finalized"})
        full = await journal.size()
        assert await journal.prune(most_bytes=full) == ()
        removed = await journal.prune(most_bytes=full // 2)
        assert removed in (("b",), ("b", "c"))
        assert await journal.size() <= full // 2
        assert await journal.prune(most_bytes=0) == (*"bcd"[len(removed) :], "a")


async def test_the_input_is_kept_once_and_goes_with_its_last_run(store: str, tmp_path: Path) -> None:
    """The context is restored byte by byte; removing its runs removes it."""
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("a.txt")
        writer.write("æ" + random.Random(0).randbytes(1_500_000).hex())
        made = writer.finish()
    async with Journal.open(store) as journal:
        await write_run(journal, "r1", input=made.folder)
        size = await journal.size()
        await write_run(journal, "r2", input=made.folder)
        assert await journal.size() < 1.9 * size
        assert await journal.restore_input("r2", tmp_path / "again")
        for file in made.folder.iterdir():
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()
        await journal.remove("r1")
        assert await journal.restore_input("r2", tmp_path / "once more")
        await journal.remove("r2")
        await write_run(journal, "r3", input=None)
        assert not await journal.restore_input("r3", tmp_path / "none")


async def test_an_input_that_holds_a_secret_is_not_kept(tmp_path: Path) -> None:
    """An input whose document holds a key is not stored."""
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document(".env")
        writer.write("KEY=sk-planted-0123456789\n")
        made = writer.finish()
    async with Journal.open(tmp_path / "rlm.db") as journal:
        assert journal.may_keep(made.folder, 1_000)
        assert not journal.may_keep(made.folder, 10)
        journal.redact(["sk-planted-0123456789"])
        assert not journal.may_keep(made.folder, 1_000)


async def test_a_run_is_resumed_by_one_process_alone(store: str) -> None:
    """Events continue after the last one; a second resume at the same time is refused."""
    async with Journal.open(store) as journal:
        await write_run(journal, "r1", stop=None)
        async with journal.resume("r1") as log:
            with pytest.raises(JournalError, match="still running"):
                async with journal.resume("r1"):
                    pass
            assert await log.append("cell", {}) == 4
            await log.append("interrupted", {"stop_reason": "cancelled", "rounds": 7})
        run = await journal.get("r1")
        assert (run.state, run.stop_reason, run.totals.rounds) == ("interrupted", "cancelled", 7)
        both = [journal.resume("r1") for _ in range(2)]
        outcomes = await asyncio.gather(*(one.__aenter__() for one in both), return_exceptions=True)
        refused = [isinstance(outcome, JournalError) for outcome in outcomes]
        assert sorted(refused) == [False, True]
        await both[refused.index(False)].__aexit__(None, None, None)
        kinds = [event.kind for event in await journal.events("r1")]
        assert kinds == ["run_started", "cell", "resumed", "cell", "interrupted", "resumed"]


async def test_a_reply_is_found_by_the_key_of_its_call(store: str) -> None:
    """The newest complete reply of any run is found, but none that was cut off, and none of a removed run."""
    async with Journal.open(store) as journal:
        for name, reply in (("r1", "first"), ("r2", "second")):
            async with journal.run(name, "t", {}) as log:
                await log.append("child", {"key": "k" * 64, "reply": reply, "finish_reason": "stop"})
                await log.append("child", {"key": "k" * 64, "reply": "cu", "finish_reason": "length"})
                assert (await log.find_reply("k" * 64, {}) or {})["reply"] == reply
        await journal.remove("r2")
        async with journal.run("r3", "t", {}) as log:
            assert (await log.find_reply("k" * 64, {}) or {})["reply"] == "first"
            assert await log.find_reply("j" * 64, {}) is None


@pytest.mark.parametrize("address", ["ann:geheim@h/db", "h/db?user=ann&password=geheim&sslmode=require"])
async def test_a_password_is_in_no_message(address: str) -> None:
    async def open_it() -> None:
        async with Journal.open(f"postgresql://{address}"):
            pass

    with pytest.raises(JournalError, match="check its URL") as caught:
        await open_it()
    assert "geheim" not in str(caught.value)
    assert "***" in str(caught.value)


async def test_without_its_driver_a_database_is_named_with_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rlm.database.postgres", raising=False)
    with pytest.raises(JournalError, match=r"needs psycopg; .*\[postgres\]"):
        async with Journal.open("postgresql://h/db"):
            pass
