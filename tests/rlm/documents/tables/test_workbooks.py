"""Workbooks: each sheet is a document, a line is a row, and citations name the cells."""

from __future__ import annotations

import datetime
import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest
from compound_file import compound
from document_tree import names_of, notes_of, skipped_of, text_of
from openpyxl.comments import Comment
from openpyxl.workbook.defined_name import DefinedName

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


def ods(path: Path, content: str, styles: str = "") -> Path:
    names = "".join(
        f' xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("office", "table", "text", "style")
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr(
            "content.xml",
            f"<office:document-content{names}> <office:automatic-styles>{styles}</office:automatic-styles> "
            f"<office:body> <office:spreadsheet> {content}"
            "</office:spreadsheet> </office:body> </office:document-content>",
        )
    return path


def test_the_values_of_an_ods_are_those_that_it_shows(tmp_path: Path) -> None:
    """With white space between cells, as KSpread writes it."""

    def cell(shown: str, kind: str = "string", more: str = "") -> str:
        facts = f'office:value-type="{kind}" {more}'
        return f" <table:table-cell {facts}><text:p>{shown}</text:p></table:table-cell>"

    row = "</table:table-row> <table:table-row>"
    spanned = cell("north", more='table:number-rows-spanned="2"')
    loaded = load(
        [
            ods(
                tmp_path / "a.ods",
                f"""<table:table table:name="Prices"> <table:table-column/> <table:table-row>
                {cell("yard")} {cell("rent")} {cell("share")} {cell("at")} {cell("on")} {cell("open")} {row}
                {spanned} {cell("9.50", "float", 'office:value="9.5"')}
                {cell("7 %", "percentage", 'office:value="0.07"')}
                {cell("1", "time", 'office:time-value="PT288H05M00S"')}
                <table:table-cell office:value-type="date" office:date-value="2024-03-01"/>
                {cell("WAHR", "boolean", 'office:boolean-value="true"')} {row}
                <table:covered-table-cell/> {cell("a<text:s/>b<text:line-break/>c", "unknown")}
                <table:table-cell table:number-columns-repeated="16000"/> </table:table-row>
                <table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>
                </table:table> <table:table table:name="Rates" table:style-name="h"> <table:table-row
                table:number-rows-repeated="2">{cell("17")}</table:table-row></table:table>""",
                '<style:style style:name="h"><style:table-properties table:display="false"/></style:style>',
            )
        ],
        tmp_path / "c",
    )
    assert names_of(loaded) == ["a.ods/Prices", "a.ods/Rates (hidden)"]
    assert text_of(loaded) == (
        "yard,rent,share,at,on,open\nnorth,9.5,7%,288:05:00,2024-03-01,TRUE\nnorth,a b ¶ c,,,,\n17\n17\n"
    )
    assert loaded.problems == ()


def test_an_ods_that_claims_too_many_cells_is_refused(tmp_path: Path) -> None:
    cells = (
        '<table:table table:name="a"><table:table-row table:number-rows-repeated="1000000"><table:table-cell '
        'table:number-columns-repeated="16000"><text:p>x</text:p></table:table-cell></table:table-row>'
        "</table:table>"
    )
    with pytest.raises(DocumentError, match="a sheet of more than 30,000,000 cells"):
        load([ods(tmp_path / "a.ods", cells)], tmp_path / "c")


def test_errors_links_and_names_of_a_workbook_are_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["#DIV/0!", 5, "the law", "https://x.org"])
    book.active["C1"].hyperlink = "https://x.org/law"
    book.active["D1"].hyperlink = "https://x.org"
    book.defined_names["Discount"] = DefinedName("Discount", attr_text="Sheet!$B$1")
    book.defined_names["_xlnm.Secret"] = DefinedName("_xlnm.Secret", attr_text="Sheet!$B$1", hidden=True)
    book.save(tmp_path / "book.xlsx")
    loaded = load([tmp_path / "book.xlsx"], tmp_path / "c")
    assert names_of(loaded) == ["book.xlsx/Sheet", "book.xlsx/names"]
    assert text_of(loaded) == "#DIV/0!,5,the law (https://x.org/law),https://x.org\nDiscount: Sheet!$B$1\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (compound(struct.pack("<HH4xHH2x", 0x809, 4, 0x2F, 2)), "protected by a password .perhaps one that"),
        (compound(struct.pack("<HH4xHH2x", 0x809, 4, 0x1C, 2)), "without any text|damaged"),
        (b"\x09\x04\x06\0\0\x04\x10\0\0\0", "of a version that is not read .Excel 4 or older"),
    ],
)
def test_why_an_old_workbook_is_not_read(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "a.xls").write_bytes(data)
    with pytest.raises(DocumentError, match=reason):
        load([tmp_path / "a.xls"], tmp_path / "c")


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
    # LibreOffice leaves empty rows there.
    rewritten(tmp_path / "book.xlsx", "xl/worksheets/sheet1.xml", (b"<is><t>away</t></is>", b""))
    assert load([tmp_path / "book.xlsx"], tmp_path / "d").problems == ()


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
