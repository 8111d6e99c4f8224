"""DuckDB databases: each table is a document, row n is line n + 1, and the log beside the file is read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from document_tree import names_of, text_of

from rlm.answers.citations import cite
from rlm.documents import StreamSource, load
from rlm.documents.formats.converter import Converter
from rlm.errors import DocumentError

duckdb = pytest.importorskip("duckdb", reason="needs the extra duckdb")

_MADE = """
create table users as select i as id, 'user ' || i as name, [i, i] as list, {'a': i} as struct,
  timestamp '2024-03-01 10:00:00' as made, timestamptz '2024-03-01 10:00:00+00' as zoned, i / 4.0 as share,
  i::decimal(6, 2) as price, i::hugeint as huge, 'a' || chr(10) || 'b' as lines from range(5000) r(i);
create view names as select name from users;
create schema more;
create table more.codes as select 'the gate code is 4711' as text, null as nothing;
create table empty (a integer);
"""


def database(path: Path, sql: str = _MADE) -> Path:
    with duckdb.connect(str(path)) as made:
        made.execute(sql)
    return path


async def test_each_table_is_a_document_and_each_row_a_line(tmp_path: Path) -> None:
    path = database(tmp_path / "app.duckdb")
    before = path.read_bytes()
    loaded = load([path], tmp_path / "c")
    assert names_of(loaded) == [
        f"app.duckdb/{name}" for name in ("empty", "users", "more.codes", "schema.sql")
    ]
    text = text_of(loaded)
    assert text.startswith(
        "a\nid,name,list,struct,made,zoned,share,price,huge,lines\n"
        "0,user 0,\"[0, 0]\",{'a': 0},2024-03-01 10:00:00,2024-03-01 10:00:00+00,0,0.00,0,a ¶ b\n"
    )
    assert text.count("\n") == 5001 + 2 + 1 + 4
    assert "CREATE VIEW" in text
    assert (loaded.notes, loaded.remarks, loaded.unread) == ((), (), ())
    assert path.read_bytes() == before
    with loaded.context.open() as body:
        (citation,) = (await cite(["user 4321"], "", body)).citations
        assert citation.place == "app.duckdb, table users, row 4,322"


def test_changes_that_are_only_in_the_log_are_read(tmp_path: Path) -> None:
    path = database(tmp_path / "papers.duckdb")
    write = (
        f'import duckdb, os; a = duckdb.connect({str(path)!r}); a.execute("insert into more.codes values '
        "('in the log', null)\"); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", write], check=True)
    assert (tmp_path / "papers.duckdb.wal").stat().st_size
    alone = load([path], tmp_path / "alone")
    assert "in the log" in text_of(alone)
    (tmp_path / "folder").mkdir()
    for name in ("papers.duckdb", "papers.duckdb.wal"):
        (tmp_path / name).rename(tmp_path / "folder" / name)
    loaded = load([tmp_path / "folder"], tmp_path / "c")
    assert "in the log" in text_of(loaded)
    assert loaded.unread == ()


def test_a_database_may_come_from_a_pipe(tmp_path: Path) -> None:
    data = database(tmp_path / "app.duckdb").read_bytes()
    loaded = load([StreamSource("stdin", io.BytesIO(data))], tmp_path / "c")
    assert names_of(loaded)[0] == "stdin/empty"


def test_an_encrypted_database_is_named(tmp_path: Path) -> None:
    with duckdb.connect() as made:
        made.execute("set force_mbedtls_unsafe = 'true'")
        made.execute(f"attach '{tmp_path}/a.duckdb' as a (encryption_key 'secret')")
        made.execute("create table a.t as select 17 as weeks")
        made.execute("detach a")
    with pytest.raises(DocumentError, match=r"a DuckDB database that is encrypted: attach it with its key"):
        load([tmp_path / "a.duckdb"], tmp_path / "c")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_a_database_that_is_cut_is_refused_or_named(tmp_path: Path, share: float) -> None:
    data = database(tmp_path / "app.duckdb").read_bytes()
    (tmp_path / "app.duckdb").write_bytes(data[: int(len(data) * share)])
    assert "damaged" in refusal_or_unread(tmp_path / "app.duckdb", tmp_path / "c")


def refusal_or_unread(path: Path, folder: Path) -> str:
    try:
        return ", ".join(load([path], folder).notes)
    except DocumentError as error:
        return str(error)


def test_random_damage_ends_in_one_line(tmp_path: Path) -> None:
    data = bytearray(database(tmp_path / "app.duckdb").read_bytes())
    for number in range(6):
        path = tmp_path / f"{number}.duckdb"
        at = 4096 * (number + 1)
        path.write_bytes(data[:at] + os.urandom(4096) + data[at + 4096 :])
        assert "\n" not in refusal_or_unread(path, tmp_path / f"c{number}")


def test_it_is_read_behind_walls_on_one_thread(tmp_path: Path) -> None:
    path = database(tmp_path / "app.duckdb")
    with Converter() as converter, path.open("rb") as file:
        pieces = list(converter.pieces(file.fileno(), path.stat().st_size, "duckdb", lambda: None))
        assert converter.warning == ""
    assert len(pieces) > 8
