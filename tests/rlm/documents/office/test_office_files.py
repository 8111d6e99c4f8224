"""Test slides and OpenDocument files: made by PowerPoint's format library, pandoc and odfpy."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from document_tree import notes_of, text_of

from rlm.documents import Loaded, load
from rlm.errors import DocumentError
from rlm.runtime import RLM
from rlm.settings import Settings

FILES = Path(__file__).parent / "files"


def read(path: Path, folder: Path) -> Loaded:
    return load([path], folder / "context")


def rezipped(path: Path, **changes: bytes | None) -> bytes:
    """Return an archive with some members changed, or left out. `__` in a name is `/`, `_dot_` a dot."""
    new = {name.replace("__", "/").replace("_dot_", "."): data for name, data in changes.items()}
    made = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in old.namelist():
            if name not in new:
                archive.writestr(name, old.read(name))
        for name, data in new.items():
            if data is not None:
                archive.writestr(name, data)
    return made.getvalue()


def test_slides_have_titles_tables_charts_notes_and_groups(tmp_path: Path) -> None:
    loaded = read(FILES / "talk.pptx", tmp_path)
    assert text_of(loaded) == (
        "# Slide 1: Honey Report\nSpring 2026\n\n"
        "# Slide 2: Prices\nHoney rises\n  to 9 euros\nKind | Price\nlinden | 9.50\nacacia | 8.20\n\n"
        "## Speaker notes\nSay that the frost cost 14 hives.\n\n"
        "# Slide 3: Yield\n | North | South\n2024 | 31 | 17\n2025 | 42\n\n"
        "# Slide 4: Backup (hidden)\nThe buyer is Kestrel Foods.\n[image.png]\ngrouped words\n\n"
    )
    (note,) = notes_of(loaded)
    assert note.startswith("talk.pptx: the words in pictures and embedded objects were not read (slides: 4)")


def test_a_picture_on_several_slides_is_named_where_it_comes_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "talk.pptx") as talk:
        slide, links = (talk.read(f"ppt/slides/{name}") for name in ("slide4.xml", "_rels/slide4.xml.rels"))
    changed = {"ppt/slides/slide1.xml": slide, "ppt/slides/_rels/slide1.xml.rels": links}
    (tmp_path / "talk.pptx").write_bytes(rezipped(FILES / "talk.pptx", **changed))
    (note,) = notes_of(read(tmp_path / "talk.pptx", tmp_path / "one"))
    assert note.startswith("talk.pptx: the words in pictures and embedded objects were not read (slides: 1)")


def test_the_target_of_a_link_on_a_slide_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "talk.pptx") as archive:
        slide = archive.read("ppt/slides/slide1.xml")
        links = archive.read("ppt/slides/_rels/slide1.xml.rels")
    link = b"<a:r><a:rPr><a:hlinkClick r:id='L'/></a:rPr><a:t>Spring 2026</a:t></a:r>"
    target = b"<Relationship Id='L' Type='x/hyperlink' TargetMode='External' Target='https://x.org/bees'/></"
    changed = rezipped(
        FILES / "talk.pptx",
        ppt__slides__slide1_dot_xml=slide.replace(b"<a:r><a:t>Spring 2026</a:t></a:r>", link),
        ppt__slides___rels__slide1_dot_xml_dot_rels=links.replace(b"</", target, 1),
    )
    (tmp_path / "talk.pptx").write_bytes(changed)
    text = text_of(read(tmp_path / "talk.pptx", tmp_path / "one"))
    assert "Spring 2026 (https://x.org/bees)\n" in text


def test_slides_of_another_program_are_read_too(tmp_path: Path) -> None:
    loaded = read(FILES / "talk.odp", tmp_path)
    assert text_of(loaded) == (
        "# Slide 1: Honey Report\nSpring 2026\n\n"
        "# Slide 2: Prices\nHoney rises\nKind | Price\nlinden | 9.50\n\n"
        "## Speaker notes\nSay that the frost cost 14 hives.\n\n"
        "# Slide 3: Backup (hidden)\nThe buyer is Kestrel Foods.\n\n"
    )
    assert notes_of(loaded) == ()


def test_an_opendocument_text_has_headings_footnotes_lists_and_tables(tmp_path: Path) -> None:
    loaded = read(FILES / "lease.odt", tmp_path)
    assert text_of(loaded) == (
        "# The Lease\n# Terms\n"
        "The rent is 900 euros.[1] It is due on the first — “always”. Grüße, Привет, 日本 😀.\n\n"
        "[1] Paid to Kestrel Foods monthly.\n\n"
        "## Notice\n- three weeks for yards\n  - six for mills\n"
        "\nKind | Price\nlinden | 9.50\nacacia | 8.20\n\n"
        "Say that the frost cost 14 hives.\n"
    )
    with loaded.context.open() as body:
        assert body.heading_path(body.text(0, body.chars).index("three weeks")) == ("Terms", "Notice")


@pytest.mark.parametrize(
    ("name", "question", "answer", "place"),
    [
        ("talk.pptx", "Who is the buyer?", "Kestrel Foods", "talk.pptx, slide 4"),
        (
            "talk.pptx",
            "How many hives did the frost cost?",
            "14",
            "talk.pptx, slide 2, under “Speaker notes”",
        ),
        ("talk.odp", "Who is the buyer?", "Kestrel Foods", "talk.odp, slide 3"),
        ("lease.odt", "How long is the notice for yards?", "three weeks", "under “Notice”"),
        ("lease.rtf", "How long is the notice for yards?", "three weeks", "under “Notice”"),
        ("lease.rtf", "Who is paid monthly?", "Kestrel", "under “Terms”"),
    ],
)
def test_a_question_is_answered_with_its_place(
    tmp_path: Path, name: str, question: str, answer: str, place: str
) -> None:
    result = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db")).run_sync(question, FILES / name)
    cited = [one for one in result.citations if answer in one.quote]
    assert cited
    assert cited[0].verified
    assert place in cited[0].place


def test_a_damaged_slide_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    data = rezipped(FILES / "talk.pptx", ppt__slides__slide3_dot_xml=b"<p:sld broken")
    (tmp_path / "a.pptx").write_bytes(data)
    loaded = read(tmp_path / "a.pptx", tmp_path)
    assert "Kestrel" in text_of(loaded)
    assert notes_of(loaded)[0].startswith("a.pptx: damaged slides were not read whole (slides: 3)")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        (
            "a.pptx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
            r"a PPTX protected by a password",
        ),
        (
            "a.pptx",
            (FILES / "talk.pptx").read_bytes()[:20_000],
            r"a PPTX that is damaged or trunc",
        ),
        ("a.pptx", rezipped(FILES / "talk.odp"), "not a PPTX, whatever"),
        ("a.odt", (FILES / "lease.odt").read_bytes()[:5_000], r"an ODT that is damaged"),
        (
            "a.odt",
            rezipped(FILES / "lease.odt", content_dot_xml=b"<a"),
            "an ODT that is damaged",
        ),
        (
            "a.odt",
            rezipped(FILES / "talk.odp"),
            "it holds no text document",
        ),
        ("a.odt", b"nothing of that kind", "an ODT that is damaged"),
        (
            "a.odt",
            rezipped(FILES / "lease.odt", **{"META-INF__manifest_dot_xml": b"<m><encryption-data/></m>"}),
            "an ODT protected by a password: save a copy without one",
        ),
        (
            "a.odt",
            rezipped(FILES / "lease.odt", content_dot_xml=b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
            r"declares entities, an XML bomb",
        ),
        ("a.fodt", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a/>', r"declares entities"),
        (
            "a.odt",
            rezipped(FILES / "lease.odt", content_dot_xml=b"<body>" * 200_000 + b"</body>" * 200_000),
            r"(nested too deeply|no text document|not readable)",
        ),
        ("a.odt", rezipped(FILES / "lease.odt", content_dot_xml=b" " * (600 << 20)), r"a zip bomb\?"),
        (
            "a.odp",
            rezipped(
                FILES / "talk.odp",
                content_dot_xml=b"<d><body><presentation><page/></presentation></body></d>",
            ),
            r"an ODP without any text \(its slides are empty",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_remedy(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DocumentError, match=reason):
        read(tmp_path / name, tmp_path)


def test_deep_nesting_ends_in_one_line(tmp_path: Path) -> None:
    deep = (
        b"<d><body><text>"
        + b"<section>" * 50_000
        + b"<p>a</p>"
        + b"</section>" * 50_000
        + b"</text></body></d>"
    )
    (tmp_path / "a.odt").write_bytes(rezipped(FILES / "lease.odt", content_dot_xml=deep))
    with pytest.raises(DocumentError, match="an ODT nested too deeply"):
        read(tmp_path / "a.odt", tmp_path)


def test_a_part_of_a_presentation_can_name_no_file_of_this_machine(tmp_path: Path) -> None:
    links = (
        b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        b'<Relationship Id="rId7" Type="x/slide" Target="../../../../etc/passwd"/></Relationships>'
    )
    (tmp_path / "a.pptx").write_bytes(
        rezipped(FILES / "talk.pptx", **{"ppt___rels__presentation_dot_xml_dot_rels": links})
    )
    with pytest.raises(DocumentError, match="a PPTX that is damaged"):
        read(tmp_path / "a.pptx", tmp_path)


def test_comments_headers_boxes_and_spans_of_a_text_are_read(tmp_path: Path) -> None:
    content = """<d xmlns:t="t"><body><text>
      <p>Rent<annotation><creator>Ann</creator><p>Too high?</p></annotation>  is
      <a h:href="https://x.org/lease" xmlns:h="h">due</a><s t:c="3"/>today<tab/>at<line-break/>noon</p>
      <p><frame><text-box><p>In the box.</p></text-box></frame></p>
      <p><frame><image/><desc>A red hive</desc></frame></p>
      <tracked-changes><changed-region><deletion><p>old words</p></deletion></changed-region>
      </tracked-changes>
    </text></body></d>"""
    styles = (
        "<d><master-styles><master-page><header><p>Ref 77/B</p></header><footer><p>3</p></footer>"
        "</master-page></master-styles></d>"
    )
    (tmp_path / "a.odt").write_bytes(
        rezipped(FILES / "lease.odt", content_dot_xml=content.encode(), styles_dot_xml=styles.encode())
    )
    loaded = read(tmp_path / "a.odt", tmp_path)
    text = text_of(loaded)
    assert "Rent is due (https://x.org/lease)   today\tat\nnoon\n" in text
    assert "[Ann: Too high?]\n" in text
    assert "In the box.\n" in text
    assert "[A red hive]\n" in text
    assert "# Headers and footers\nRef 77/B\n" in text
    assert "old words" not in text
    assert [note.partition(": ")[2][:30] for note in notes_of(loaded)] == [
        "1 deletions that are only prop",
        "the words in pictures and embe",
    ]


def test_what_a_master_shows_on_every_slide_is_read_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "talk.pptx") as archive:
        master = archive.read("ppt/slideMasters/slideMaster1.xml")
        notes = archive.read("ppt/notesSlides/notesSlide1.xml")
    box = (
        b"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p><a:r><a:t>For the board of Kestrel only</a:t>"
        b"</a:r></a:p></p:txBody></p:sp></p:spTree>"
    )
    changed = rezipped(
        FILES / "talk.pptx",
        ppt__slideMasters__slideMaster1_dot_xml=master.replace(b"</p:spTree>", box),
        ppt__notesSlides__notesSlide1_dot_xml=notes.replace(
            b"</p:spTree>",
            box.replace(b"<p:nvPr/>", b"<p:nvPr><p:ph type='ftr'/></p:nvPr>").replace(b"the board", b"notes"),
        ),
    )
    (tmp_path / "a.pptx").write_bytes(changed)
    text = text_of(read(tmp_path / "a.pptx", tmp_path))
    assert text.endswith("# On every slide\nFor the board of Kestrel only\nFor notes of Kestrel only\n")
    assert text.count("For the board") == 1


def test_the_footers_of_odp_slides_and_the_values_of_forms_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "talk.odp") as archive:
        talk = archive.read("content.xml")
    footer = b"<presentation:footer-decl>For the board only</presentation:footer-decl>"
    start = talk.index(b">", talk.index(b"<office:presentation")) + 1
    (tmp_path / "a.odp").write_bytes(
        rezipped(FILES / "talk.odp", content_dot_xml=talk[:start] + footer + talk[start:])
    )
    assert text_of(read(tmp_path / "a.odp", tmp_path)).endswith("# On every slide\nFor the board only\n")
    form = (
        "<d xmlns:f='f'><body><text><f:forms><f:form><f:text f:label='Notice' f:current-value='17 weeks'/>"
        "</f:form></f:forms><p>a</p></text></body></d>"
    )
    (tmp_path / "a.odt").write_bytes(rezipped(FILES / "lease.odt", content_dot_xml=form.encode()))
    assert "Notice: 17 weeks\n" in text_of(load([tmp_path / "a.odt"], tmp_path / "d"))


def test_covered_and_empty_cells_keep_their_column(tmp_path: Path) -> None:
    content = """<d xmlns:t="t"><body><text><table>
      <table-row><table-cell><p>yard</p></table-cell><table-cell><p>year</p></table-cell>
        <table-cell><p>hives</p></table-cell></table-row>
      <table-row><table-cell t:number-rows-spanned="2"><p>north</p></table-cell>
        <table-cell><p>2023</p></table-cell><table-cell><p>14</p></table-cell></table-row>
      <table-row><covered-table-cell/><table-cell><p>2024</p></table-cell><table-cell><p>12</p></table-cell>
      </table-row>
      <table-row><table-cell t:number-columns-repeated="2"/><table-cell><p>26</p></table-cell>
        <table-cell t:number-columns-repeated="1021"/></table-row>
    </table></text></body></d>"""
    (tmp_path / "a.odt").write_bytes(rezipped(FILES / "lease.odt", content_dot_xml=content.encode()))
    table = "yard | year | hives\nnorth | 2023 | 14\n | 2024 | 12\n |  | 26\n"
    assert table in text_of(read(tmp_path / "a.odt", tmp_path))


def test_a_slide_with_damaged_links_does_not_end_the_presentation(tmp_path: Path) -> None:
    data = rezipped(FILES / "talk.pptx", **{"ppt/slides/_rels/slide3.xml.rels": b"<broken"})
    (tmp_path / "talk.pptx").write_bytes(data)
    loaded = read(tmp_path / "talk.pptx", tmp_path)
    assert "The buyer is Kestrel Foods." in text_of(loaded)
    assert any("(slides: 3)" in note for note in notes_of(loaded))


def test_lists_and_headings_of_a_text_keep_their_numbers(tmp_path: Path) -> None:
    levels = (
        "<list-level-style-number t:level='1' t:num-format='1' t:num-suffix='.'/>"
        "<list-level-style-number t:level='2' t:num-format='a' t:num-suffix=')' t:display-levels='2'/>"
    )
    content = f"""<d xmlns:t="t"><automatic-styles>
      <list-style t:name="L1">{levels}</list-style></automatic-styles><body><text>
      <h t:outline-level="1">Terms</h><h t:outline-level="2">Rent</h><h t:outline-level="1">End</h>
      <list t:style-name="L1"><list-item><p>yard</p><p>more</p><list><list-item><p>oak</p></list-item>
      <list-item><p>ash</p></list-item></list></list-item>
      <list-item t:start-value="7"><p>mill</p></list-item></list>
      <list t:style-name="L1" t:continue-numbering="true"><list-item><p>wheel</p></list-item></list>
      <list t:style-name="L1"><list-header><p>named</p></list-header><list-item><p>anew</p></list-item></list>
    </text></body></d>"""
    styles = """<d xmlns:t="t"><styles><outline-style>
      <outline-level-style t:level="1" t:num-format="I" t:num-prefix="Part "/>
      <outline-level-style t:level="2" t:num-format="1" t:display-levels="2"/></outline-style></styles></d>"""
    (tmp_path / "a.odt").write_bytes(
        rezipped(FILES / "lease.odt", content_dot_xml=content.encode(), styles_dot_xml=styles.encode())
    )
    assert text_of(read(tmp_path / "a.odt", tmp_path)) == (
        "# Part I Terms\n## I.1 Rent\n# Part II End\n1. yard\nmore\n  1.a) oak\n  1.b) ash\n7. mill\n"
        "8. wheel\nnamed\n1. anew\n"
    )
