"""Test the recognition of words in scanned pages and pictures, and what is said without the extra `ocr`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from document_tree import remarks_of, text_of
from handmade_pdf import pdf_by_hand
from PIL import Image, ImageDraw, ImageFont

from rlm.documents import load
from rlm.errors import DocumentError
from rlm.version import has_extra

HAS_OCR = has_extra("ocr")
needs_ocr = pytest.mark.skipif(not HAS_OCR, reason="needs the extra ocr: pip install -e '.[ocr]'")
LINES = ("The notice period is three weeks.", "The buyer is Kestrel Foods.", "The rent is 900 euros.")


def scanned(*lines: str, angle: float = 0) -> Image.Image:
    """Return the picture of a page with these lines."""
    page = Image.new("RGB", (1000, 700), "white")
    drawing = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        drawing.text((80, 80 + 60 * number), line, fill="black", font=ImageFont.load_default(32))
    return page.rotate(angle, fillcolor="white")


def scanned_pdf(path: Path, *pages: Image.Image) -> None:
    pages[0].save(path, "PDF", save_all=True, append_images=pages[1:])


@needs_ocr
def test_the_words_of_scanned_pages_are_recognized_and_cited_with_the_page(tmp_path: Path) -> None:
    scanned_pdf(tmp_path / "scan.pdf", scanned(LINES[0]), scanned(*LINES[1:], angle=1.5))
    loaded = load([tmp_path / "scan.pdf"], tmp_path / "c")
    text = text_of(loaded)
    assert [line for line in text.splitlines() if line] == list(LINES)
    assert loaded.unread == ()
    (remark,) = remarks_of(loaded)
    assert remark.startswith(
        "scan.pdf: the words of 2 pages were recognized in a picture (OCR) and may be wrong"
    )
    with loaded.context.open() as body:
        assert body.place(text.index("Kestrel")).page == 2


@needs_ocr
def test_only_pages_without_text_are_recognized(tmp_path: Path) -> None:
    from pypdf import PdfReader, PdfWriter

    pdf_by_hand(tmp_path / "text.pdf", ["Ada wrote notes.", "Grace wrote code."])
    scanned_pdf(tmp_path / "scan.pdf", scanned(LINES[0]))
    writer = PdfWriter()
    text = PdfReader(tmp_path / "text.pdf").pages
    for page in (text[0], PdfReader(tmp_path / "scan.pdf").pages[0], text[1]):
        writer.add_page(page)
    writer.write(tmp_path / "mixed.pdf")
    loaded = load([tmp_path / "mixed.pdf"], tmp_path / "c")
    assert text_of(loaded).split("\n\n") == ["Ada wrote notes.", LINES[0], "Grace wrote code.", ""]
    with loaded.context.open() as body:
        pages = [body.place(text_of(loaded).index(word)).page for word in ("Ada", "three", "Grace")]
    assert pages == [1, 2, 3]
    assert "the words of 1 page were recognized" in remarks_of(loaded)[0]


@needs_ocr
def test_the_words_of_a_picture_are_recognized(tmp_path: Path) -> None:
    scanned(*LINES).save(tmp_path / "a.png")
    scanned().save(tmp_path / "blank.png")
    loaded = load([tmp_path / "a.png", tmp_path / "blank.png"], tmp_path / "c")
    assert text_of(loaded).split("\n")[:3] == list(LINES)
    assert [(one.what, one.remedy) for one in loaded.problems] == [
        ("a picture in which no words were recognized", "look at it yourself")
    ]


@needs_ocr
@pytest.mark.parametrize("cut", [60, 3_000])
def test_a_broken_picture_is_refused(tmp_path: Path, cut: int) -> None:
    made = io.BytesIO()
    scanned(*LINES).save(made, "PNG")
    (tmp_path / "a.png").write_bytes(made.getvalue()[:cut])
    with pytest.raises(DocumentError, match=r"a\.png is "):
        load([tmp_path / "a.png"], tmp_path / "c")


@pytest.mark.skipif(HAS_OCR, reason="the extra ocr is installed")
@pytest.mark.parametrize("name", ["scan.pdf", "scan.png"])
def test_without_the_extra_the_refusal_names_both_ways(tmp_path: Path, name: str) -> None:
    scanned(*LINES).save(tmp_path / name)
    with pytest.raises(DocumentError) as raised:
        load([tmp_path / name], tmp_path / "c")
    assert "pip install -e '.[ocr]'" in str(raised.value)
    assert "let a model look at it: a --sub-model that sees" in str(raised.value)
