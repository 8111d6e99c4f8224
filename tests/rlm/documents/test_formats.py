"""Test PDF, DOCX, EPUB and HTML: files of real programs, and malicious files."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from document_tree import guessed_of, notes_of, text_of
from handmade_pdf import PAGES, pdf_by_hand

from rlm.answers.citations import cite
from rlm.documents import Loaded, load
from rlm.documents.formats.html import pieces_of_markup
from rlm.documents.formats.piece import Text
from rlm.errors import DocumentError
from rlm.sandbox.text.body import Body, Document


def only(loaded: Loaded) -> Document:
    [document] = loaded.context.documents
    return document


def at(body: Body, text: str) -> int:
    return body.text(0, body.chars).index(text)


def pdf_by_fpdf2(path: Path, pages: list[str]) -> None:
    from fpdf import FPDF

    document = FPDF()
    document.set_font("helvetica", size=12)
    for text in pages:
        document.add_page()
        document.multi_cell(0, 10, text)
    document.output(str(path))


def pdf_by_reportlab(path: Path, pages: list[str]) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path))
    for text in pages:
        for number, line in enumerate(text.splitlines()):
            canvas.drawString(72, 720 - 16 * number, line)
        canvas.showPage()
    canvas.save()


def pdf_by_pypdf(path: Path, pages: list[str]) -> None:
    """A PDF rewritten with compressed streams."""
    from pypdf import PdfReader, PdfWriter

    plain = path.with_name("plain.tmp")
    pdf_by_reportlab(plain, pages)
    writer = PdfWriter()
    for page in PdfReader(plain).pages:
        writer.add_page(page).compress_content_streams()
    writer.write(path)
    plain.unlink()


PROGRAMS = [pdf_by_fpdf2, pdf_by_reportlab, pdf_by_pypdf, pdf_by_hand]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_pdf_is_read_page_by_page_whatever_program_made_it(tmp_path: Path, program) -> None:
    """PDFs of different programs are read page by page."""
    path = tmp_path / "report.pdf"
    program(path, PAGES)
    loaded = load([path], tmp_path / "c")
    document = only(loaded)
    assert (document.kind, document.pages) == ("pdf", 3)
    assert notes_of(loaded) == ()
    with loaded.context.open() as body:
        for number, (page, name) in enumerate(zip(PAGES, ("Ada", "Grace", "Edsger"), strict=True), 1):
            place = body.place(at(body, name))
            assert place is not None
            assert (place.document, place.page) == ("report.pdf", number)
            assert " ".join(page.split()) in " ".join(body.text(0, body.chars).split())


async def test_a_passage_over_a_page_break_is_cited_with_both_pages(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with load([tmp_path / "a.pdf"], tmp_path / "c").context.open() as body:
        quotes = ["Two lines of it.\n\nThe second page", "names Edsger."]
        over, within = (await cite(quotes, "", body)).citations
    assert over.place == "a.pdf, pages 1 to 2, line 2"
    assert within.place.startswith("a.pdf, page 3, line ")


def test_a_docx_keeps_headings_lists_and_tables(tmp_path: Path) -> None:
    """The headings of a DOCX are in the index."""
    import docx

    made = docx.Document()
    made.add_heading("The Annual Report", 0)
    made.add_paragraph("Before all chapters, naïve 世界 🙂.")
    made.add_heading("Money", 1)
    made.add_heading("Income", 2)
    made.add_paragraph("We earned 12 crowns.")
    made.add_paragraph("a point", style="List Bullet")
    table = made.add_table(rows=2, cols=2)
    for row in range(2):
        for column in range(2):
            table.cell(row, column).text = f"cell {row}{column}"
    made.save(str(tmp_path / "report.docx"))
    loaded = load([tmp_path / "report.docx"], tmp_path / "c")
    assert only(loaded).kind == "docx"
    text = text_of(loaded)
    assert "Before all chapters, naïve 世界 🙂." in text
    assert "- a point\n" in text
    assert "cell 00 | cell 01\ncell 10 | cell 11\n" in text
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "12 crowns")) == ("The Annual Report", "Money", "Income") or (
            body.heading_path(at(body, "12 crowns")) == ("Money", "Income")
        )
        assert body.heading_path(at(body, "Before all")) == ("The Annual Report",)


def epub(path: Path, chapters: Mapping[str, str | bytes], spine: list[str], **extra: str | bytes) -> None:
    items = "".join(
        f'<item id="{n}" href="text/{n}.xhtml" media-type="application/xhtml+xml"/>' for n in chapters
    )
    refs = "".join(f'<itemref idref="{name}"/>' for name in spine)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>',
        )
        book.writestr(
            "OEBPS/content.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest>'
            f"<spine>{refs}</spine></package>",
        )
        for name, markup in chapters.items():
            book.writestr(f"OEBPS/text/{name}.xhtml", markup, zipfile.ZIP_DEFLATED)
        for name, data in extra.items():
            book.writestr(name.replace("__", "/"), data)


def chapter(title: str, text: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title>no</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"
    )


def test_an_epub_is_read_in_the_order_of_its_spine(tmp_path: Path) -> None:
    """The chapters of an EPUB come in the order of the spine, with their headings."""
    chapters = {
        "b": chapter("Call me", "Ishmael, naïve 🙂."),
        "a": chapter("The end", "All drowned."),
        "unused": chapter("Not in the spine", "hidden"),
    }
    epub(tmp_path / "whale.epub", chapters, ["b", "a"], nested__archive="PK\x03\x04 never opened")
    loaded = load([tmp_path / "whale.epub"], tmp_path / "c")
    assert only(loaded).kind == "epub"
    text = text_of(loaded)
    assert text.index("Ishmael") < text.index("All drowned")
    assert "hidden" not in text
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "Ishmael")) == ("Call me",)
        assert body.heading_path(at(body, "drowned")) == ("The end",)


def test_what_was_guessed_and_replaced_in_a_chapter_is_told(tmp_path: Path) -> None:
    guessed = "<p>Über die Kündigung entscheidet der Vorstand.</p>".encode("cp1252")
    broken = b'<?xml version="1.0" encoding="shift_jis"?><p>A damaged \x81 word.</p>'
    epub(tmp_path / "a.epub", {"a": guessed, "b": broken}, ["a", "b"])
    loaded = load([tmp_path / "a.epub"], tmp_path / "c")
    assert loaded.replaced == 1
    assert guessed_of(loaded) == {"a.epub": "cp1252"}


def test_html_becomes_text_with_its_headings(tmp_path: Path) -> None:
    """h1 to h6 are headings; scripts and styles are not text."""
    (tmp_path / "page.html").write_text(
        "<!doctype html><title>The site</title><style>p {color: red}</style><body>"
        "<h1>Top</h1><p>One &amp; <b>two</b>,\n  three.<br>Next line.</p><script>evil()</script>"
        "<h2>Be<i>low</i></h2><ul><li>x<li>y</ul><pre>  kept\n    as is</pre>"
        "<table><tr><td>1</td><td><p>2</p></td></tr></table><p hidden></p>tail</body>",
        "utf-8",
    )
    loaded = load([tmp_path / "page.html"], tmp_path / "c")
    assert only(loaded).kind == "html"
    assert text_of(loaded) == (
        "The site\n\n# Top\n\nOne & two, three.\nNext line.\n\n## Below\n\n- x\n- y\n\n  kept\n    as is\n\n"
        "1 | 2\n\ntail\n"
    )
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "kept")) == ("Top", "Below")


def test_what_a_page_holds_beside_its_text_is_read(tmp_path: Path) -> None:
    """Targets of links, what is typed in, drawings; not what the text says already, or nobody sees."""
    (tmp_path / "page.html").write_text(
        "<p>Write to <a href='mailto:bob@example.org'>us</a> or <a href='https://x.org/'>x.org</a>, "
        "<a href='#top'>up</a></p><form><input value='Jo Lee'><input type=hidden value=token>"
        "<textarea>Two\nlines</textarea><select><option>Oslo</select></form>"
        "<svg><style>p {}</style><text>The yard</text></svg>"
    )
    text = text_of(load([tmp_path / "page.html"], tmp_path / "c"))
    assert "Write to us (bob@example.org) or x.org, up\n" in text
    for words in ("Jo Lee", "Two\nlines", "Oslo", "The yard"):
        assert words in text
    assert "token" not in text
    assert "p {}" not in text


def test_items_of_ordered_lists_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<ol><li>Term<ol type=a><li><p>Rent</p><li>Notice</ol><li value=7>Law<li>Place</ol>"
        "<ol start=3 type=I><li>Three<li></li></ol><ol reversed><li>Two<li>One</ol><ul><li>x</ul>"
    )
    assert text_of(load([tmp_path / "page.html"], tmp_path / "c")).split("\n\n") == [
        "1. Term", "a. Rent", "b. Notice", "7. Law\n8. Place", "III. Three", "2. Two\n1. One", "- x\n",
    ]  # fmt: skip


def test_a_large_page_costs_time_by_its_size_alone(tmp_path: Path) -> None:
    """Time quadratic in the 20,000 sections would exceed the test's limit."""
    parts = "".join(f"<h2>S{n}</h2><div><p>Text <b>{n}</b>.</p></div>" for n in range(20_000))
    (tmp_path / "large.html").write_text(parts)
    loaded = load([tmp_path / "large.html"], tmp_path / "c")
    with loaded.context.open() as body:
        assert len(body.marks.headings) == 20_000
        assert body.heading_path(at(body, "Text 19999.")) == ("S19999",)


@pytest.mark.parametrize(
    ("markup", "guessed"),
    [
        ("<meta charset='windows-1251'><p>Привет, мир".encode("cp1251"), False),
        ("<p>Les élèves français étaient déjà là".encode("cp1252"), True),
        ("<p>naïve 世界".encode("utf-16"), False),
        (b"\xef\xbb\xbf" + "<p>naïve 世界".encode(), False),
    ],
)
def test_html_is_decoded_as_it_says_or_as_it_looks(tmp_path: Path, markup: bytes, guessed: bool) -> None:
    (tmp_path / "page.html").write_bytes(markup)
    loaded = load([tmp_path / "page.html"], tmp_path / "c")
    assert text_of(loaded).strip() in ("Привет, мир", "Les élèves français étaient déjà là", "naïve 世界")
    assert bool(guessed_of(loaded)) is guessed
    assert loaded.replaced == 0


def locked_pdf(path: Path) -> None:
    from pypdf import PdfReader, PdfWriter

    plain = path.with_name("plain.tmp")
    pdf_by_hand(plain, PAGES)
    writer = PdfWriter()
    for page in PdfReader(plain).pages:
        writer.add_page(page)
    writer.encrypt("secret")
    writer.write(path)
    plain.unlink()


def scanned_pdf(path: Path) -> None:
    from pypdf import PdfWriter

    writer = PdfWriter()
    for _ in range(3):
        writer.add_blank_page(200, 200)
    writer.write(path)


def cut_pdf(path: Path) -> None:
    pdf_by_reportlab(path, PAGES)
    path.write_bytes(path.read_bytes()[:200])


def no_pdf(path: Path) -> None:
    path.write_text("<html>404</html>")


def cut_docx(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + os.urandom(500))


def locked_docx(path: Path) -> None:
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))


def bomb_docx(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", bytes(60 << 20))


def entity_docx(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(
            "word/document.xml",
            '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>',
        )


def no_docx(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.zip", b"PK\x03\x04")


def bomb_epub(path: Path) -> None:
    epub(path, {"a": "<p>" + "x" * (60 << 20)}, ["a"])


def entity_epub(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", '<!DOCTYPE x [<!ENTITY a "ha">]><x>&a;</x>')


def empty_epub(path: Path) -> None:
    epub(path, {}, [])


def protected_epub(path: Path) -> None:
    rights = '<encryption><d xmlns="x"><CipherReference URI="OEBPS/text/a.xhtml"/></d></encryption>'
    epub(path, {"a": "garbage"}, ["a"], **{"META-INF__encryption.xml": rights})


def deep_html(path: Path) -> None:
    path.write_text("<div>" * 300_000 + "x")


def silent_html(path: Path) -> None:
    path.write_text("<html><body><script>only()</script></body></html>")


HOSTILE = [
    (locked_pdf, "pdf", "protected by a password", "qpdf"),
    (scanned_pdf, "pdf", "without any text", "ocrmypdf"),
    (cut_pdf, "pdf", "cannot be opened", "get it again"),
    (no_pdf, "pdf", "cannot be opened", "get it again"),
    (cut_docx, "docx", "damaged or truncated", "get it again"),
    (locked_docx, "docx", "protected by a password", "without a password"),
    (bomb_docx, "docx", "zip bomb", "unpack or split it yourself"),
    (entity_docx, "docx", "XML bomb", "yourself"),
    (no_docx, "docx", "not a DOCX", "unpack the archive"),
    (bomb_epub, "epub", "zip bomb", "unpack or split it yourself"),
    (entity_epub, "epub", "XML bomb", "yourself"),
    (empty_epub, "epub", "no chapters", "get it again"),
    (protected_epub, "epub", "copy protection", "without it"),
    (deep_html, "html", "nested too deeply", ".txt"),
    (silent_html, "html", "without any text", "holds text"),
]


@pytest.mark.parametrize(("make", "suffix", "reason", "remedy"), HOSTILE)
def test_a_document_that_cannot_be_read_is_one_clear_line(
    tmp_path: Path, make, suffix: str, reason: str, remedy: str
) -> None:
    """A broken PDF, a password, and a zip bomb each give one clear line."""
    path = tmp_path / f"bad.{suffix}"
    make(path)
    with pytest.raises(DocumentError) as caught:
        load([path], tmp_path / "c")
    message = str(caught.value)
    assert str(path) in message
    assert reason in message
    assert remedy in message
    assert "\n" not in message
    assert not (tmp_path / "c").exists()


def test_the_rest_still_loads_next_to_documents_that_cannot_be_read(tmp_path: Path) -> None:
    """The rest still loads, and each broken document is listed with its remedy."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, (make, suffix, _, _) in enumerate(HOSTILE):
        make(folder / f"{number:02}.{suffix}")
    pdf_by_hand(folder / "good.pdf", PAGES)
    (folder / "good.txt").write_text("plain words")
    loaded = load([folder], tmp_path / "c")
    assert [document.name for document in loaded.context.documents] == ["good.pdf", "good.txt"]
    assert len(loaded.problems) == len(HOSTILE)
    for skipped, (_, _, reason, remedy) in zip(loaded.problems, HOSTILE, strict=True):
        assert reason in skipped.what
        assert remedy in skipped.remedy
    named = load([folder / "00.pdf", folder / "good.txt"], tmp_path / "d")
    assert [document.name for document in named.context.documents] == ["good.txt"]
    assert named.problems[0].remedy


def test_pages_without_text_are_noted(tmp_path: Path) -> None:
    """A page with only a picture counts, so the pages after it keep their numbers."""
    pdf_by_reportlab(tmp_path / "a.pdf", ["", "words here", "", "more words"])
    loaded = load([tmp_path / "a.pdf"], tmp_path / "c")
    [note] = notes_of(loaded)
    assert note.startswith("a.pdf: 2 of 4 pages hold no text (scanned?): if they matter, have its words")
    with loaded.context.open() as body:
        place = body.place(at(body, "more words"))
        assert place is not None
        assert place.page == 4


def test_a_folder_of_two_thousand_real_files(tmp_path: Path) -> None:
    """A folder of 2,000 real files of every kind loads."""
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    pdf_by_hand(folder / "a.pdf", PAGES)
    epub(folder / "b.epub", {"a": chapter("One", "text")}, ["a"])
    for number in range(200):
        shutil.copy(folder / "a.pdf", folder / "sub" / f"{number}.pdf")
        shutil.copy(folder / "b.epub", folder / "sub" / f"{number}.epub")
        (folder / "sub" / f"{number}.html").write_text(f"<h1>Page {number}</h1><p>html {number}")
    for number in range(700):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\ntext {number}\n")
        (folder / "sub" / f"{number}.txt").write_text(f"text {number}\n")
    loaded = load([folder], tmp_path / "c")
    kinds: dict[str, int] = {}
    for document in loaded.context.documents:
        kinds[document.kind] = kinds.get(document.kind, 0) + 1
    assert kinds == {"pdf": 201, "epub": 201, "html": 200, "markdown": 700, "text": 700}
    assert loaded.problems == ()
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "html 77")) == ("Page 77",)
        assert body.heading_path(at(body, "text 77\n")) == ("Note 77",)


def test_an_empty_element_of_xhtml_swallows_nothing(tmp_path: Path) -> None:
    """`<title/>` is a whole element there, and an open one in HTML."""
    two = chapter("Two", "The notice is seventeen weeks.")
    chapters = {
        "a": chapter("One", "The rent is 900."),
        "b": two.replace("<title>no</title>", "<title/>"),
        "c": two.replace("Two", "Three").replace("</head>", '<script src="x.js" /></head>'),
    }
    epub(tmp_path / "a.epub", chapters, ["a", "b", "c"])
    text = text_of(load([tmp_path / "a.epub"], tmp_path / "c"))
    for words in ("# One\n\nThe rent", "# Two\n\nThe notice", "# Three\n\nThe notice"):
        assert words in text
    (tmp_path / "b.xhtml").write_text(chapters["b"])
    assert "# Two\n\nThe notice" in text_of(load([tmp_path / "b.xhtml"], tmp_path / "d"))


def test_formulas_and_lone_dashes_of_a_page_are_kept() -> None:
    markup = (
        '<p>It takes <math alttext="O(n^2)"><mi>O</mi></math> and <math><mi>x</mi><annotation '
        'encoding="application/x-tex">x_1</annotation></math>.</p>'
        "<table><tr><th>yard</th><th>debt</th></tr><tr><td>north</td><td>-</td></tr></table><p>---</p><ul><li></ul>"
    )
    shown = "".join(piece.text for piece in pieces_of_markup(markup) if isinstance(piece, Text))
    assert "It takes O(n^2) and x_1." in shown
    assert "north | -" in shown or "north\t-" in shown
    assert shown.rstrip().endswith("\n---")


@pytest.mark.parametrize("has_words", [True, False])
def test_the_form_fields_and_comments_of_a_pdf_are_read(tmp_path: Path, has_words: bool) -> None:
    """They stand on no page. A page that has only them is no scan."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.annotations import FreeText, Text
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "form.pdf"))
    if has_words:
        canvas.drawString(72, 720, "The lease of the yard x.org")
    for address in ("https://x.org/law", "https://x.org/law", "http://x.org", "") if has_words else ():
        canvas.linkURL(address, (72, 720, 90, 730))
    form = canvas.acroForm
    form.textfield(name="tenant", tooltip="Tenant", x=200, y=700, value="Fish and Wildlife Service")
    form.textfield(name="note", x=200, y=660)
    form.checkbox(name="paid", tooltip="Paid", x=200, y=650, checked=True)
    form.checkbox(name="late", tooltip="Late", x=200, y=620, checked=False)
    form.choice(name="yard", x=200, y=580, value="north", options=["north", "south"])
    canvas.showPage()
    canvas.save()
    writer = PdfWriter(clone_from=PdfReader(tmp_path / "form.pdf"))
    writer.add_annotation(0, Text(text="Ask Mr Quimby", rect=(50, 550, 200, 650), title_bar="Ann"))
    writer.add_annotation(0, FreeText(text="seventeen weeks", rect=(50, 450, 200, 500)))
    writer.write(tmp_path / "form.pdf")
    loaded = load([tmp_path / "form.pdf"], tmp_path / "c")
    added = (
        "Form fields:\nTenant: Fish and Wildlife Service\nPaid: Yes\nyard: north\n"
        "Comments:\nAnn: Ask Mr Quimby\nComment: seventeen weeks\n\n"
    )
    if has_words:
        added = f"The lease of the yard x.org\n\n{added[:-2]}\nLinks:\nhttps://x.org/law\n\n"
    assert text_of(loaded) == added
    assert [note.partition(" pages")[0] for note in notes_of(loaded)] == (
        [] if has_words else ["form.pdf: 1 of 1"]
    )
    # A page that was cut out of its document has no form, but its fields.
    del writer.root_object["/AcroForm"]
    writer.write(tmp_path / "page.pdf")
    assert "note: Fish" not in (text := text_of(load([tmp_path / "page.pdf"], tmp_path / "d")))
    assert "tenant: Fish and Wildlife Service\nyard: north\n" in text
