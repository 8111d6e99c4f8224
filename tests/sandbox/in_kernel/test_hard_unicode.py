"""Test every helper of the handle against Python's own str, on text that is hard to count in."""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body, Span
from rlm.sandbox.text.search import Scanner

PIECES = [
    b"plain words, 42 of them\n",
    "世界人工智能语言。\n".encode(),
    "👩‍👩‍👧‍👦🇪🇺👍🏽 family\n".encode(),
    "e\u0301\u0323 combining a\u030a\r\n".encode(),
    "слово ЁЛКА ёлка Σσς ß ẞ\r\n".encode(),
    "\u2028para\u2029\x85\x0b\x0c\x1c end\n".encode(),
    b"\xef\xbb\xbfBOM inside\n",
    b"NUL \x00\x00 here\n",
    b"broken \xff\xfe \xc3 \xe4\xb8 \xf0\x9f\x99 \xed\xa0\x80 \xc0\x80 bytes\n",
    "\U0010ffff\U00010000\ufffd\uffff\n".encode(),
    "עברית \u202e العربية\n".encode(),
    b"\n\n\r\n\r\n",
    "long 🙂 line 世 ".encode() * 300 + b"\n",
    b"# Heading \xe4\xb8\x96\n",
    "## 二级标题 🙂\n".encode(),
]
OFFSETS = 5_000

MakeHandle = Callable[[bytes], tuple[Handle, str]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeHandle]:
    opened: list[Body] = []

    def make(data: bytes) -> tuple[Handle, str]:
        with ContextFileWriter(tmp_path_factory.mktemp("context") / "c") as writer:
            writer.begin_document("d.md", "markdown")
            for at in range(0, len(data), 997):
                writer.write(data[at : at + 997])
            opened.append(writer.finish().open())
        # A large body is searched in another way. Here that way begins at the first byte.
        handle = Handle(opened[-1])
        handle._scanner = Scanner(opened[-1], window=1 << 16)
        return handle, data.decode("utf-8-sig", "replace")

    yield make
    for body in opened:
        body.close()


@pytest.fixture(scope="module")
def hard(make: MakeHandle) -> tuple[Handle, str]:
    chooser = random.Random(12)
    data = b"".join(chooser.choice(PIECES) * chooser.choice((1, 1, 1, 2, 5)) for _ in range(500))
    return make(b"\xef\xbb\xbf# Top\n" + data)


def test_five_thousand_offsets_are_those_of_str(hard: tuple[Handle, str]) -> None:
    """Peek works by characters and by lines, over many blocks."""
    handle, text = hard
    chooser = random.Random(1)
    meta = handle.context_meta()
    lines = text.split("\n")[: -1 if text.endswith("\n") else None]
    assert (meta.chars, meta.bytes, meta.lines) == (len(text), len(text.encode()), len(lines))
    assert meta.bytes > 150_000
    whole = [line + "\n" for line in lines[:-1]] + [text[len(text) - len(lines[-1]) - 1 :]]
    for _ in range(OFFSETS):
        start = chooser.randrange(-10, len(text) + 10)
        end = start + chooser.choice((0, 1, 2, 3, 80, 5_000))
        if start >= 0 or end < 0:
            assert handle.peek(start, end) == text[start:end]
        number = chooser.randrange(len(lines))
        assert handle.peek(number, number + 2, unit="lines") == "".join(whole[number : number + 2])


def test_hits_and_counts_are_those_of_re(hard: tuple[Handle, str]) -> None:
    """Thousands of pieces of the text are searched as they are and in any case."""
    handle, text = hard
    chooser = random.Random(2)
    starts = [match.start() for match in re.finditer("^", text, re.MULTILINE)]
    asked = 0
    for number in range(60):
        at = chooser.randrange(len(text))
        piece = text[at : at + chooser.choice((1, 2, 3, 8, 40))]
        flags = re.IGNORECASE if number % 2 else 0
        pattern = re.compile(re.escape(piece), flags | re.MULTILINE)
        expected = [match.span() for match in pattern.finditer(text)]
        hits = handle.search(pattern, max_hits=30)
        assert [(hit.start, hit.end) for hit in hits] == expected[:30]
        assert handle.count(pattern) == hits.total == len(expected)
        assert hits.truncated == (len(expected) > 30)
        for hit in hits:
            assert hit.match == text[hit.start : hit.end][:500]
            blank = len(hit.match) - len(hit.match.lstrip())
            word = hit.start + (blank if blank < len(hit.match) else 0)
            assert hit.line == bisect_right(starts, word) - 1
            assert hit.snippet == text[max(0, hit.start - 120) : hit.end + 120]
            asked += 1
    assert asked > 500


@pytest.mark.parametrize(
    "pattern", [r"\w+", r"世.", r"\s+$", r"\ufffd+", r"(?i)ёлка", r"[^\x00-\x7f]{2,}", r"🙂 \w"]
)
def test_patterns_find_what_re_finds(hard: tuple[Handle, str], pattern: str) -> None:
    handle, text = hard
    expected = [Span(*match.span()) for match in re.finditer(pattern, text, re.MULTILINE)]
    assert [Span(hit.start, hit.end) for hit in handle.search(pattern, max_hits=10**6)] == expected
    assert handle.count(pattern) == len(expected)


def test_lines_and_chunks_are_those_of_str(hard: tuple[Handle, str]) -> None:
    handle, text = hard
    at = 0
    for number, line in enumerate(handle.read_lines()):
        assert (line.number, line.start, line.text) == (number, at, text[line.start : line.end])
        assert "\n" not in line.text
        at = line.end + 1
    assert at >= len(text)
    for by in (None, "lines", "paragraphs", "headings", "documents"):
        chunks = handle.chunk(777, by=by)
        assert "".join(chunk.text for chunk in chunks) == text
        assert all(chunk.text == text[chunk.start : chunk.end] for chunk in chunks)
        assert handle.chunk_coverage(chunks).complete


def test_sections_are_where_str_has_them(hard: tuple[Handle, str]) -> None:
    """Checked at hundreds of places."""
    handle, text = hard
    chooser = random.Random(3)
    headings = [match.start() for match in re.finditer(r"^#{1,6}[ \t]+\S", text, re.MULTILINE)]
    for _ in range(500):
        at = chooser.randrange(len(text))
        section = handle.around(at, by="section")
        start = headings[bisect_right(headings, at) - 1]
        assert section.start == start


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([*PIECES, b"\xff", b"\xf0\x9f", b"\x98\x80", b"\r", b"a"]), max_size=8),
    st.data(),
)
@example([b"\xef\xbb\xbf", b"\xef\xbb\xbf"], None)
@example([b"\xf0\x9f", b"\x98\x80", b"\xf0\x9f"], None)
def test_any_mixture_reads_as_python_decodes_it(make: MakeHandle, pieces: list[bytes], data) -> None:
    """Invalid bytes, byte order marks, NUL and cut sequences keep offsets, counts and lines right."""
    handle, text = make(b"".join(pieces))
    assert handle.read_all() == text
    assert handle.context_meta().chars == len(text)
    at = data.draw(st.integers(0, len(text))) if data else 0
    assert handle.peek(at, at + 7) == text[at : at + 7]
    piece = text[at : at + 2]
    if piece:
        assert handle.count(re.escape(piece)) == len(re.findall(re.escape(piece), text))
        assert handle.search(re.escape(piece))[0].start == text.index(piece)
    assert [line.text for line in handle.read_lines()] == text.split("\n")[
        : -1 if text[-1:] in ("", "\n") else None
    ]
