"""What a Word document holds: numbers of lists, tables, margins, notes, comments, text boxes, charts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest
from document_tree import guessed_of, notes_of, text_of

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
BESIDE = {
    "a comment": (RENT, {"comments_xml": COMMENTS}, "# Comments\nAnn Lee: Is it 900? Or 950?\n"),
    "a text box": (RENT + run(box("17 weeks.")), {}, "The rent.\n\n17 weeks.\n"),
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


@pytest.mark.parametrize("what", BESIDE)
def test_what_stands_beside_the_text_is_read(tmp_path: Path, what: str) -> None:
    body, parts, expected = BESIDE[what]
    loaded = read(word(tmp_path / "a.docx", body, **parts), tmp_path)
    text = text_of(loaded)
    assert expected in text
    assert loaded.unread == ()


def test_words_in_two_forms_are_there_once(tmp_path: Path) -> None:
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
    assert any("1 deletion" in note for note in notes_of(loaded))
    assert any(
        "the words in pictures and embedded objects were not read (2)" in note for note in notes_of(loaded)
    )


def test_a_picture_that_is_shown_twice_counts_once(tmp_path: Path) -> None:
    """The words of a stamp are words of the text, however often it stands there."""
    pictures = run(drawing("<a:blip r:embed='stamp_png'/>")) * 2 + run(drawing("<a:blip r:embed='x_png'/>"))
    path = word(tmp_path / "a.docx", RENT + pictures, stamp_png=b"one", x_png=b"two")
    (note,) = notes_of(read(path, tmp_path))
    assert note.startswith("a.docx: the words in pictures and embedded objects were not read (2)")


def test_the_encoding_of_a_page_that_is_put_in_is_told(tmp_path: Path) -> None:
    page = "<p>Über die Kündigung entscheidet der Vorstand.</p>".encode("cp1252")
    chunk = RENT + "<w:altChunk r:id='aFChunk_html'/>"
    loaded = read(word(tmp_path / "a.docx", chunk, aFChunk_html=page), tmp_path)
    assert guessed_of(loaded) == {"a.docx": "cp1252"}


def test_the_target_of_a_link_is_read(tmp_path: Path) -> None:
    body = p("Write to ") + (
        "<w:p><w:hyperlink xmlns:r='r' r:id='L'><w:r><w:t>the office</w:t></w:r></w:hyperlink></w:p>"
        "<w:p><w:r><w:fldChar w:fldCharType='begin'/>"
        '<w:instrText> HYPERLINK "https://x.org/law" </w:instrText>'
        "<w:fldChar w:fldCharType='separate'/><w:t>the law</w:t><w:fldChar w:fldCharType='end'/></w:r></w:p>"
    )
    path = word(tmp_path / "a.docx", body)
    links = "<r><l Id='L' Type='x/hyperlink' TargetMode='External' Target='mailto:bob@example.org'/></r>"
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, links if name == "word/_rels/document.xml.rels" else data)
    text = text_of(read(path, tmp_path))
    assert "the office (bob@example.org)\n\nthe law (https://x.org/law)\n" in text


def test_a_damaged_part_is_named_and_the_text_is_read(tmp_path: Path) -> None:
    loaded = read(word(tmp_path / "a.docx", p("The rent."), header1_xml="<w:hdr broken"), tmp_path)
    assert text_of(loaded) == "The rent.\n"
    (note,) = notes_of(loaded)
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
@pytest.mark.parametrize(
    "content",
    [
        '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><a>&d;</a>',
        part("hdr", "<w:comment>" + "<w:sdt>" * 60_000 + "</w:sdt>" * 60_000 + "</w:comment>"),
    ],
    ids=["entities", "depth"],
)
def test_a_hostile_part_costs_that_part_only(tmp_path: Path, name: str, content: str) -> None:
    body = RENT + run(drawing("<c:chart r:id='chart_xml'/>"))
    loaded = read(word(tmp_path / "a.docx", body, **{name: content}), tmp_path)
    assert text_of(loaded) == "The rent.\n"
    assert loaded.unread == ("a.docx (in part)",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [("<w:sdt>" * 60_000 + "</w:sdt>" * 60_000, "nested too deeply"), ("<w:p>", "is damaged")],
)
def test_a_hostile_text_is_refused_in_one_line(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read(word(tmp_path / "a.docx", body), tmp_path)


def test_a_bomb_in_a_part_is_refused(tmp_path: Path) -> None:
    made = io.BytesIO()
    made.write(b" " * (600 << 20))
    path = word(tmp_path / "a.docx", p("The rent."), header1_xml=made.getvalue())
    with pytest.raises(DocumentError, match=r"a zip bomb\?"):
        read(path, tmp_path)


LEVELS = "".join(
    f"<w:lvl w:ilvl='{at}'><w:start w:val='1'/><w:numFmt w:val='{form}'/>"
    f"<w:lvlText w:val='{text}'/>{style}</w:lvl>"
    for at, (form, text, style) in enumerate(
        [
            ("decimal", "%1.", "<w:pStyle w:val='Kop1'/>"),
            ("decimal", "%1.%2", ""),
            ("lowerRoman", "(%3)", ""),
            ("bullet", "\uf0b7", ""),
        ]
    )
)
NUMBERING = part(
    "numbering",
    f"<w:abstractNum w:abstractNumId='7'>{LEVELS}</w:abstractNum>"
    "<w:num w:numId='1'><w:abstractNumId w:val='7'/></w:num>"
    "<w:num w:numId='2'><w:abstractNumId w:val='7'/>"
    "<w:lvlOverride w:ilvl='1'><w:startOverride w:val='5'/></w:lvlOverride></w:num>",
)
STYLES = part(
    "styles",
    "<w:style w:styleId='Kop1'><w:name w:val='heading 1'/>"
    "<w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>"
    "<w:style w:styleId='Own'><w:basedOn w:val='Kop1'/></w:style>"
    "<w:style w:styleId='Contents'><w:basedOn w:val='Kop1'/><w:pPr><w:numPr><w:numId w:val='0'/></w:numPr>"
    "<w:outlineLvl w:val='9'/></w:pPr></w:style>",
)


def item(text: str, level: int, number: int = 1) -> str:
    place = f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{number}'/></w:numPr>"
    return f"<w:p><w:pPr>{place}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def styled(text: str, style: str) -> str:
    return f"<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_headings_and_lists_keep_their_numbers(tmp_path: Path) -> None:
    body = (
        styled("Contents", "Contents")
        + styled("Terms", "Kop1")
        + item("The yard.", 1)
        + item("The mill.", 1)
        + item("Its wheel.", 2)
        + item("A bolt.", 3)
        + item("Its race.", 2)
        + styled("Notice", "Own")
        + item("Three weeks.", 1)
        + item("Five.", 1, number=2)
        + item("Six.", 1, number=2)
    )
    loaded = read(word(tmp_path / "a.docx", body, styles_xml=STYLES, numbering_xml=NUMBERING), tmp_path)
    assert text_of(loaded) == (
        "Contents\n\n# 1. Terms\n  1.1 The yard.\n  1.2 The mill.\n    (i) Its wheel.\n      - A bolt.\n"
        "    (ii) Its race.\n# 2. Notice\n  2.1 Three weeks.\n  2.5 Five.\n  2.6 Six.\n"
    )


def test_a_hostile_numbering_ends(tmp_path: Path) -> None:
    styles = part(
        "styles",
        "".join(f"<w:style w:styleId='{n}'><w:basedOn w:val='{n - 1}'/></w:style>" for n in range(20_000))
        + "<w:style w:styleId='0'><w:basedOn w:val='0'/></w:style>",
    )
    lists = part(
        "numbering",
        "<w:abstractNum w:abstractNumId='7'><w:lvl w:ilvl='0'><w:start w:val='999999999'/>"
        "<w:numFmt w:val='upperLetter'/><w:lvlText w:val='%1%9'/></w:lvl></w:abstractNum>"
        "<w:num w:numId='1'><w:abstractNumId w:val='7'/></w:num>",
    )
    path = word(
        tmp_path / "a.docx",
        item("a", 0) + item("b", -1) + item("c", 77),
        styles_xml=styles,
        numbering_xml=lists,
    )
    assert text_of(read(path, tmp_path)).startswith("9999999991 a\n")


def row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{text if text.startswith('<') else p(text)}</w:tc>"


def test_tables_keep_their_columns_and_name_their_header(tmp_path: Path) -> None:
    plain = (
        row(cell("yard"), cell("year and hives", "<w:gridSpan w:val='2'/>"), cell("by"))
        + row(
            cell("north", "<w:vMerge w:val='restart'/>"), cell("2023"), cell("14"), cell(p("Ann") + p("Lee"))
        )
        + row(cell("", "<w:vMerge/>"), cell("2024"), cell("12"), cell(""))
        + row(cell("26"), properties="<w:gridBefore w:val='2'/>")
    )
    headed = row(cell("kind"), cell("price"), properties="<w:tblHeader/>") + row(cell("linden"), cell("9.50"))
    body = f"<w:tbl>{plain}</w:tbl>{RENT}<w:tbl>{headed}</w:tbl>"
    assert text_of(read(word(tmp_path / "a.docx", body), tmp_path)) == (
        "yard | year and hives |  | by\nnorth | 2023 | 14 | Ann ¶ Lee\nnorth | 2024 | 12\n |  | 26\n\n"
        "The rent.\n\n| kind | price |\n| --- | --- |\n| linden | 9.50 |\n"
    )


def test_a_table_that_lays_out_a_page_is_read_cell_by_cell(tmp_path: Path) -> None:
    inner = f"<w:tbl>{row(cell('linden'), cell('9.50'))}</w:tbl>"
    body = f"<w:tbl>{row(cell('Left.'), cell(p('Right.') + inner))}</w:tbl>"
    assert text_of(read(word(tmp_path / "a.docx", body), tmp_path)) == "Left.\nRight.\n\nlinden | 9.50\n"


def test_a_footnote_is_below_its_paragraph_and_a_picture_is_described(tmp_path: Path) -> None:
    noted = "<w:p><w:r><w:t>Oslo</w:t></w:r><w:r><w:footnoteReference w:id='2'/></w:r></w:p>"
    seen = "<wp:docPr descr='A red hive'/><a:blip r:embed='x'/>"
    picture = f"<w:p><w:r><w:drawing><wp:inline>{seen}</wp:inline></w:drawing></w:r></w:p>"
    path = word(tmp_path / "a.docx", noted + RENT + picture, footnotes_xml=NOTES)
    assert text_of(read(path, tmp_path)) == (
        "Oslo[1]\n\n[1] Agreed in Oslo.\n\nThe rent.\n\n[A red hive]\n# Notes\nNot referred to.\n"
    )


def test_words_are_whole_across_drop_caps_and_deleted_ends(tmp_path: Path) -> None:
    cap = "<w:p><w:pPr><w:framePr w:dropCap='drop'/></w:pPr><w:r><w:t>L</w:t></w:r></w:p>"
    joined = "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>due in </w:t></w:r></w:p>"
    symbols = "<w:p><w:r><w:t>10 </w:t><w:sym w:font='Symbol' w:char='F06D'/><w:t>m</w:t></w:r></w:p>"
    path = word(tmp_path / "a.docx", cap + p("orem ipsum") + joined + p("May.") + symbols)
    assert text_of(read(path, tmp_path)) == "Lorem ipsum\n\ndue in May.\n\n10 μm\n"
