"""Parquet files are tables, if the extra is installed; if not, the refusal names it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from document_tree import text_of

from rlm.answers.citations import cite
from rlm.documents import load
from rlm.documents.formats import parquet as reader
from rlm.documents.formats.piece import Fault
from rlm.errors import DocumentError


def test_without_the_extra_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(reader, "pyarrow", None)
    reader.prepare()
    with (tmp_path / "a.parquet").open("rb") as file, pytest.raises(Fault) as refused:
        list(reader.read_parquet(file, 4))
    assert refused.value.remedy == "pip install -e '.[parquet]', or convert it to CSV"


def written(path: Path) -> bytes:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {
        "city": ["Rome", "Oslo\nNorth", None],
        "day": [datetime.date(2024, 1, 2)] * 3,
        "share": [0.5, None, 2.0],
        "tags": [["a", "b"], [], None],
    }
    parquet.write_table(pyarrow.table(table), path)
    return path.read_bytes()


async def test_a_row_is_a_line(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet")
    loaded = load([tmp_path / "a.parquet"], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [("a.parquet", "csv")]
    assert text_of(loaded) == (
        'city,day,share,tags\nRome,2024-01-02,0.5,"[""a"", ""b""]"\n'
        "Oslo ¶ North,2024-01-02,,[]\n,2024-01-02,2,\n"
    )
    with loaded.context.open() as body:
        (citation,) = (await cite(["Oslo\nNorth"], "", body)).citations
    assert citation.place == "a.parquet, row 2"


@pytest.mark.parametrize("size", [4, 100, 700])
def test_a_broken_file_is_one_clear_line(tmp_path: Path, size: int) -> None:
    data = written(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(data[:size])
    with pytest.raises(DocumentError, match="a Parquet file that is damaged or truncated"):
        load([tmp_path / "a.parquet"], tmp_path / "c")
