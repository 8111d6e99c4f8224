"""What stands in a Word document apart from its text: margins, notes, comments, text boxes, charts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest
from document_tree import text_of

from rlm import RLM, Settings
from rlm.documents import Loaded, load
from rlm.errors import DocumentError

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
_NAMES = (
    f"xmlns:w='{_W}' xmlns:r='{_OFFICE}' xmlns:wp='{_DRAWING}/wordprocessingDrawing' "
    f"xmlns:a='{_DRAWING}/main' xmlns:c='{_DRAWING}/chart' xmlns:v='urn:schemas-microsoft-com:vml' "
    "xmlns:wps='http://schemas.microsoft.com/office/word/2010/wordprocessingShape' "
    "xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006' "
    "xmlns:m='http://schemas.openxmlformats.org/officeDocument/2006/math'"
)
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def p(text: str) -> str:
    return f"<w:p><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>"


def word(path: Path, body: str, **parts: str | bytes) -> Path:
    """Write a document with `body` and further parts, each linked by the word that its name begins with."""
    names = {name: name.replace("_", ".") for name in parts}
    kinds = {name: name.partition("_")[0].rstrip("0123456789") for name in parts}
    links = "".join(
        f"<Relationship Id='{name}' Type='{_OFFICE}/{kinds[name]}' Target='{names[name]}'/>" for name in parts
    )
    head = "<?xml version='1.0' encoding='UTF-8'?>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f"<Types xmlns='{_PACKAGE}/content-types'>"
            f"<Default Extension='xml' ContentType='{_TYPE}'/></Types>",
        )
        archive.writestr(
            "_rels/.rels",
            f"<Relationships xmlns='{_PACKAGE}/relationships'><Relationship Id='a' "
            f"Type='{_OFFICE}/officeDocument' Target='word/document.xml'/></Relationships>",
        )
        archive.writestr(
            "word/_rels/document.xml.rels",
            f"<Relationships xmlns='{_PACKAGE}/relationships'>{links}</Relationships>",
        )
        archive.writestr(
            "word/document.xml", f"{head}<w:document {_NAMES}><w:body>{body}</w:body></w:document>"
        )
        for name, content in parts.items():
            archive.writestr(f"word/{names[name]}", content)
    return path


def part(root: str, content: str) -> str:
    return f"<w:{root} {_NAMES}>{content}</w:{root}>"


def read(path: Path, folder: Path) -> Loaded:
    return load([path], folder / "context")


def test_headers_and_footers_are_read_once_and_page_numbers_left_out(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("The text of the lease.")
    made.sections[0].header.paragraphs[0].text = "Lease number 2024-17"
    made.sections[0].footer.paragraphs[0].text = "Kept by Mr Quimby"
    section = made.add_section()
    section.header.is_linked_to_previous = False
    section.header.paragraphs[0].text = "Lease number 2024-17"
    section.footer.is_linked_to_previous = False
    section.footer.paragraphs[0].text = "- 12 -"
    made.save(str(tmp_path / "a.docx"))
    loaded = read(tmp_path / "a.docx", tmp_path)
    assert text_of(loaded) == (
        "The text of the lease.\n# Headers and footers\nLease number 2024-17\nKept by Mr Quimby\n"
    )
    assert loaded.unread == ()


def run(content: str) -> str:
    return f"<w:p><w:r>{content}</w:r></w:p>"


def drawing(content: str) -> str:
    inline = f"<wp:inline><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></wp:inline>"
    return f"<w:drawing>{inline}</w:drawing>"


def box(text: str) -> str:
    return drawing(f"<wps:txbx><w:txbxContent>{p(text)}</w:txbxContent></wps:txbx>")


def either(newer: str, older: str = "") -> str:
    older = older and f"<mc:Fallback>{older}</mc:Fallback>"
    return f"<mc:AlternateContent><mc:Choice Requires='wps'>{newer}</mc:Choice>{older}</mc:AlternateContent>"


RENT = p("The rent.")
NOTES = part(
    "footnotes",
    f"<w:footnote w:id='2'>{p('Agreed in Oslo.')}</w:footnote>"
    f"<w:footnote w:id='3'>{p('Not referred to.')}</w:footnote>",
)
COMMENTS = part(
    "comments", f"<w:comment w:id='0' w:author='Ann Lee'>{p('Is it 900?')}{p('Or 950?')}</w:comment>"
)
CHART = (
    f"<c:chartSpace {_NAMES}><c:ser><c:tx><c:pt idx='0'><c:v>Hives</c:v></c:pt></c:tx>"
    "<c:cat><c:pt idx='0'><c:v>2024</c:v></c:pt></c:cat><c:val><c:pt idx='0'><c:v>31</c:v></c:pt></c:val>"
    "</c:ser></c:chartSpace>"
)
CHOICE = (
    "<w:fldChar w:fldCharType='begin'><w:ffData><w:ddList><w:result w:val='1'/><w:listEntry w:val='yes'/>"
    "<w:listEntry w:val='never'/></w:ddList></w:ffData></w:fldChar><w:t>Pets: </w:t>"
)
DROPPED = {
    "a comment": (RENT, {"comments_xml": COMMENTS}, "# Comments\nAnn Lee: Is it 900? Or 950?\n"),
    "a text box": (RENT + run(box("17 weeks.")), {}, "# Text boxes and other text\n17 weeks.\n"),
    "a text box without an older form": (RENT + run(either(box("17 weeks."))), {}, "17 weeks.\n"),
    "an equation": (
        "<w:p><w:r><w:t>Rent is </w:t></w:r><m:oMath><m:r><m:t>r=90n</m:t></m:r></m:oMath></w:p>",
        {},
        "Rent is r=90n\n",
    ),
    "a footnote that no text refers to": (
        RENT,
        {"footnotes_xml": NOTES},
        "# Notes\nAgreed in Oslo.\nNot referred to.\n",
    ),
    "an endnote": (
        RENT,
        {"endnotes_xml": part("endnotes", f"<w:endnote w:id='2'>{p('Agreed in Oslo.')}</w:endnote>")},
        "# Notes\nAgreed in Oslo.\n",
    ),
    "a text box in a header": (
        RENT,
        {"header1_xml": part("hdr", run(box("Boxed letterhead.")))},
        "# Headers and footers\nBoxed letterhead.\n",
    ),
    "a chart": (
        RENT + run(drawing("<c:chart r:id='chart_xml'/>")),
        {"chart_xml": CHART},
        "| Hives\n2024 | 31\n",
    ),
    "a page of HTML": (
        RENT + "<w:altChunk r:id='aFChunk_html'/>",
        {"aFChunk_html": "<p>Chunk of 17 weeks.</p>"},
        "Chunk of 17 weeks.\n",
    ),
    "a choice of a form": (run(CHOICE), {}, "never"),
    "right to left text": (
        "<w:p><w:bdo w:val='rtl'><w:r><w:t>Turned about.</w:t></w:r></w:bdo></w:p>",
        {},
        "Turned about.\n",
    ),
    "a field": (
        "<w:p><w:fldSimple w:instr='AUTHOR'><w:r><w:t>Mr Quimby</w:t></w:r></w:fldSimple></w:p>",
        {},
        "Mr Quimby",
    ),
}


@pytest.mark.parametrize("what", DROPPED)
def test_what_the_library_drops_is_read(tmp_path: Path, what: str) -> None:
    body, parts, expected = DROPPED[what]
    loaded = read(word(tmp_path / "a.docx", body, **parts), tmp_path)
    text = text_of(loaded)
    assert expected in text
    assert loaded.unread == ()


def test_what_the_library_reads_is_there_once(tmp_path: Path) -> None:
    inserted = "<w:p><w:ins w:id='1' w:author='a'><w:r><w:t>Inserted words.</w:t></w:r></w:ins></w:p>"
    older = f"<v:textbox><w:txbxContent>{p('Old box.')}</w:txbxContent></v:textbox>"
    both = run(either(box("Old box."), f"<w:pict><v:shape>{older}</v:shape></w:pict>"))
    note = "<w:p><w:r><w:t>Noted</w:t></w:r><w:r><w:footnoteReference w:id='2'/></w:r></w:p>"
    path = word(tmp_path / "a.docx", p("Plain.") + inserted + both + note, footnotes_xml=NOTES)
    text = text_of(read(path, tmp_path))
    for words in ("Plain.", "Inserted words.", "Old box.", "Agreed in Oslo.", "Not referred to."):
        assert text.count(words) == 1


def test_proposed_deletions_pictures_and_foreign_parts_are_named(tmp_path: Path) -> None:
    gone = "<w:del w:id='1'><w:r><w:delText>Gone.</w:delText></w:r></w:del>"
    deleted = f"<w:p>{gone}<w:r><w:t>Kept.</w:t></w:r></w:p>"
    picture = run(drawing("<a:blip r:embed='x'/>"))
    path = word(
        tmp_path / "a.docx",
        deleted + picture + "<w:altChunk r:id='aFChunk_docx'/>",
        aFChunk_docx=b"PK\x03\x04",
    )
    loaded = read(path, tmp_path)
    assert "Gone." not in text_of(loaded)
    assert loaded.unread == ("a.docx (in part)",)
    assert any("1 deletion" in note for note in loaded.notes)
    assert any(
        "the words in pictures and embedded objects were not read (2)" in note for note in loaded.notes
    )


def test_a_picture_that_is_shown_twice_counts_once(tmp_path: Path) -> None:
    """The words of a stamp are words of the text, however often it stands there."""
    pictures = run(drawing("<a:blip r:embed='stamp_png'/>")) * 2 + run(drawing("<a:blip r:embed='x_png'/>"))
    path = word(tmp_path / "a.docx", RENT + pictures, stamp_png=b"one", x_png=b"two")
    (note,) = read(path, tmp_path).notes
    assert note.startswith("a.docx: the words in pictures and embedded objects were not read (2)")


def test_the_encoding_of_a_page_that_is_put_in_is_told(tmp_path: Path) -> None:
    page = "<p>Über die Kündigung entscheidet der Vorstand.</p>".encode("cp1252")
    chunk = RENT + "<w:altChunk r:id='aFChunk_html'/>"
    (guess,) = read(word(tmp_path / "a.docx", chunk, aFChunk_html=page), tmp_path).guessed
    assert (guess.document, guess.encoding) == ("a.docx", "cp1252")


def test_a_damaged_part_is_named_and_the_text_is_read(tmp_path: Path) -> None:
    loaded = read(word(tmp_path / "a.docx", p("The rent."), header1_xml="<w:hdr broken"), tmp_path)
    assert text_of(loaded) == "The rent.\n"
    (note,) = loaded.notes
    assert note.startswith("a.docx: its part word/header1.xml is damaged and was not read: ")


async def test_the_answer_in_a_header_is_cited_with_its_place(tmp_path: Path) -> None:
    header = part("hdr", p("The notice period of the yard is seventeen weeks."))
    path = word(tmp_path / "lease.docx", p("The rent is 900 euros a month. ") * 300, header1_xml=header)
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    result = await rlm.run("What is the notice period of the yard?", path)
    cited = [one for one in result.citations if "seventeen weeks" in one.quote]
    assert cited[0].verified
    assert "under “Headers and footers”" in cited[0].place


def test_a_text_of_many_boxes_is_read_in_time(tmp_path: Path) -> None:
    """Time quadratic in the paragraphs would exceed the limit."""
    body = "".join(p(f"Paragraph {number}.") + run(box(f"Box {number}.")) for number in range(8_000))
    text = text_of(read(word(tmp_path / "a.docx", body), tmp_path))
    assert text.count("Box ") == 8_000


@pytest.mark.parametrize("name", ["header1_xml", "comments_xml", "chart_xml"])
def test_parts_that_declare_entities_or_are_nested_deeply_end_in_one_line(tmp_path: Path, name: str) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><a>&d;</a>'
    with pytest.raises(DocumentError, match="XML bomb"):
        read(word(tmp_path / "a.docx", p("The rent."), **{name: bomb}), tmp_path)
    deep = part("hdr", "<w:sdt>" * 60_000 + "</w:sdt>" * 60_000)
    path = word(tmp_path / "b.docx", RENT + run(drawing("<c:chart r:id='chart_xml'/>")), **{name: deep})
    if name == "comments_xml":
        with pytest.raises(DocumentError, match="nested too deeply"):
            load([path], tmp_path / "deep")
    else:
        loaded = load([path], tmp_path / "deep")
        assert text_of(loaded) == "The rent.\n"
        assert loaded.unread == ("b.docx (in part)",)


def test_a_bomb_in_a_part_is_refused(tmp_path: Path) -> None:
    made = io.BytesIO()
    made.write(b" " * (600 << 20))
    path = word(tmp_path / "a.docx", p("The rent."), header1_xml=made.getvalue())
    with pytest.raises(DocumentError, match=r"a zip bomb\?"):
        read(path, tmp_path)
