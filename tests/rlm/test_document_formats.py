"""PDF, DOCX, EPUB and HTML: real files of real programs, and files that mean harm."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from rlm.documents import Loaded, StreamSource, TextSource, load
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.frames import FrameError, packed, read_piece
from rlm.documents.formats.piece import Ended, Heading, Note, Page, Piece, Text, Unreadable
from rlm.errors import DocumentError
from sandbox.in_kernel.body import Body, Document
from sandbox.isolation import landlock


def text_of(loaded: Loaded) -> str:
    with loaded.context.open() as body:
        return body.text(0, body.chars)


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
    """Taken apart and put together again, all its streams packed."""
    from pypdf import PdfReader, PdfWriter

    plain = path.with_name("plain.tmp")
    pdf_by_reportlab(plain, pages)
    writer = PdfWriter()
    for page in PdfReader(plain).pages:
        writer.add_page(page).compress_content_streams()
    writer.write(path)
    plain.unlink()


def pdf_by_hand(path: Path, pages: list[str]) -> None:
    """As little as a program that writes PDF itself writes: no compression, no fonts embedded."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in text.splitlines())
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out += (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (
            len(objects) + 1,
            table,
            len(objects) + 1,
            len(out),
        )
    )
    path.write_bytes(out)


PAGES = [
    "The first page names Ada.\nTwo lines of it.",
    "The second page names Grace.",
    "The third names Edsger.",
]
PROGRAMS = [pdf_by_fpdf2, pdf_by_reportlab, pdf_by_pypdf, pdf_by_hand]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_pdf_is_read_page_by_page_whatever_program_made_it(tmp_path: Path, program) -> None:
    """Issue 4.1: PDF (page by page); PDFs made by different programs."""
    path = tmp_path / "report.pdf"
    program(path, PAGES)
    loaded = load([path], tmp_path / "c")
    document = only(loaded)
    assert (document.kind, document.pages) == ("pdf", 3)
    assert loaded.notes == ()
    with loaded.context.open() as body:
        for number, (page, name) in enumerate(zip(PAGES, ("Ada", "Grace", "Edsger"), strict=True), 1):
            place = body.place(at(body, name))
            assert place is not None
            assert (place.document, place.page) == ("report.pdf", number)
            assert " ".join(page.split()) in " ".join(body.text(0, body.chars).split())


def test_a_pdf_on_a_stream_and_one_in_bytes_are_read_too(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    data = (tmp_path / "a.pdf").read_bytes()
    loaded = load([StreamSource("stdin", io.BytesIO(data)), TextSource("bytes", data)], tmp_path / "c")
    assert [(d.name, d.kind, d.pages) for d in loaded.context.documents] == [
        ("stdin", "pdf", 3),
        ("bytes", "pdf", 3),
    ]


def test_a_docx_keeps_headings_lists_and_tables(tmp_path: Path) -> None:
    """Issue 4.1: DOCX; heading path as spans."""
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
    assert "cell 00\tcell 01\ncell 10\tcell 11\n" in text
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "12 crowns")) == ("The Annual Report", "Money", "Income") or (
            body.heading_path(at(body, "12 crowns")) == ("Money", "Income")
        )
        assert body.heading_path(at(body, "Before all")) == ("The Annual Report",)


def epub(path: Path, chapters: dict[str, str], spine: list[str], **extra: str | bytes) -> None:
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
    """Issue 4.1: EPUB: spine order, chapter headings."""
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


def test_html_becomes_text_with_its_headings(tmp_path: Path) -> None:
    """Issue 4.1: HTML (h1–h6); scripts and styles are no text."""
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
        "1\t2\n\ntail\n"
    )
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "kept")) == ("Top", "Below")


def test_a_large_page_costs_time_by_its_size_alone(tmp_path: Path) -> None:
    """20,000 sections: with time that grew by their square it would not end within the test's limit."""
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
    assert bool(loaded.guessed) is guessed
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
    (scanned_pdf, "pdf", "without text", "ocrmypdf"),
    (cut_pdf, "pdf", "can't be opened", "get it again"),
    (no_pdf, "pdf", "can't be opened", "get it again"),
    (cut_docx, "docx", "can't be opened", "get it again"),
    (locked_docx, "docx", "protected by a password", "without a password"),
    (bomb_docx, "docx", "zip bomb", "unpack it yourself"),
    (entity_docx, "docx", "XML bomb", "save it anew"),
    (no_docx, "docx", "no DOCX", "unpack it"),
    (bomb_epub, "epub", "zip bomb", "unpack it yourself"),
    (entity_epub, "epub", "XML bomb", "save it anew"),
    (empty_epub, "epub", "without chapters", "get it again"),
    (protected_epub, "epub", "copy protection", "without it"),
    (deep_html, "html", "nested more than", ".txt"),
    (silent_html, "html", "without any text", "holds text"),
]


@pytest.mark.parametrize(("make", "suffix", "reason", "remedy"), HOSTILE)
def test_a_document_that_cannot_be_read_is_one_clear_line(
    tmp_path: Path, make, suffix: str, reason: str, remedy: str
) -> None:
    """Issue 4.1: a broken PDF, a password, a zip bomb: a clear line each."""
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


def test_the_rest_still_loads_beside_documents_that_cannot_be_read(tmp_path: Path) -> None:
    """Issue 4.1: …, the rest still loads; each broken one is named with its remedy."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, (make, suffix, _, _) in enumerate(HOSTILE):
        make(folder / f"{number:02}.{suffix}")
    pdf_by_hand(folder / "good.pdf", PAGES)
    (folder / "good.txt").write_text("plain words")
    loaded = load([folder], tmp_path / "c")
    assert [document.name for document in loaded.context.documents] == ["good.pdf", "good.txt"]
    assert len(loaded.skipped) == len(HOSTILE)
    for skipped, (_, _, reason, remedy) in zip(loaded.skipped, HOSTILE, strict=True):
        assert reason in skipped.reason
        assert remedy in skipped.remedy
    named = load([folder / "00.pdf", folder / "good.txt"], tmp_path / "d")
    assert [document.name for document in named.context.documents] == ["good.txt"]
    assert named.skipped[0].remedy


def test_nothing_but_documents_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Issue 4.1: all broken: an error that says what helps."""
    folder = tmp_path / "folder"
    folder.mkdir()
    cut_pdf(folder / "a.pdf")
    scanned_pdf(folder / "b.pdf")
    with pytest.raises(DocumentError, match="holds no text: nothing in it could be read"):
        load([folder], tmp_path / "c")
    with pytest.raises(DocumentError, match=r"nothing to read.*get it again"):
        load([folder / "a.pdf", folder / "b.pdf"], tmp_path / "c")


def test_pages_without_text_are_said(tmp_path: Path) -> None:
    """A page with a picture only leaves its number to the pages after it."""
    pdf_by_reportlab(tmp_path / "a.pdf", ["", "words here", "", "more words"])
    loaded = load([tmp_path / "a.pdf"], tmp_path / "c")
    [note] = loaded.notes
    assert note.startswith("a.pdf: 2 of 4 pages hold no text (scanned?): run text recognition")
    with loaded.context.open() as body:
        place = body.place(at(body, "more words"))
        assert place is not None
        assert place.page == 4


def test_spreadsheets_and_the_like_are_named_for_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "table.xlsx").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(DocumentError, match=r"binary \(a spreadsheet\): export it as CSV"):
        load([tmp_path / "table.xlsx"], tmp_path / "c")


def test_the_reader_process_has_no_keys_and_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys never reach the process that parses what strangers wrote."""
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with Converter() as converter, (tmp_path / "a.pdf").open("rb") as file:
        pieces = converter.pieces(file.fileno(), 1_000, "pdf", lambda: None)
        next(pieces)
        assert converter._process is not None
        pid = converter._process.pid
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"PYTHONPATH" in environment
        assert b"sk-planted" not in environment
        assert any(isinstance(piece, Ended) for piece in pieces)
    assert not Path(f"/proc/{pid}").exists()


def test_the_reader_process_opens_no_file_and_no_connection(tmp_path: Path) -> None:
    """What a flaw in a parser could reach: not the user's files, not the network, where the system can hold
    it. Run in the place of a reader, after the same confinement."""
    if not landlock.available():
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "private.txt").write_text("secret")
    code = textwrap.dedent(
        f"""
        import errno, socket
        from rlm.documents.formats import worker
        worker._confine()
        for act in (
            lambda: open({str(tmp_path / "private.txt")!r}).read(),
            lambda: open({str(tmp_path / "made.txt")!r}, "w"),
            lambda: socket.create_connection(("127.0.0.1", 9), 1),
        ):
            try:
                act()
            except OSError as error:
                print("refused" if error.errno in (errno.EACCES, errno.EPERM, errno.EOPNOTSUPP) else error)
        """
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout.split() == ["refused"] * 3


def test_one_process_reads_many_documents_and_is_renewed_when_it_dies(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)

    def read(converter: Converter) -> list[Piece]:
        with (tmp_path / "a.pdf").open("rb") as file:
            return list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))

    with Converter() as converter:
        first = read(converter)
        assert converter._process is not None
        pid = converter._process.pid
        assert read(converter) == first
        assert converter._process.pid == pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unreadable, match="broke down"):
            read(converter)
        assert read(converter) == first


def test_a_reader_that_hangs_is_killed(tmp_path: Path) -> None:
    """A document its reader never gets done with costs a bounded time, and nothing after it."""
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with Converter() as converter, (tmp_path / "a.pdf").open("rb") as file:
        assert list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))
        assert converter._process is not None
        converter._silence = 0.5
        os.kill(converter._process.pid, signal.SIGSTOP)
        with pytest.raises(Unreadable, match=r"silent for 0\.5 s"):
            list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))
        assert converter._process is None


def test_a_reader_that_wants_too_much_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.html").write_text("<p>word</p>" * 1_000_000)
    with (
        Converter(memory=250 << 20) as converter,
        (tmp_path / "big.html").open("rb") as file,
        pytest.raises(Unreadable, match=r"memory allowed|broke down|not readable"),
    ):
        list(converter.pieces(file.fileno(), 11_000_000, "html", lambda: None))


class Stopped(Exception):
    pass


def test_progress_can_end_the_waiting_for_a_reader(tmp_path: Path) -> None:
    """A run can be cancelled while a document is being taken apart."""
    (tmp_path / "slow.html").write_text("<p>" + "<b>word</b> " * 1_500_000)
    began = time.monotonic()

    def progress(name: str, size: int) -> None:
        if time.monotonic() - began > 0.3:
            raise Stopped

    with pytest.raises(Stopped):
        load([tmp_path / "slow.html"], tmp_path / "c", progress)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "piece",
    [Text("naïve 🙂\n"), Heading(2, "Title"), Page(), Note("a note"), Ended(3, "cp1252"), Ended()],
)
def test_pieces_survive_the_channel(piece: Piece) -> None:
    assert read_piece(io.BytesIO(packed(piece)).read) == piece


@pytest.mark.parametrize(
    "data",
    [
        b"T\xff\xff\xff\xff",
        b"Z\0\0\0\0",
        b"T\x01\0\0\0\xff",
        b"H\0\0\0\0",
        b"E\x02\0\0\0[]",
        b"U\x02\0\0\0{}",
    ],
)
def test_bytes_of_a_reader_taken_over_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        read_piece(io.BytesIO(data).read)


def test_a_folder_of_two_thousand_real_files(tmp_path: Path) -> None:
    """Issue 4: a folder of 2,000 real files, of every kind."""
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
    assert loaded.skipped == ()
    with loaded.context.open() as body:
        assert body.heading_path(at(body, "html 77")) == ("Page 77",)
        assert body.heading_path(at(body, "text 77\n")) == ("Note 77",)
