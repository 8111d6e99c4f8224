"""Test the journal's store: its permissions, its redaction, and its errors."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import stat
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.journal.redaction import Redaction

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rlm" / "rlm.db"


def one_line(error: pytest.ExceptionInfo[JournalError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


async def write_run(journal: Journal, run_id: str) -> None:
    async with journal.run(run_id, "a task", {}) as log:
        await log.append("finished", {"stop_reason": "finalized"})


async def test_no_planted_key_is_anywhere_in_the_store(store: Path) -> None:
    """No secret is in a task, a setting, an event, a key of a mapping, or the bytes of the files."""
    with pytest.raises(JournalError) as caught:  # noqa: PT012
        async with Journal.open(store) as journal:
            journal.redact([KEY, KEY + "-longer", "", "ollama"])
            async with journal.run("r1", f"use {KEY}", {"env": {"OPENAI_API_KEY": KEY}}) as log:
                await log.append("model_call", {"headers": [("Authorization", f"Bearer {KEY}-longer")]})
                await log.append("tool", {KEY: {"deep": [f"a{KEY}b{KEY}c"]}, "host": "ollama"})
                await log.append("finished", {"stop_reason": f"{KEY}", "error": f"401 for {KEY}"})
            events = await journal.events("r1")
            raw = b"".join(file.read_bytes() for file in store.parent.iterdir())
            await write_run(journal, "r1")
    assert KEY not in str(caught.value)
    assert b"planted" not in raw
    assert b"Bearer" in raw
    assert events[1].data == {"headers": [["Authorization", "Bearer [redacted]"]]}
    assert events[2].data == {"[redacted]": {"deep": ["a[redacted]b[redacted]c"]}, "host": "ollama"}


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.text())
def test_redaction_leaves_no_secret_in_any_structure(payload: object, around: str) -> None:
    """Redaction changes nothing else."""
    redaction = Redaction()
    assert redaction.blank({"a": payload, "b": (KEY,)}) == {"a": payload, "b": (KEY,)}
    redaction.add([KEY])
    assert redaction.blank(payload) == payload
    assert redaction.blank([payload, {around + KEY: around + KEY + around}]) == [
        payload,
        {around + "[redacted]": around + "[redacted]" + around},
    ]


@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8),
    st.text(),
)
def test_what_must_be_blanked_shows_in_its_json(payload: object, secret: str, around: str) -> None:
    """Only a text that may hold a secret is searched; quotes and accents do not hide one."""
    redaction = Redaction()
    redaction.add([secret])
    for value in (payload, [payload, {around + secret: 1}], {"a": [around + secret + around]}):
        if redaction.blank(value) != value:
            assert redaction.may_occur_in(json.dumps(value, separators=(",", ":")))


async def test_the_store_is_its_owner_s_alone(tmp_path: Path, store: Path) -> None:
    """Files are 0600 in a 0700 folder under any umask; wider permissions are reduced."""
    before = os.umask(0)
    try:
        async with Journal.open(store) as journal:
            await write_run(journal, "r1")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in store.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"rlm.db": 0o600, "rlm.db-wal": 0o600, "rlm.db-shm": 0o600}
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    store.chmod(0o644)
    async with Journal.open(store):
        assert stat.S_IMODE(store.stat().st_mode) == 0o600


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(path: Path) -> Path:
    path.write_text("a file")
    return path / "rlm.db"


def garbage(path: Path) -> Path:
    path.write_bytes(b"these are no tables" * 1_000)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (a_folder, "check that its folder exists and is yours to write"),
        (below_a_file, "check that its folder exists and is yours to write"),
        (lambda _: Path("/proc/none/rlm.db"), "check that its folder exists and is yours to write"),
        (garbage, "move the damaged file away"),
    ],
)
async def test_a_store_that_cannot_be_opened_says_what_to_do(
    tmp_path: Path, make: Callable[[Path], Path], expected: str
) -> None:
    """The error is one line with the store and the remedy; a file that is not a store stays unchanged."""
    path = make(tmp_path / "x")
    before = (path.read_bytes(), path.stat().st_mode) if path.is_file() else None
    with pytest.raises(JournalError) as caught:
        async with Journal.open(path):
            pass
    assert expected in one_line(caught)
    assert str(path) in one_line(caught)
    assert before == ((path.read_bytes(), path.stat().st_mode) if path.is_file() else None)


@pytest.fixture
def nobody() -> Iterator[None]:
    """Root may write anywhere, so a test that runs as root drops its privileges."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)


@pytest.mark.parametrize("mode", [0o500, 0o000])
async def test_a_folder_without_permission_says_what_to_do(
    store: Path, mode: int, request: pytest.FixtureRequest
) -> None:
    """The folder cannot be written, or not even searched."""
    async with Journal.open(store):
        pass  # late imports are done now, before the process drops its privileges
    folder = store.parent
    folder.chmod(mode)
    request.getfixturevalue("nobody")
    with pytest.raises(JournalError) as caught:
        async with Journal.open(folder / "another.db"):
            pass
    assert "Permission denied; check that its folder exists and is yours to write" in one_line(caught)


async def test_a_database_that_cannot_be_reached_is_named_without_its_password() -> None:
    """Exceptions hold no credentials."""
    url = f"postgresql://user:{KEY}@localhost:1/db"
    with pytest.raises(JournalError) as caught:
        async with Journal.open(url):
            pass
    assert "check its URL" in one_line(caught)
    assert "localhost:1/db" in one_line(caught)
    assert KEY not in "".join(traceback.format_exception(caught.value))


async def test_a_kind_of_database_that_is_not_supported_is_refused() -> None:
    """The message lists the supported forms."""
    with pytest.raises(JournalError) as caught:
        async with Journal.open("mysql://user:secretword@host/db"):
            pass
    assert "postgresql://USER@HOST/NAME" in one_line(caught)
    assert "secretword" not in one_line(caught)


async def test_a_store_of_another_version_is_refused_and_left_alone(store: Path) -> None:
    async with Journal.open(store) as journal:
        await write_run(journal, "r1")
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("UPDATE journal_version SET version_num = '9999'")
    database.close()
    with pytest.raises(JournalError) as caught:
        async with Journal.open(store):
            pass
    assert "schema 9999" in one_line(caught)


async def test_a_store_damaged_in_use_is_an_error_of_the_journal(store: Path) -> None:
    """The error is a JournalError without the text of documents."""
    async with Journal.open(store) as journal, journal.run("r1", "t", {}) as log:
        with closing(sqlite3.connect(store)) as database, database:
            database.execute("DROP TABLE events")
        database.close()
        words = ["text", "of", "a", "document"]
        with pytest.raises(JournalError, match="can't be written") as caught:
            await log.append("cell", {"stdout": " ".join(words)})
        assert one_line(caught)
        assert " ".join(words) not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(JournalError, match="can't be read"):
            await journal.events("r1")


async def test_a_write_that_failed_after_its_caller_was_cancelled_is_not_shouted(store: Path) -> None:
    """A full disk during a batch ends the run with one line, not with a traceback for every child in
    flight."""
    shouted: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: shouted.append(context["message"]))
    async with Journal.open(store) as journal, journal.run("r1", "t", {}) as log:
        with closing(sqlite3.connect(store)) as database, database:
            database.execute("DROP TABLE events")
        database.close()
        writes = [asyncio.create_task(log.append("child", {"n": n})) for n in range(4)]
        await asyncio.sleep(0)
        for write in writes:
            write.cancel()
        await asyncio.wait(writes)
        with pytest.raises(JournalError, match="can't be written"):
            await log.append("cell", {})
    del writes
    gc.collect()
    assert shouted == []


@pytest.mark.parametrize(
    "script",
    [
        # Reading this view never ends.
        "DROP TABLE events; CREATE VIEW events AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
        "FROM n) SELECT 'r1' AS run_id, i AS seq, 0.0 AS at, 'cell' AS kind, '{}' AS data FROM n",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM events; END",
        "CREATE VIEW anything AS SELECT 1",
        "DROP TABLE inputs; CREATE TABLE inputs (input, name, part, data AS (zeroblob(100000000)))",
        "DROP TABLE inputs",
    ],
)
async def test_a_store_with_other_than_its_own_tables_is_refused(store: Path, script: str) -> None:
    async with Journal.open(store) as journal:
        await write_run(journal, "r1")
    with closing(sqlite3.connect(store)) as database:
        database.executescript(script)
    with pytest.raises(JournalError, match="use another store") as caught:
        async with asyncio.timeout(10), Journal.open(store):
            pass
    assert one_line(caught)


async def test_a_closed_journal_says_so(store: Path) -> None:
    async with Journal.open(store) as journal:
        pass
    with pytest.raises(JournalError, match="is closed"):
        await journal.runs()
