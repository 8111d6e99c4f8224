"""SQLite databases: each table is a document, row n is line n + 1, and nothing is written to the file."""

from __future__ import annotations

import gzip
import io
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from document_tree import notes_of, remarks_of, text_of

from rlm.answers.citations import cite
from rlm.documents import StreamSource, load
from rlm.errors import DocumentError
from rlm.sandbox.in_kernel.access_log import AccessLog
from rlm.sandbox.in_kernel.rows import Rows


def database(path: Path, *, rows: int = 8) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            "create table users (id integer primary key, name text, photo blob, extra blob);"
            'create table "odd, name" (x); create table empty (a, b);'
            "create view names as select name from users; create virtual table notes using fts5 (body);"
        )
        made.executemany(
            "insert into users (name, photo, extra) values (?, ?, ?)",
            [(f"user {n}\nof Rome", b"\xff\xfe\x00", b'{"n": %d}' % n) for n in range(rows)],
        )
        made.execute('insert into "odd, name" values (null), (2.5)')
        made.execute("insert into notes values ('the gate code is 4711')")
        made.commit()
    return path


async def test_each_table_is_a_document_and_each_row_a_line(tmp_path: Path) -> None:
    path = database(tmp_path / "app.db")
    before = path.read_bytes()
    loaded = load([path], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        ("app.db/users", "csv"),
        ("app.db/odd, name", "csv"),
        ("app.db/empty", "csv"),
        ("app.db/notes", "csv"),
        ("app.db/schema.sql", "code"),
    ]
    text = text_of(loaded)
    assert text.startswith('id,name,photo,extra\n1,user 0 ¶ of Rome,(3 bytes),{"n": 0}\n')
    assert 'x\n""\n2.5\na,b\nbody\nthe gate code is 4711\n' in text
    assert "CREATE VIEW names as select name from users;\n" in text
    assert loaded.problems == ()
    assert path.read_bytes() == before
    with loaded.context.open() as body:
        (citation,) = (await cite(["user 6\nof Rome"], "", body)).citations
        assert citation.place == "app.db, table users, row 7"
        rows = [row for row in Rows(body, AccessLog()) if row.document == "app.db/users"]
    assert len(rows) == 8
    assert rows[6].value == {"id": "7", "name": "user 6 ¶ of Rome", "photo": "(3 bytes)", "extra": '{"n": 6}'}


def in_wal_mode(path: Path, *, rows: int = 3) -> sqlite3.Connection:
    """Return an open database, whose rows are in its log alone."""
    made = sqlite3.connect(path)
    made.execute("pragma journal_mode = wal")
    made.execute("create table t (a)")
    made.execute("pragma wal_checkpoint(truncate)")
    made.execute("pragma wal_autocheckpoint = 0")
    made.executemany("insert into t values (?)", [(f"row {number}",) for number in range(rows)])
    made.commit()
    return made


async def test_a_row_of_a_packed_database_has_its_place(tmp_path: Path) -> None:
    data = database(tmp_path / "app.db").read_bytes()
    (tmp_path / "app.db.gz").write_bytes(gzip.compress(data))
    loaded = load([tmp_path / "app.db.gz"], tmp_path / "c")
    with loaded.context.open() as body:
        (citation,) = (await cite(["user 6\nof Rome"], "", body)).citations
        assert citation.place == "app.db.gz, table users, row 7"


def test_a_log_that_holds_nothing_is_no_reason_to_doubt(tmp_path: Path) -> None:
    with closing(in_wal_mode(tmp_path / "a.db")):
        pass
    assert not (tmp_path / "a.db-wal").exists()
    loaded = load([tmp_path / "a.db"], tmp_path / "c")
    assert "row 2" in text_of(loaded)
    assert (notes_of(loaded), remarks_of(loaded), loaded.unread) == ((), (), ())
    with closing(in_wal_mode(tmp_path / "b.db")) as made:
        made.execute("pragma wal_checkpoint(truncate)")
        assert (tmp_path / "b.db-wal").stat().st_size == 0
        assert load([tmp_path / "b.db"], tmp_path / "d").unread == ()


def test_changes_that_are_only_in_the_log_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with closing(in_wal_mode(folder / "a.db")):
        loaded = load([folder / "a.db"], tmp_path / "c")
        whole = load([folder], tmp_path / "d")
    assert "row 1" not in text_of(loaded)
    for note in (*notes_of(loaded), *notes_of(whole)):
        assert note.startswith("a.db: changes that are only in its -wal file were not read: run `sqlite3")
    assert (len(notes_of(loaded)), len(notes_of(whole))) == (1, 1)
    assert loaded.unread == ("a.db (in part)",)
    assert {"a.db (in part)", "a.db-wal"} <= set(whole.unread)


def test_a_database_may_come_from_a_pipe(tmp_path: Path) -> None:
    data = database(tmp_path / "app.db").read_bytes()
    loaded = load([StreamSource("stdin", io.BytesIO(data))], tmp_path / "c")
    assert loaded.context.documents[0].name == "stdin/users"


def test_a_broken_page_ends_its_table_and_is_named(tmp_path: Path) -> None:
    path = database(tmp_path / "app.db", rows=20_000)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40_000] = os.urandom(40_000)
    path.write_bytes(data)
    loaded = load([path], tmp_path / "c")
    assert "user 0" in text_of(loaded)
    assert any("damaged after row" in note for note in notes_of(loaded)), notes_of(loaded)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.sqlite", b"\x8e\x01" * 4096, "not an SQLite database"),
        ("a.db", b"\x8e\x01\x00" * 4096, r"a database that is not SQLite"),
        ("a.db", b"SQLite format 3\x00" + bytes(50), "an SQLite database that is damaged or truncated"),
    ],
)
def test_a_broken_database_is_one_clear_line(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DocumentError, match=message):
        load([tmp_path / name], tmp_path / "c")


def test_a_truncated_database_is_one_clear_line(tmp_path: Path) -> None:
    data = database(tmp_path / "app.db", rows=20_000).read_bytes()
    (tmp_path / "app.db").write_bytes(data[: len(data) // 2])
    with pytest.raises(DocumentError, match="damaged or truncated"):
        load([tmp_path / "app.db"], tmp_path / "c")


def test_a_column_that_computes_a_bomb_is_bounded(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "bomb.db")) as made:
        made.execute("create table t (a, b text generated always as (hex(zeroblob(25000000)) || a) virtual)")
        made.executemany("insert into t (a) values (?)", [(n,) for n in range(3)])
        made.commit()
    loaded = load([tmp_path / "bomb.db"], tmp_path / "c")
    assert any("a bomb?" in note for note in notes_of(loaded)), notes_of(loaded)
    assert loaded.context.chars < 200 << 20
