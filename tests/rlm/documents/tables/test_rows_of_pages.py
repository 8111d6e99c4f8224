"""Tables in HTML and PDF: a row is one line, its cells are separated, and the header row stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_tree import text_of
from fpdf import FPDF
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import ListFlowable, Paragraph, SimpleDocTemplate, Table

from rlm.answers.citations import cite
from rlm.documents import load

TABLE = """
<table><caption>Sales by <b>quarter</b></caption>
<thead><tr><th>Region</th><th>Q1</th><th colspan=2>Rest</th></tr></thead>
<tr><td rowspan=2>North</td><td>1<br>2</td><td>x</td><td>y</td></tr>
<tr><td><p>3</p></td><td><p>a</p><p>b</p></td><td></td></tr>
<tr><td>South</td><td></td><td>7</td><td><img alt="chart"></td></tr></table>"""


def test_a_row_of_html_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<h1>T</h1>before{TABLE}after")
    assert text_of(load([tmp_path / "a.html"], tmp_path / "c")) == (
        "# T\n\nbefore\n\nSales by quarter\n| Region | Q1 | Rest |  |\n| --- | --- | --- | --- |\n"
        "| North | 1 ¶ 2 | x | y |\n| North | 3 | a ¶ b |  |\n| South |  | 7 | [chart] |\n\nafter\n"
    )


def test_a_table_that_lays_out_a_page_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        f"<table><tr><td><h2>News</h2><p>One.</p><p>Two.</p></td><td>{TABLE}</td></tr></table>"
        f"<table><tr><td><p>{'A long story. ' * 100}</p><p>The end.</p></td></tr></table>"
    )
    text = text_of(load([tmp_path / "a.html"], tmp_path / "c"))
    assert "News\n\nOne.\n\nTwo.\n" in text
    assert "\n| Region | Q1 | Rest |  |\n" in text
    assert "\n\nThe end.\n" in text


@pytest.mark.parametrize("span", ["-1", "x", "99999999999", "0"])
def test_odd_spans_are_bounded(tmp_path: Path, span: str) -> None:
    (tmp_path / "a.html").write_text(
        f"<table><tr><td rowspan={span} colspan={span}>a</td><td>b</td></tr><tr><td>c</td></tr></table>"
    )
    text = text_of(load([tmp_path / "a.html"], tmp_path / "c"))
    assert text.startswith("a ")
    assert len(text) < 2_000


async def test_a_row_of_a_pdf_is_one_line_and_its_empty_cells_count(tmp_path: Path) -> None:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    pdf.multi_cell(0, 5, "These are words of a paragraph. " * 10)
    with pdf.table() as table:
        for cells in (["Name", "Age", "City"], ["Ann", "34", "Berlin"], ["Bob", "", "Rio de Janeiro"]):
            row = table.row()
            for cell in cells:
                row.cell(cell)
    pdf.output(str(tmp_path / "a.pdf"))
    loaded = load([tmp_path / "a.pdf"], tmp_path / "c")
    assert "\nName | Age | City\nAnn | 34 | Berlin\nBob |  | Rio de Janeiro\n" in text_of(loaded)
    with loaded.context.open() as body:
        (citation,) = (await cite(["Ann 34 Berlin"], "", body)).citations
    assert citation.verified
    assert citation.place == "a.pdf, page 1, line 5"


def test_text_of_a_pdf_without_tables_stays_as_it_is(tmp_path: Path) -> None:
    styles = getSampleStyleSheet()
    justified = styles["Normal"].clone("justified", alignment=4)
    items = [Paragraph(f"An item of a list, number {n}.", styles["Normal"]) for n in range(5)]
    SimpleDocTemplate(str(tmp_path / "a.pdf"), pagesize=A4).build(
        [
            Paragraph("Annual report", styles["Heading1"]),
            Paragraph("Justified words of unequal extraordinary length fill lines. " * 30, justified),
            ListFlowable(items),
            ListFlowable(items, bulletType="bullet"),
        ]
    )
    assert " | " not in text_of(load([tmp_path / "a.pdf"], tmp_path / "c"))


def test_numbers_in_line_at_their_right_are_a_column(tmp_path: Path) -> None:
    rows = [["Item", "Price"], ["Apples", "1.20"], ["Oranges and lemons", "1,100.00"]]
    table = Table(rows, colWidths=[200, 80], style=[("ALIGN", (1, 0), (1, -1), "RIGHT")])
    SimpleDocTemplate(str(tmp_path / "a.pdf"), pagesize=A4).build([table])
    text = text_of(load([tmp_path / "a.pdf"], tmp_path / "c"))
    assert "Apples | 1.20\nOranges and lemons | 1,100.00" in text
