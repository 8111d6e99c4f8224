"""Test that a window of a body acts like a body of its own text, without copies."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.place_index import MessageHeader

PIECES = ["a", "needle ", "\n", "\r\n", "é", "漢字", "🙂", "e\u0301", "\u2028", "\x00", "ß", "Ж ", "x" * 300]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory):
    opened: list[Body] = []

    def made(*texts: str) -> Body:
        with ContextFileWriter(tmp_path_factory.mktemp("window") / "context") as writer:
            for number, text in enumerate(texts):
                writer.begin_document(f"{number}.txt", "text")
                writer.write(text)
                writer.end_document()
            opened.append(writer.finish().open())
        return opened[-1]

    yield made
    for body in opened:
        body.close()


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return pieces if pieces[-1] else pieces[:-1]


@given(data=st.data())
def test_a_window_reads_as_its_own_text(make, data) -> None:
    """Offsets, lines and bytes count from its start, exact on hard Unicode."""
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=200)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    body, part = make(text), text[start:end]
    window = body.window(start, end)
    assert (window.chars, window.bytes, window.lines) == (len(part), len(part.encode()), len(_lines(part)))
    assert window.text(0, window.chars) == part
    for char in {0, len(part) // 2, len(part)}:
        assert window.byte_of(char) == len(part[:char].encode())
        assert window.char_of(window.byte_of(char)) == char
        assert window.line_of(char) == part[:char].count("\n")
    for line in {0, window.lines // 2, window.lines}:
        assert window.line_start(line) == len(
            "".join(piece + "\n" for piece in part.split("\n")[:line])[: len(part)]
        )
    window.close()


@given(data=st.data())
def test_the_helpers_work_in_a_window_as_in_its_text(make, data) -> None:
    """Search, count, lines and chunks over a window are those over the text alone."""
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=60)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    body, part = make(text), text[start:end]
    window = body.window(start, end)
    handle = Handle(window)
    for literal in ("needle", "Ж", "x"):
        expected = [at for at in range(len(part)) if part.startswith(literal, at)]
        assert [hit.start for hit in handle.search(literal, max_hits=10_000)] == expected
        assert handle.count(literal) == len(expected)
    assert handle.count("^") == (len(part.split("\n")) if part else 1)
    assert [line.text.rstrip("\n") for line in handle.read_lines()] == _lines(part)
    assert "".join(chunk.text for chunk in handle.chunk(7)) == part
    window.close()


def test_a_window_of_a_window_is_a_window(make) -> None:
    body = make("one\ntwo\nthree\nfour\n")
    window = body.window(4, 18)
    inner = window.window(4, 9)
    assert (inner.text(0, 99), inner.lines, inner.line_of(1)) == ("three", 1, 0)


def test_documents_are_clipped_and_counted_anew(make) -> None:
    body = make("aaaa", "bbbb", "cccc")
    window = body.window(2, 7)
    assert [(d.index, d.name, d.start, d.end) for d in window.documents] == [
        (0, "0.txt", 0, 3),
        (1, "1.txt", 3, 5),
    ]
    place = window.place(3)
    assert place is not None
    assert (place.document, place.line) == ("1.txt", 2)


def test_messages_and_headings_are_those_that_begin_in_it(tmp_path: Path) -> None:
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("chat", "chat")
        for number in range(1, 6):
            writer.begin_message(MessageHeader(number, role="user"))
            writer.write(f"text {number}\n")
        writer.end_document()
        context = writer.finish()
    with context.open() as body:
        third = body.marks.messages[2]
        fifth = body.marks.messages[4]
        window = body.window(third, fifth)
        assert window.documents[0].messages == 2
        assert list(window.marks.messages) == [0, fifth - third - (fifth - body.marks.messages[3])]
        place = window.place(2)
        assert place is not None
        assert place.message == 3
        chunks = Handle(window).chunk(25, by="messages")
        assert [chunk.text.splitlines()[1] for chunk in chunks] == ["text 3", "text 4"]
        window.close()


def test_a_window_shares_the_bytes_of_its_body(make) -> None:
    body = make("x" * 1_000_000)
    window = body.window(10, 999_990)
    assert isinstance(window.buffer, memoryview)
    assert isinstance(window.buffer.obj, mmap.mmap)
    assert window.buffer.obj is body.buffer


def test_the_hash_of_a_window_is_that_of_its_bytes(make) -> None:
    import hashlib

    window = make("one two three").window(4, 7)
    assert window.sha256 == hashlib.sha256(b"two").hexdigest()


def test_a_body_that_is_being_searched_can_be_closed(make) -> None:
    """A cancelled run closes its body while a search continues on a thread."""
    body = make("x" * 1_000)
    window = body.window(0, 500)
    with memoryview(window.buffer) as view:
        window.close()
        body.close()
        assert view[0] == ord("x")
    window.close()
