"""Test stores that are damaged or a stranger's: each ends in one line, and nothing of the user is removed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.errors import JournalError, RLMError, UsageError
from rlm.journal import Journal
from rlm.journal.checks import is_event
from rlm.replay import replay
from rlm.runs.stored_run import StoredRun
from rlm.testing import ScriptedModel
from rlm.viewer import RunViews
from tests.rlm.documents.sources.test_download import PAGE, Site

DEEP = "[" * 5_000 + "]" * 5_000


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, sandbox_level: int) -> Path:
    """Return a store with one run, which has a child and an answer."""
    store = tmp_path_factory.mktemp("ended") / "rlm.db"
    model = ScriptedModel.of(
        root=[
            "```repl\nword = sub_query('Which?', (0, 20))\n```",
            "```repl\nfinalize(str(word), evidence=[(0, 8)])\n```",
        ],
        child="one",
    )

    async def run() -> None:
        rlm = RLM(model, settings=Settings(store=store, strategy="rlm", sandbox=sandbox_level))
        await rlm.run("Which?", "Line one, line two.\n" * 3)
        await rlm.aclose()

    asyncio.run(run())
    return store


@pytest.fixture
def site() -> Iterator[Site]:
    one = Site()
    yield one
    one.server.shutdown()
    one.server.server_close()


class Copy:
    """A store that can be damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = self.ask("SELECT run_id FROM runs")[0][0]

    def ask(self, sql: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as database, database:
            return database.execute(sql, values).fetchall()

    def change_event(self, kind: str, **fields: object) -> None:
        (data,) = self.ask("SELECT data FROM events WHERE kind = ? ORDER BY seq LIMIT 1", kind)[0]
        self.ask(
            "UPDATE events SET data = ? WHERE kind = ?", json.dumps({**json.loads(data), **fields}), kind
        )

    def change_settings(self, **fields: object) -> None:
        (data,) = self.ask("SELECT settings FROM runs")[0]
        self.ask("UPDATE runs SET settings = ?", json.dumps({**json.loads(data), **fields}))


@pytest.fixture
def store(ended: Path, tmp_path: Path) -> Copy:
    return Copy(Path(shutil.copy(ended, tmp_path / "copy.db")))


ROWS: dict[str, Callable[[Copy], object]] = {
    "a deep task": lambda store: store.ask("UPDATE runs SET task = ?", DEEP),
    "a task that is no JSON": lambda store: store.ask("UPDATE runs SET task = 'x'"),
    "a task that is a list": lambda store: store.ask("UPDATE runs SET task = '[1]'"),
    "deep settings": lambda store: store.ask("UPDATE runs SET settings = ?", f'{{"a":{DEEP}}}'),
    "settings that are a list": lambda store: store.ask("UPDATE runs SET settings = '[]'"),
    "a far time": lambda store: store.ask("UPDATE runs SET started_at = 1e300"),
    "a time that is a text": lambda store: store.ask("UPDATE runs SET started_at = 'x'"),
    "rounds that are a text": lambda store: store.ask("UPDATE runs SET rounds = 'x'"),
    "an unknown state": lambda store: store.ask("UPDATE runs SET state = 'x'"),
    "an owner that is a list": lambda store: store.ask("UPDATE runs SET state = 'running', process = '[]'"),
    "an input that is a path": lambda store: store.ask("UPDATE runs SET input = '../../victim'"),
}
EVENTS: dict[str, Callable[[Copy], object]] = {
    "a deep cell": lambda store: store.ask(
        "UPDATE events SET data = ? WHERE seq = 4", f'{{"result":{DEEP}}}'
    ),
    "bytes": lambda store: store.ask("UPDATE events SET data = x'00ff'"),
    "an unknown kind": lambda store: store.ask("UPDATE events SET kind = 'nonsense' WHERE seq = 2"),
    "far times": lambda store: store.ask("UPDATE events SET at = 1e300"),
    "a cell of wrong types": lambda store: store.change_event("cell", round="x", code=3),
    "a report that is a number": lambda store: store.change_event(
        "cell", result={"status": "ok", "report": 7}
    ),
    "a child of wrong types": lambda store: store.change_event("child", usage=3, spans="x"),
    "an end of wrong types": lambda store: store.change_event("finished", stop_reason=7),
}
FACTS: dict[str, Callable[[Copy], object]] = {
    "limits that are a number": lambda store: store.change_settings(limits=3),
    "limits of wrong types": lambda store: store.change_settings(limits={"seconds": "x"}),
    "windows that are a text": lambda store: store.change_settings(windows="x"),
    "a root of wrong types": lambda store: store.change_settings(root={"output_limit": "x"}),
    "sources that are numbers": lambda store: store.change_settings(sources=[1]),
    "an unknown stop reason": lambda store: store.change_event("finished", stop_reason="x"),
    "an end without its fields": lambda store: store.ask(
        "UPDATE events SET data = '{}' WHERE kind = 'finished'"
    ),
}


def one_line(caught: pytest.ExceptionInfo[RLMError]) -> bool:
    return "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("damage", ROWS)
async def test_a_damaged_run_is_refused_alone_and_can_be_removed(store: Copy, damage: str) -> None:
    ROWS[damage](store)
    async with Journal.open(store.path) as journal:
        async with journal.run("good", "q", {}) as log:
            await log.append("finished", {"stop_reason": "finalized"})
        assert [run.run_id for run in await journal.runs()] == ["good"]
        with pytest.raises(JournalError, match="damaged") as caught:
            await journal.events(store.run_id)
        assert one_line(caught)
        await journal.remove(store.run_id)
        assert not await journal.holds(store.run_id)


@pytest.mark.parametrize("damage", EVENTS)
async def test_a_damaged_event_is_refused(store: Copy, damage: str) -> None:
    EVENTS[damage](store)
    async with Journal.open(store.path) as journal:
        with pytest.raises(JournalError, match="damaged") as caught:
            await journal.events(store.run_id)
        assert one_line(caught)


@pytest.mark.parametrize("damage", FACTS)
async def test_damaged_facts_are_refused_before_a_replay(store: Copy, damage: str) -> None:
    FACTS[damage](store)
    with pytest.raises(RLMError) as caught:
        await replay(store.run_id, store=store.path)
    assert one_line(caught)
    async with Journal.open(store.path) as journal, RunViews(journal) as views:
        with suppress(RLMError):
            await views.get(store.run_id, "overview")


async def test_an_end_without_an_answer_is_damage(store: Copy) -> None:
    """Also of a run whose provider failed: it can be resumed, and a session asked for its answer."""
    (data,) = store.ask("SELECT data FROM events WHERE kind = 'finished'")[0]
    end = {**json.loads(data), "stop_reason": "model"}
    del end["answer"]
    store.ask("UPDATE events SET data = ? WHERE kind = 'finished'", json.dumps(end))
    model = ScriptedModel.of(root=[], child="one")
    with pytest.raises(JournalError, match="damaged") as caught:
        async with RLM(model, settings=Settings(store=store.path)).session(after=store.run_id):
            pass
    assert one_line(caught)


async def test_a_run_that_continues_itself_is_refused(store: Copy) -> None:
    store.change_settings(after=store.run_id)
    async with asyncio.timeout(10):
        with pytest.raises(RLMError, match="continues itself"):
            await replay(store.run_id, store=store.path)


@pytest.mark.parametrize("place", ["absolute", "relative"])
async def test_looking_at_a_run_removes_nothing_of_the_user(store: Copy, tmp_path: Path, place: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis.txt").write_text("mine")
    store.ask(
        "UPDATE runs SET input = ?", str(victim) if place == "absolute" else os.path.relpath(victim, "/tmp")
    )
    async with Journal.open(store.path) as journal, RunViews(journal) as views:
        with pytest.raises(RLMError):
            await views.get(store.run_id, "overview")
    assert (victim / "thesis.txt").read_text() == "mine"


async def test_a_stored_input_is_restored_only_to_a_new_folder(store: Copy, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "body").write_text("mine")
    async with Journal.open(store.path) as journal:
        with pytest.raises(JournalError):
            await journal.restore_input(store.run_id, folder)
    assert (folder / "body").read_text() == "mine"


async def test_a_part_of_an_input_is_not_inflated_beyond_its_size(store: Copy, tmp_path: Path) -> None:
    store.ask("UPDATE inputs SET data = ?", zlib.compress(bytes(50 << 20)))
    folder = tmp_path / "there"
    async with Journal.open(store.path) as journal:
        with pytest.raises(JournalError, match="larger than a part"):
            await journal.restore_input(store.run_id, folder)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 1 << 20


async def test_a_stored_run_gets_the_smaller_limits(store: Copy) -> None:
    """A stranger's run asked for 100 GB and a million processes, and for cells of any length."""
    huge = {
        "memory_mb": 100_000,
        "scratch_mb": 64,
        "processes": 10**6,
        "open_files": 10**6,
        "start_seconds": 1e9,
    }
    (settings,) = store.ask("SELECT settings FROM runs")[0]
    limits = {**json.loads(settings)["limits"], "cell_seconds": 1e9, "sub_calls": 7}
    store.change_settings(kernel=huge, limits=limits)
    async with Journal.open(store.path) as journal:
        stored = await StoredRun.read(journal, store.run_id)
    root, children, summary = stored.replay_only_models()
    own = Limits(cell_seconds=60)
    rlm = RLM(root, sub_models=children, summary_model=summary, limits=own).as_of(stored)
    kernel = rlm.settings.kernel
    assert (kernel.memory_mb, kernel.scratch_mb, kernel.processes, kernel.open_files) == (1536, 64, 64, 256)
    assert kernel.start_seconds == 60.0
    assert (rlm.limits.cell_seconds, rlm.limits.to_json()["sub_calls"]) == (60, 7)


@pytest.mark.parametrize("pictures", [False, True])
async def test_a_store_makes_this_machine_fetch_nothing(store: Copy, site: Site, pictures: bool) -> None:
    """A stranger's store names a URL on this machine, and a host that it allows itself."""
    url = site.serve("/secret", PAGE)
    store.change_settings(sources=[{"url": url, "allow_hosts": ["127.0.0.1"]}], pictures=pictures)
    with suppress(RLMError):
        await replay(store.run_id, store=store.path)
    store.ask("UPDATE runs SET input = NULL")
    with pytest.raises(RLMError) as caught:
        await replay(store.run_id, store=store.path)
    assert one_line(caught)
    store.ask("DELETE FROM events WHERE kind = 'finished'")
    store.ask("UPDATE runs SET state = 'interrupted'")
    model = ScriptedModel.of(root=["```repl\nfinalize('1')\n```"], child="one")
    with pytest.raises(RLMError) as caught:
        await RLM(model, settings=Settings(store=store.path)).resume(store.run_id)
    assert one_line(caught)
    assert site.requests == []


@pytest.mark.parametrize("source", ["https://a.example/x", "s3://b/k", "/r@v1"])
async def test_what_was_fetched_and_not_kept_is_asked_for_again(store: Copy, source: str) -> None:
    store.change_settings(sources=[{"name": source}])
    store.ask("UPDATE runs SET input = NULL")
    with pytest.raises(UsageError, match=f"{source}.* was not kept.*[Aa]sk the question again") as caught:
        await replay(store.run_id, store=store.path)
    assert one_line(caught)


@pytest.mark.parametrize("fields", [{"kept": "2"}, {"kept": 10**30}, {"messages": "all"}, {"messages": [3]}])
def test_messages_of_another_shape_are_damage(fields: dict[str, object]) -> None:
    assert not is_event("model_call", {"role": "root", "kept": 0, "messages": [], **fields})
