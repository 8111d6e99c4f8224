"""What stands beside the cells of a sheet is read or named: comments, text boxes, charts, headers."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import openpyxl
import pytest
from compound_file import compound
from document_tree import names_of, text_of
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment

from rlm import RLM, Settings
from rlm.documents import load
from rlm.documents.formats.sheet_parts import has_old_notes

_NAMES = " ".join(
    f"xmlns:{name}='urn:oasis:names:tc:opendocument:xmlns:{long}:1.0'"
    for name, long in (("office", "office"), ("table", "table"), ("text", "text"), ("draw", "drawing"))
)
_THREADS = (
    "<ThreadedComments><threadedComment ref='B2' personId='{1}'><text>Ask him again</text></threadedComment>"
    "</ThreadedComments>"
)


def rents(path: Path) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Rents"
    sheet.append(["who", "rent"])
    sheet.append(["Ann", 900])
    sheet["B2"].comment = Comment("Agreed for 17 weeks", "Quimby")
    sheet.oddHeader.center.text = "Northern & yard"
    sheet.oddFooter.left.text = "Page &P of &N"
    chart = BarChart()
    chart.title = "Rents by yard"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=2), titles_from_data=True)
    sheet.add_chart(chart, "E1")
    book.create_sheet("Empty")["A1"].comment = Comment("Only a comment", "Q")
    book.create_sheet("Secret").sheet_state = "veryHidden"
    book["Secret"]["A1"] = "hidden value"
    book["Secret"]["A2"].comment = Comment("On a hidden sheet", "Q")
    charted = book.create_chartsheet("Alone")
    lonely = BarChart()
    lonely.title = "A chart alone"
    lonely.add_data(Reference(sheet, min_col=2, min_row=1, max_row=2))
    charted.add_chart(lonely)
    book.save(path)
    return path


def test_comments_charts_and_margins_of_an_xlsx_are_read(tmp_path: Path) -> None:
    loaded = load([rents(tmp_path / "a.xlsx")], tmp_path / "c")
    assert names_of(loaded) == [
        "a.xlsx/Rents", "a.xlsx/Rents (notes)", "a.xlsx/Empty (notes)", "a.xlsx/Secret (hidden)",
        "a.xlsx/Secret (hidden) (notes)", "a.xlsx/Alone (notes)",
    ]  # fmt: skip
    text = text_of(loaded)
    for line in (
        "B2, Quimby: Agreed for 17 weeks\n", "Chart: Rents by yard\n", "Header: Northern & yard\n",
        "A1, Q: Only a comment\n", "A2, Q: On a hidden sheet\n", "Chart: A chart alone\n", "Footer: Page",
    ):  # fmt: skip
        assert line in text
    assert loaded.unread == ()


async def test_a_comment_is_cited_with_its_place(tmp_path: Path) -> None:
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    result = await rlm.run("For how many weeks was it agreed with Quimby?", rents(tmp_path / "a.xlsx"))
    cited = [one for one in result.citations if "17 weeks" in one.quote]
    assert cited[0].verified
    assert cited[0].place.startswith("a.xlsx/Rents (notes):2")


def _with(path: Path, **parts: str | bytes) -> Path:
    """Add parts to a workbook; `xl__a_dot_xml` is `xl/a.xml`."""
    made = io.BytesIO()
    new = {name.replace("__", "/").replace("_dot_", "."): data for name, data in parts.items()}
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w") as archive:
        for name in old.namelist():
            data = old.read(name)
            if name == "xl/worksheets/_rels/sheet1.xml.rels":
                link = b"<Relationship Id='t' Type='x/threadedComment' Target='/xl/threads.xml'/></Re"
                data = data.replace(b"</Re", link)
            if name == "xl/_rels/workbook.xml.rels":
                link = b"<Relationship Id='p' Type='x/person' Target='/xl/people.xml'/></Re"
                data = data.replace(b"</Re", link)
            archive.writestr(name, new.pop(name, data))
        for name, data in new.items():
            archive.writestr(name, data)
    path.write_bytes(made.getvalue())
    return path


def test_a_thread_of_comments_has_its_authors(tmp_path: Path) -> None:
    people = "<personList><person displayName='Zoe Poe' id='{1}'/></personList>"
    path = _with(rents(tmp_path / "a.xlsx"), xl__threads_dot_xml=_THREADS, xl__people_dot_xml=people)
    assert "B2, Zoe Poe: Ask him again\n" in text_of(load([path], tmp_path / "c"))


def test_damaged_comments_are_named(tmp_path: Path) -> None:
    path = _with(rents(tmp_path / "a.xlsx"), xl__threads_dot_xml="<broken", xl__people_dot_xml="<p/>")
    loaded = load([path], tmp_path / "c")
    assert "Ann,900\n" in text_of(loaded)
    assert loaded.unread == ("a.xlsx/Rents (notes)",)


def ods(path: Path, content: str, manifest: str = "<m/>") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f"<office:document-content {_NAMES} xmlns:dc='dc'><office:body><office:spreadsheet>{content}"
            "</office:spreadsheet></office:body></office:document-content>",
        )
        archive.writestr("META-INF/manifest.xml", manifest)
    return path


CELLS = (
    "<table:table table:name='Rents'><table:shapes><draw:custom-shape><text:p>Boxed words</text:p>"
    "</draw:custom-shape></table:shapes><table:table-row table:number-rows-repeated='{rows}'>"
    "<table:table-cell office:value-type='string'><text:p>who</text:p></table:table-cell></table:table-row>"
    "<table:table-row>"
    "<table:table-cell table:number-columns-repeated='2'/><table:table-cell office:value-type='string'>"
    "<office:annotation><dc:creator>Quimby</dc:creator><text:p>17 weeks</text:p></office:annotation>"
    "<text:p>rent</text:p></table:table-cell></table:table-row></table:table>"
)


def test_comments_and_text_boxes_of_an_ods_are_read(tmp_path: Path) -> None:
    loaded = load([ods(tmp_path / "a.ods", CELLS.format(rows=3))], tmp_path / "c")
    assert "Text box: Boxed words\nC4, Quimby: 17 weeks\n" in text_of(loaded)
    assert loaded.unread == ()


@pytest.mark.parametrize(("record", "found"), [(0x1C, True), (0x1B6, True), (0x204, False)])
def test_comments_of_an_old_workbook_are_noticed(record: int, found: bool) -> None:
    data = struct.pack("<HH4x", 0x809, 4) + struct.pack("<HH2x", record, 2)
    assert has_old_notes(io.BytesIO(compound(data))) is found
    assert not has_old_notes(io.BytesIO(compound(data)[:700]))
