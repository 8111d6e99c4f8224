"""Test what a Python caller may give as a context: tables, JSON, files, lists."""

from __future__ import annotations

import datetime
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel

from rlm import RLM, Settings
from rlm.documents import load, sources_of
from rlm.documents.formats.cell_places import cell_place
from rlm.errors import UsageError
from rlm.sandbox.text.body import Body, Span


def read(context: Any, folder: Path) -> Body:
    load(sources_of(context), folder / "context")
    return Body.open(folder / "context")


def test_a_frame_is_a_table_whose_rows_have_places(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "name": ["Ann", "Bob, jr.", "line\nend", None],
            "at": pd.to_datetime(["2026-01-02 00:00", "2026-01-03 10:00", None, "2026-01-05 00:00"]),
            "amount": [1.5, float("nan"), 3.0, 4.0],
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
        }
    )
    with read(frame, tmp_path) as body:
        (document,) = body.documents
        assert (document.name, document.kind) == ("DataFrame", "csv")
        assert body.text(0, body.chars).splitlines() == [
            "name,at,amount,count",
            "Ann,2026-01-02 00:00:00,1.5,1",
            '"Bob, jr.",2026-01-03 10:00:00,,',
            "line ¶ end,,3,3",
            ",2026-01-05 00:00:00,4,4",
        ]
        at = body.text(0, body.chars).index("Bob")
        assert cell_place(body, document, Span(at, at + 3)) == "DataFrame, row 2"


def test_indexes_series_and_levels_keep_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {("price", "low"): [1, 2], ("price", "high"): [3, 4]}, index=pd.Index(["a", "b"], name="key")
    )
    series = pd.Series([1, 2], index=["x", "y"], name="n")
    levels = pd.DataFrame({"v": [1]}, index=pd.MultiIndex.from_tuples([("p", 7)], names=["who", None]))
    with read([frame, series, levels], tmp_path) as body:
        texts = [body.text(one.start, one.end) for one in body.documents]
        assert [one.name for one in body.documents] == ["DataFrame", "DataFrame (2)", "DataFrame (3)"]
        assert texts[0] == "key,price / low,price / high\na,1,3\nb,2,4\n"
        assert texts[1] == "index,n\nx,1\ny,2\n"
        assert texts[2] == "who,index,v\np,7,1\n"
        last = body.documents[2]
        assert cell_place(body, last, Span(last.end - 3, last.end - 1)) == "DataFrame (3), row 1"


def test_pandas_is_not_imported_unless_it_is_given() -> None:
    code = (
        "import sys\nfrom rlm.documents import sources_of\n"
        "sources_of([{'a': 1}, 'text'])\nassert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Model(BaseModel):
    day: datetime.date


def test_mappings_are_json(tmp_path: Path) -> None:
    data = {"who": "Ann", "sum": Decimal("1.20"), "model": Model(day=datetime.date(2026, 1, 2))}
    with read(data, tmp_path) as body:
        (document,) = body.documents
        assert (document.name, document.kind) == ("JSON", "json")
        text = body.text(0, body.chars)
        assert json.loads(text) == {"who": "Ann", "sum": "1.20", "model": {"day": "2026-01-02"}}


def test_a_list_of_messages_is_a_chat_and_a_mixed_list_is_several_documents(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Where is the key?"}, {"role": "assistant", "content": "Here."}]
    with read(messages, tmp_path) as body:
        (document,) = body.documents
        assert (document.kind, document.messages) == ("chat", 2)
    (tmp_path / "a.txt").write_text("from a file")
    with read(["a text", {"a": 1}, tmp_path / "a.txt", b"bytes"], tmp_path / "2") as body:
        assert [one.name for one in body.documents] == ["text", "JSON", "a.txt", "text (2)"]


def test_open_files_are_read_from_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,ä\n", "utf-8")
    with path.open("rb") as binary, path.open(encoding="utf-8") as text, path.open(encoding="utf-8") as rest:
        rest.readline()
        with read([binary, text, rest, io.StringIO("in memory"), io.BytesIO(b"bytes")], tmp_path) as body:
            shown = [(one.name, one.kind, body.text(one.start, one.end)) for one in body.documents]
    assert shown[:2] == [("data.csv", "csv", "a,b\n1,ä\n"), ("data.csv (2)", "csv", "a,b\n1,ä\n")]
    assert [text for _, _, text in shown[2:]] == ["1,ä\n", "in memory\n", "bytes"]


def test_the_encoding_of_an_open_file_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("grün – für".encode("cp1252"))
    with path.open(encoding="cp1252") as stream, read(stream, tmp_path) as body:
        assert body.text(0, body.chars) == "grün – für"


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (7, "the context is a value of type int: give a text, a Path"),
        (["a", 7], "the context holds a value of type int"),
        ({"a": object()}, "the context is no JSON"),
        (pd.DataFrame({"a": []}), "the DataFrame has no rows"),
        (pd.Series([], dtype="int64"), "the Series has no rows"),
    ],
)
def test_what_is_no_context_is_refused_in_one_line(context: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        sources_of(context)
    assert "\n" not in str(caught.value)


def test_a_closed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with (tmp_path / "a.txt").open() as stream:
        pass
    with pytest.raises(UsageError, match="closed file"):
        sources_of(stream)


def test_a_question_about_a_frame_cites_its_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"customer": ["Acme", "Blue Ltd"], "note": ["paid in May", "the charge has failed"]})
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    result = rlm.run_sync("Which charge has failed?", frame)
    assert result.citations[0].place == "DataFrame, row 2"
    assert result.citations[0].verified
