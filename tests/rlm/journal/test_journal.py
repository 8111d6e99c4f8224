"""Test the journal on real stores, with killed processes."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from rlm.errors import JournalError
from rlm.journal import Journal, default_store
from rlm.journal.events import EVENT_KINDS


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rlm" / "rlm.db"


def spawn(script: str, *arguments: object) -> subprocess.Popen[str]:
    head = "import asyncio, sys\nfrom rlm.journal import Journal\nasync def main(store, name):\n"
    body = "".join(f"    {line}\n" for line in script.splitlines())
    return subprocess.Popen(
        [sys.executable, "-c", f"{head}{body}asyncio.run(main(*sys.argv[1:]))", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def one_line(error: pytest.ExceptionInfo[JournalError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


async def write_run(journal: Journal, run_id: str, events: int = 1, stop: str | None = "finalized") -> None:
    async with journal.run(run_id, f"task of {run_id}", {}) as log:
        for number in range(events):
            await log.append("cell", {"number": number})
        if stop is not None:
            await log.append("finished", {"stop_reason": stop})


async def test_runs_are_listed_newest_first(store: Path) -> None:
    """The number of listed runs is limited."""
    async with Journal.open(store) as journal:
        for name in ("b", "c", "a"):
            await write_run(journal, name)
        assert [run.run_id for run in await journal.runs()] == ["a", "c", "b"]
        assert [run.run_id for run in await journal.runs(limit=2)] == ["a", "c"]


def test_the_documents_name_every_kind_of_event() -> None:
    text = (Path(__file__).parents[3] / "docs" / "driver.md").read_text()
    table = text.partition("| event | holds |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == EVENT_KINDS


async def test_a_bad_event_is_refused_before_it_is_written(store: Path) -> None:
    """A caller's mistake raises before anything is written."""
    async with Journal.open(store) as journal:
        async with journal.run("r1", "t", {}) as log:
            with pytest.raises(ValueError, match="is not a kind of event"):
                await log.append("celll", {})
            with pytest.raises(ValueError, match="stop_reason"):
                await log.append("finished", {})
            with pytest.raises(TypeError, match="not JSON serializable"):
                await log.append("cell", {"code": object()})
            await log.append("finished", {"stop_reason": "finalized"})
            with pytest.raises(JournalError, match="is finished"):
                await log.append("cell", {})
        assert [event.kind for event in await journal.events("r1")] == ["run_started", "finished"]
        with pytest.raises(JournalError, match="already"):
            await write_run(journal, "r1")
        assert len(await journal.events("r1")) == 2


async def test_events_of_concurrent_children_keep_one_order(store: Path) -> None:
    """`seq` has no gaps and no duplicates, with several runs and appending tasks at once."""
    async with Journal.open(store) as journal:

        async def write(name: str) -> None:
            async with journal.run(name, "t", {}) as log:
                await asyncio.gather(*(log.append("child", {"n": n}) for n in range(50)))
                await log.append("finished", {"stop_reason": "finalized"})

        await asyncio.gather(*(write(f"r{n}") for n in range(4)))
        for run in await journal.runs():
            events = await journal.events(run.run_id)
            assert [event.seq for event in events] == list(range(1, 53))
            assert sorted(event.data["n"] for event in events[1:-1]) == list(range(50))


async def test_a_cancelled_run_loses_no_event(store: Path) -> None:
    """Cancellation flushes the journal and marks the run as interrupted."""
    async with Journal.open(store) as journal:
        reached = asyncio.Event()

        async def go() -> None:
            async with journal.run("r1", "t", {}) as log:
                await log.append("cell", {"n": 1})
                reached.set()
                await log.append("cell", {"n": 2})
                await asyncio.Event().wait()

        task = asyncio.create_task(go())
        await reached.wait()
        await asyncio.sleep(0)  # into the second append
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with Journal.open(store) as journal:
        (run,) = await journal.runs()
        assert (run.state, run.stop_reason) == ("interrupted", None)
        assert run.finished_at is not None
        assert [event.data.get("n") for event in await journal.events("r1")] == [None, 1, 2]


async def test_a_killed_process_leaves_every_committed_event(store: Path) -> None:
    """After kill -9 the run is listed as interrupted, and before it as running."""
    script = (
        "async with Journal.open(store) as journal:\n"
        "    async with journal.run(name, 'the task', {}) as log:\n"
        "        for number in range(40):\n"
        "            await log.append('cell', {'number': number})\n"
        "        print('ready', flush=True)\n"
        "        sys.stdin.read()\n"
    )
    with spawn(script, store, "r1") as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            async with Journal.open(store) as journal:
                assert (await journal.get("r1")).state == "running"
                with pytest.raises(JournalError, match="still running"):
                    await journal.remove("r1")
        finally:
            child.kill()
    async with Journal.open(store) as journal:
        (run,) = await journal.runs()
        assert (run.state, run.task, run.finished_at) == ("interrupted", "the task", None)
        events = await journal.events("r1")
        assert [event.data.get("number") for event in events] == [None, *range(40)]
        await journal.remove("r1")
        assert await journal.runs() == ()


async def test_a_store_that_is_being_made_by_another_process_is_waited_for(tmp_path: Path) -> None:
    """SQLite does not wait for a lock when it changes the mode of the file."""
    other = sqlite3.connect(tmp_path / "rlm.db", isolation_level=None)
    other.execute("CREATE TABLE something (it)")
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.2, other.commit)
    async with Journal.open(tmp_path / "rlm.db") as journal:
        assert not other.in_transaction
        await write_run(journal, "r1")
    other.close()


async def test_a_run_of_an_earlier_boot_or_a_reused_process_id_is_over(store: Path) -> None:
    """A process id alone proves nothing, and processes of another host cannot be checked."""
    async with Journal.open(store) as journal, journal.run("r1", "t", {}):

        async def state_if(**changed: object) -> str:
            with closing(sqlite3.connect(store)) as database, database:
                (process,) = database.execute("SELECT process FROM runs").fetchone()
                altered = json.dumps({**json.loads(process), **changed})
                database.execute("UPDATE runs SET process = ?", [altered])
            state = (await journal.get("r1")).state
            with closing(sqlite3.connect(store)) as database, database:
                database.execute("UPDATE runs SET process = ?", [process])
            return state

        assert await state_if() == "running"
        assert await state_if(boot="another") == "interrupted"
        assert await state_if(started="1") == "interrupted"
        assert await state_if(pid=2**22 + 1) == "interrupted"
        assert await state_if(host="elsewhere", started="1") == "running"
        assert await state_if(namespace="pid:[1]", started="1") == "running"


async def test_resolve_finds_the_one_run_that_is_meant(store: Path) -> None:
    """A unique prefix names a run; otherwise the error lists the candidates."""
    async with Journal.open(store) as journal:
        for name in ("2026-aa", "2026-ab", "2026-abc", "2025_x"):
            await write_run(journal, name)
        assert await journal.resolve("2026-aa") == "2026-aa"
        assert await journal.resolve("2025") == "2025_x"
        assert await journal.resolve("2026-ab") == "2026-ab"
        with pytest.raises(JournalError) as several:
            await journal.resolve("2026")
        assert "2026-abc, 2026-ab, 2026-aa;" in one_line(several)
        for wrong in ("2024", "2025-", "%", "_"):
            with pytest.raises(JournalError) as none:
                await journal.resolve(wrong)
            assert repr(wrong) in one_line(none)


async def test_a_removed_run_is_gone_from_the_file(store: Path) -> None:
    """`rlm runs rm` overwrites the text of the run and returns its space."""
    async with Journal.open(store) as journal:
        for name in ("r1", "r2"):
            async with journal.run(name, "t", {}) as log:
                for _ in range(20):
                    await log.append("cell", {"stdout": f"private text of {name}. " * 2_000})
    full = store.stat().st_size
    async with Journal.open(store) as journal:
        await journal.remove("r1")
        rest = b"".join(file.read_bytes() for file in store.parent.iterdir())
        assert b"private text of r1" not in rest
        assert b"private text of r2" in rest
        assert len(rest) < 0.7 * full
        assert len(await journal.events("r2")) == 21
        for asked in (journal.events, journal.get, journal.remove):
            with pytest.raises(JournalError, match="no run 'r1'"):
                await asked("r1")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XDG_STATE_HOME": "/x/state", "HOME": "/h"}, "/x/state/rlm/rlm.db"),
        ({"HOME": "/h"}, "/h/.local/state/rlm/rlm.db"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/rlm/rlm.db"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/rlm/rlm.db"),
        ({}, "~/.local/state/rlm/rlm.db"),
    ],
)
def test_the_default_store_is_where_state_belongs(env: dict[str, str], expected: str) -> None:
    assert default_store(env) == Path(expected).expanduser()
