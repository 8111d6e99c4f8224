"""Workbooks: each sheet is a document, a line is a row, and citations name the cells."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest
from document_tree import names_of, notes_of, skipped_of, text_of
from openpyxl.comments import Comment

from rlm.answers.citations import cite
from rlm.documents import Loaded, StreamSource, load
from rlm.errors import DocumentError
from rlm.sandbox.in_kernel.access_log import AccessLog
from rlm.sandbox.in_kernel.rows import Rows

SALES = "Sales 2024"


def workbook(path: Path) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = SALES
    sheet["A1"] = "Sales report; by region, and quarter"
    sheet.merge_cells("A1:E1")
    rows: list[list[object]] = [
        [],
        ["Region", "Date", "Amount", "Margin", "Note"],
        ["North", datetime.date(2024, 3, 1), 1250, 0.125, "first\nsecond"],
        [None, datetime.datetime(2024, 3, 2, 10, 30), 99.5, 0.07, '5" pipe, big'],
        [],
        ["South", None, 1_000_000, None, None],
    ]
    for row in rows:
        sheet.append(row)
    sheet["D4"].number_format = sheet["D5"].number_format = "0.0%"
    sheet.merge_cells("A4:A5")
    sheet["C8"] = "=SUM(C4:C7)"
    sheet["A9"].comment = Comment("Ask Ann", "Bob")
    hidden = book.create_sheet("Rates")
    hidden.sheet_state = "hidden"
    hidden["C5"] = "the discount is 17"
    book.create_sheet("Empty")
    book.save(path)
    return path


async def place(loaded: Loaded, quote: str) -> str | None:
    with loaded.context.open() as body:
        (citation,) = (await cite([quote], "", body)).citations
        return citation.place if citation.verified else None


async def test_each_sheet_is_a_document_and_each_row_a_line(tmp_path: Path) -> None:
    loaded = load([workbook(tmp_path / "book.xlsx")], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        (f"book.xlsx/{SALES}", "csv"),
        (f"book.xlsx/{SALES} (notes)", "text"),
        ("book.xlsx/Rates (hidden)", "csv"),
    ]
    assert text_of(loaded).split("\n")[:7] == [
        '"Sales report; by region, and quarter"',
        "",
        "Region,Date,Amount,Margin,Note",
        "North,2024-03-01,1250,12.5%,first ¶ second",
        'North,2024-03-02 10:30:00,99.5,7%,"5"" pipe, big"',
        "",
        "South,,1000000,,",
    ]
    assert await place(loaded, "1000000") == "book.xlsx, 'Sales 2024'!C7"
    assert await place(loaded, "North,2024-03-01,1250,12.5%") == "book.xlsx, 'Sales 2024'!A4:D4"
    assert await place(loaded, "first\nsecond") == "book.xlsx, 'Sales 2024'!E4"
    assert await place(loaded, "the discount is 17") == "book.xlsx, Rates!C5 (hidden sheet)"


def test_what_was_not_read_of_a_workbook_is_named(tmp_path: Path) -> None:
    loaded = load([workbook(tmp_path / "book.xlsx")], tmp_path / "c")
    assert any("1 formula has no computed value (the first is C8)" in note for note in notes_of(loaded))


def test_values_that_may_be_old_are_named(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"] = "=1+1"
    book.save(tmp_path / "book.xlsx")
    rewritten(tmp_path / "book.xlsx", "xl/worksheets/sheet1.xml", (b"<v></v>", b"<v>7</v>"))
    (note,) = notes_of(load([tmp_path / "book.xlsx"], tmp_path / "c"))
    assert note.startswith("book.xlsx/Sheet: its formulas are to be computed anew when it is opened")


def test_rows_above_the_header_are_no_records(tmp_path: Path) -> None:
    loaded = load([workbook(tmp_path / "book.xlsx")], tmp_path / "c")
    with loaded.context.open() as body:
        first, second, third, *_ = Rows(body, AccessLog())
    assert first.value == {
        "Region": "North",
        "Date": "2024-03-01",
        "Amount": "1250",
        "Margin": "12.5%",
        "Note": "first ¶ second",
    }
    assert second.value["Note"] == '5" pipe, big'
    assert third.value["Region"] == "South"
    assert (first.error, second.error, third.error) == (None, None, None)


def test_a_workbook_is_known_without_its_suffix(tmp_path: Path) -> None:
    data = workbook(tmp_path / "book.xlsx").read_bytes()
    loaded = load([StreamSource("stdin", io.BytesIO(data))], tmp_path / "c")
    assert loaded.context.documents[0].name == f"stdin/{SALES}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [("<html><table><tr><td>North</td><td>5</td></tr></table>", "html"), ("Region\tSum\nNorth\t5\n", "csv")],
)
def test_a_text_that_is_called_a_workbook_is_read_as_what_it_is(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "export.xls").write_text(text)
    loaded = load([tmp_path / "export.xls"], tmp_path / "c")
    assert loaded.context.documents[0].kind == kind
    assert "North" in text_of(loaded)


@pytest.mark.parametrize("size", [4, 500, 3000])
def test_a_broken_workbook_is_one_clear_line(tmp_path: Path, size: int) -> None:
    data = workbook(tmp_path / "book.xlsx").read_bytes()
    (tmp_path / "book.xlsx").write_bytes(data[:size])
    with pytest.raises(DocumentError, match="is a workbook that is damaged or truncated"):
        load([tmp_path / "book.xlsx"], tmp_path / "c")


def test_an_ods_with_indents_is_read(tmp_path: Path) -> None:
    """As KSpread writes it."""
    names = "".join(
        f' xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("office", "table", "text")
    )
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr(
            "content.xml",
            f"""<office:document-content{names}> <office:body> <office:spreadsheet>
            <table:table table:name="Prices"> <table:table-column/> <table:table-row>
            <table:table-cell office:value-type="string"><text:p>linden</text:p></table:table-cell>
            <table:table-cell office:value-type="float" office:value="9.5"><text:p>9.50</text:p>
            </table:table-cell> </table:table-row> </table:table>
            </office:spreadsheet> </office:body> </office:document-content>""",
        )
    loaded = load([tmp_path / "a.ods"], tmp_path / "c")
    assert (names_of(loaded), text_of(loaded)) == (["a.ods/Prices"], "linden,9.5\n")


def test_an_empty_workbook_is_named(tmp_path: Path) -> None:
    openpyxl.Workbook().save(tmp_path / "book.xlsx")
    with pytest.raises(DocumentError, match="its sheets are empty"):
        load([tmp_path / "book.xlsx"], tmp_path / "c")


def test_a_sheet_that_would_fill_the_memory_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in range(1, 1_048_576, 9_000):
        book.active.cell(row, 16_384, "far")
    book.create_sheet("Near")["A1"] = "the answer is near"
    book.save(tmp_path / "book.xlsx")
    loaded = load([tmp_path / "book.xlsx"], tmp_path / "c")
    assert text_of(loaded) == "the answer is near\n"
    assert skipped_of(loaded) == [("book.xlsx/Sheet", "a sheet that spans 1,044,001 rows and 16,384 columns")]


def rewritten(path: Path, name: str, change: tuple[bytes, bytes]) -> None:
    """Change a part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    assert change[0] in parts[name]
    parts[name] = parts[name].replace(*change)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, data in parts.items():
            archive.writestr(one, data)


def test_a_stray_cell_in_the_last_row_hides_no_table(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["yard", "rent"])
    book.active.append(["north", 900])
    book.active["KZ1048576"] = "away"
    book.save(tmp_path / "book.xlsx")
    loaded = load([tmp_path / "book.xlsx"], tmp_path / "c")
    assert text_of(loaded) == "yard,rent\nnorth,900\n"
    (note,) = notes_of(loaded)
    assert note.startswith("book.xlsx/Sheet: rows far below its table were not read: ")


def test_a_workbook_that_lies_about_its_size_ends_its_own_reader_only(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"], book.active["XFD1048576"] = "far", "away"
    book.save(tmp_path / "bomb.xlsx")
    rewritten(tmp_path / "bomb.xlsx", "xl/worksheets/sheet1.xml", (b"A1:XFD1048576", b"A1:B2"))
    (tmp_path / "a.txt").write_text("fine")
    loaded = load([tmp_path / "bomb.xlsx", tmp_path / "a.txt"], tmp_path / "c")
    assert text_of(loaded) == "fine"
    ((_, reason),) = skipped_of(loaded)
    assert "crashed its reader" in reason


def test_a_workbook_with_entities_is_refused(tmp_path: Path) -> None:
    workbook(tmp_path / "book.xlsx")
    change = (b"<workbook", b'<!DOCTYPE x [<!ENTITY a "aaaaaaaa">]><workbook')
    rewritten(tmp_path / "book.xlsx", "xl/workbook.xml", change)
    with pytest.raises(DocumentError, match="declares entities"):
        load([tmp_path / "book.xlsx"], tmp_path / "c")


def test_a_question_on_a_cell_is_answered_and_cited_without_a_model(tmp_path: Path) -> None:
    workbook(tmp_path / "book.xlsx")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "rlm",
            "ask",
            "What is the margin of 99.5?",
            "book.xlsx",
            "--model",
            "extractive",
        ],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "book.xlsx, 'Sales 2024'!A5:E5" in done.stdout, done.stderr
