"""Test RTF: code pages, escapes, headings, tables, notes; files of real programs and broken ones."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from document_tree import notes_of, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.documents import load
from rlm.documents.formats.piece import Ended, Fault, Heading, Problem, Text
from rlm.documents.formats.rtf import read_rtf
from rlm.errors import DocumentError

FILES = Path(__file__).parent / "files"


def shown(data: bytes) -> str:
    """Return the text of an RTF file, with its headings as Markdown."""
    return "".join(
        f"{'#' * piece.level} {piece.title}\n" if isinstance(piece, Heading) else piece.text
        for piece in read_rtf(io.BytesIO(data), len(data))
        if isinstance(piece, Text | Heading)
    )


def test_a_file_of_pandoc_is_read(tmp_path: Path) -> None:
    loaded = load([FILES / "lease.rtf"], tmp_path / "c")
    text = text_of(loaded)
    assert text.startswith(
        "The Lease\n\n# Terms\nThe rent is 900 euros.[1] It is due on the first — “always”. "
        "Grüße, Привет, 日本 😀.\n[1] Paid to Kestrel Foods monthly.\n\n## Notice\n"
    )
    assert "Kind | Price\nlinden | 9.50\nacacia | 8.20\n" in text
    assert notes_of(loaded) == ()


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (rb"\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2", "Привет\n"),
        # The font decides, not the file.
        (
            rb"\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}"
            rb"\f0 Stra\'dfe \f1 \'cf\'f0\f0  \'e9",
            "Straße Пр é\n",
        ),
        # The second byte of a character may be a letter.
        (rb"\ansi\ansicpg932 \'83A\'93\'fa", "ア日\n"),
        (rb"\mac caf\'8e", "café\n"),
        (rb"\ansi \u26085?\u-10179?\u-8704?{\uc2 \u233\'e9\'e9x} \uc0\u233 y", "日😀éx éy\n"),
        (rb"\ansi it\rquote s \ldblquote q\rdblquote\emdash b\~c\-d\_e\line f", "it’s “q”—b\xa0cd-e\nf\n"),
        (rb"\trowd\cellx1\intbl honey\cell 7\par 8\cell\row\pard after\par", "honey | 7 8\nafter\n"),
        (rb"The rent{\super\chftn}{\footnote\pard {\super\chftn} Paid monthly.\par} is 900.\par", None),
        # The letters of the font Symbol are Greek.
        (rb"{\fonttbl{\f0 Arial;}{\f1\fcharset2 Symbol;}}\f0 10 {\f1 m}m {\f1 \u-3999?}\par", "10 μm α\n"),
        (rb"{\stylesheet{\s3 heading 2;}}\pard\s3 Wax\par\pard body\par", "## Wax\nbody\n"),
        (rb"\pard\outlinelevel0 Wax\par\pard body\par", "# Wax\nbody\n"),
        (rb"x{\*\atnid AM}{\*\atnauthor Ann}\chatn{\*\annotation{\*\atnref 1} Why {\b so}?\par}y\par", None),
        (rb"a{\v hidden}{\deleted old}{\*\unknown gone}{\xe index}b\par", "ab\n"),
        (
            rb'see {\field{\*\fldinst HYPERLINK "http://x.y"}{\fldrslt the site}}\par',
            "see the site (http://x.y)\n",
        ),
        (
            rb"a{\shp{\*\shpinst{\sp{\sn k}{\sv 3}}{\shptxt In the box.\par}}{\shprslt In the box.}}b\par",
            None,
        ),
        (rb"{\upr{\keywords caf}{\*\ud{caf\u233?}}} z\par", "café z\n"),
        # A brace too many does not end the text. What follows the end is no text.
        (rb"{a}} and {\b the rest} \par} \x00junk", "a and the rest\n"),
        (b"one\\\ntwo\\par three\r\n four", "one\ntwo\nthree four\n"),
        (
            rb"{\header Ref 77/B\par}{\footer\chpgn 3\par}text\par",
            "text\n# Headers and footers\nRef 77/B\n3\n",
        ),
    ],
)
def test_words_are_decoded(rtf: bytes, text: str | None) -> None:
    expected = {
        b"footnote": "The rent[1] is 900.\n[1] Paid monthly.\n",
        b"annotation": "xy\n[Ann] Why so?\n",
        b"shptxt": "ab\nIn the box.\n",
    }
    if text is None:
        text = next(value for word, value in expected.items() if word in rtf)
    assert shown(b"{\\rtf1" + rtf + b"}") == text


def test_pictures_are_skipped_and_counted() -> None:
    data = b"{\\rtf1 a{\\pict\\bin5 }}}}}b}c{\\object{\\objdata 00}{\\result d}}\\par}"
    pieces = list(read_rtf(io.BytesIO(data), len(data)))
    assert pieces[0] == Text("ac\n")
    assert isinstance(pieces[1], Problem)
    assert "pictures and embedded objects were not read (2)" in pieces[1].what


def test_a_truncated_file_is_read_so_far_and_said_to_be_cut(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes((FILES / "lease.rtf").read_bytes()[:600])
    loaded = load([tmp_path / "a.rtf"], tmp_path / "c")
    assert "The Lease" in text_of(loaded)
    assert notes_of(loaded) == ("a.rtf: it ends in the middle (truncated): get it again",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"plain text", "not RTF, whatever its name says"),
        (b"{\\rtf1}", "without any text"),
        (b"{\\rtf1 " + b"{" * 10_000, "RTF nested too deeply"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "a.rtf").write_bytes(data)
    with pytest.raises(DocumentError, match=reason):
        load([tmp_path / "a.rtf"], tmp_path / "c")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    b"{",
                    b"}",
                    b"\\*",
                    b"\\u-1 ",
                    b"\\'9",
                    b"\\bin99 ",
                    b"\\cell",
                    b"\\row",
                    b"\\footnote",
                    b"\\f9",
                    b"\\shpinst",
                    b"\\shptxt",
                    b"\\upr",
                    b"\\ud",
                    b"\\s1",
                    b"\\header",
                    b"\\uc9 ",
                    b"\\v0",
                ]
            ),
            st.binary(max_size=6),
        ),
        max_size=60,
    )
)
def test_any_bytes_are_read_or_refused(parts: list[bytes]) -> None:
    """Property: a reader ends with Ended, or raises Fault."""
    data = b"{\\rtf1 " + b"".join(parts)
    try:
        *_, last = read_rtf(io.BytesIO(data), len(data))
    except Fault:
        return
    assert isinstance(last, Ended)


@pytest.mark.parametrize("level", [-3, 0, 7, 300])
def test_a_level_of_an_outline_out_of_range_is_no_fault(tmp_path: Path, level: int) -> None:
    data = rb"{\rtf1\ansi\pard\outlinelevel%d Terms\par\pard The rent is 900.\par}" % level
    (tmp_path / "a.rtf").write_bytes(data)
    text = text_of(load([tmp_path / "a.rtf"], tmp_path / "c"))
    assert "Terms" in text
    assert "The rent is 900." in text
