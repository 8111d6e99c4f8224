from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.errors import ContextFileError
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.place_index import MessageHeader, Place


@pytest.fixture
def body(tmp_path: Path) -> Iterator[Body]:
    """Return a document of each kind: a text without an end of line, a PDF, a chat, a book with chapters."""
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("plain.txt")
        writer.write("# looks like a heading\nno line end")
        writer.begin_document("two.pdf", "pdf")
        for text in ("first page\n", "second päge\n"):
            writer.begin_page()
            writer.write(text)
        writer.begin_document("talk.json", "chat")
        writer.begin_message(MessageHeader(1, "user", "Anna", "2026-05-01 10:00"))
        writer.write("Hällo 🎉\n# not a heading\n")
        writer.begin_message(MessageHeader(2, "assistant"))
        writer.write("Yes.\n")
        writer.end_message()
        writer.write("after the talk\n")
        writer.begin_document("book.epub", "epub")
        writer.write("before any\n")
        for level, title in [(1, "One"), (2, "One a"), (3, "Deep"), (2, "One b"), (1, "Two")]:
            writer.heading(level, len(title), offset=level + 1)
            writer.write(f"{'#' * level} {title}\nunder {title}\n")
        writer.finish()
    with Body.open(tmp_path / "c") as opened:
        yield opened


def at(body: Body, text: str) -> int:
    found = body.text(0, body.chars).index(text)
    assert body.text(found, found + len(text)) == text
    return found


def test_a_place_is_document_line_page_message_and_headings(body: Body) -> None:
    assert body.place(at(body, "no line end")) == Place("plain.txt", "text", line=2)
    assert body.place(at(body, "first page")) == Place("two.pdf", "pdf", line=3, page=1)
    assert body.place(at(body, "päge")) == Place("two.pdf", "pdf", line=4, page=2)
    assert body.place(at(body, "🎉")) == Place(
        "talk.json", "chat", line=6, message=1, role="user", author="Anna", time="2026-05-01 10:00"
    )
    assert body.place(at(body, "Yes.")) == Place("talk.json", "chat", line=9, message=2, role="assistant")
    assert body.place(at(body, "after the talk")) == Place("talk.json", "chat", line=10)
    assert body.place(at(body, "under Deep")) == Place(
        "book.epub", "epub", line=17, heading_path=("One", "One a", "Deep")
    )
    assert body.heading_path(at(body, "under One b")) == ("One", "One b")
    assert body.heading_path(at(body, "under Two")) == ("Two",)
    assert body.heading_path(at(body, "before any")) == ()
    assert body.place(-1) is None
    assert body.place(body.chars) is None


def test_documents_say_how_many_pages_and_messages_they_have(body: Body) -> None:
    shown = {
        document.name: (document.get("pages"), document.get("messages"))
        for document in Handle(body).documents()
    }
    assert shown == {
        "plain.txt": (None, None),
        "two.pdf": (2, None),
        "talk.json": (None, 2),
        "book.epub": (None, None),
    }


def test_the_section_of_a_place_is_its_message_page_or_heading(body: Body) -> None:
    handle = Handle(body)
    for inside, start in (("Hällo", "[1] user"), ("under Deep", "### Deep")):
        section = handle.around(at(body, inside), by="section")
        assert section.start == at(body, start)
        assert inside in section
    page = handle.documents()[1].page(2)
    assert handle.around(at(body, "päge"), by="section").span == (page.start, page.end)


def test_chunks_by_messages_keep_messages_whole(body: Body) -> None:
    """Boundaries are respected if a unit fits."""
    handle = Handle(body)
    chunks = handle.chunk(70, by="messages")
    assert handle.chunk_coverage(chunks).complete
    texts = [str(chunk.text) for chunk in chunks]
    assert "[1] user/Anna 2026-05-01 10:00\nHällo 🎉\n# not a heading\n" in texts
    assert any(text.startswith("[2] assistant\nYes.\n") for text in texts)


def test_chunks_by_headings_begin_at_headings_of_the_index(body: Body) -> None:
    """A `#` in a message, or on a page, begins no chunk."""
    small = {chunk.start for chunk in Handle(body).chunk(25, by="headings")}
    assert at(body, "## One a") in small
    assert at(body, "# Two") in small
    for size in range(160, 240):
        starts = {chunk.start for chunk in Handle(body).chunk(size, by="headings")}
        assert at(body, "# not a heading") not in starts


def test_an_input_without_messages_says_so(tmp_path: Path) -> None:
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a")
        writer.write("text")
        writer.finish()
    with Body.open(tmp_path / "c") as plain, pytest.raises(ValueError, match="has no messages"):
        Handle(plain).chunk(by="messages")


def test_nothing_is_marked_outside_a_document(tmp_path: Path) -> None:
    with ContextFileWriter(tmp_path / "c") as writer, pytest.raises(ContextFileError, match="no document"):
        writer.begin_page()


def test_headers_hold_what_names_hold(tmp_path: Path) -> None:
    """Names contain spaces, slashes, brackets and line ends. A header stays one line, and its parts come
    back.
    """
    headers = [
        MessageHeader(1, "user", "Dr. A/B ] C", "1 May"),
        MessageHeader(2, "", "only an author", ""),
        MessageHeader(3, "", "", "12:00"),
        MessageHeader(4),
        MessageHeader(5, "tool", "", "noon"),
    ]
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("talk", "chat")
        for header in (*headers, MessageHeader(6, "x", "line\nend " * 100)):
            writer.begin_message(header)
            writer.write("text\n")
        writer.finish()
    with Body.open(tmp_path / "c") as body:
        places = [body.place(body.marks.messages[row]) for row in range(6)]
        for place, header in zip(places, headers, strict=False):
            assert place is not None
            assert (place.message, place.role, place.author, place.time) == (
                header.number,
                header.role,
                header.author,
                header.time,
            )
        last = places[-1]
        assert last is not None
        assert last.author.startswith("line end line end")
        assert len(last.author) <= 200


_texts = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["page", "message", "heading"]), _texts), min_size=1, max_size=5))
def test_every_character_knows_its_place(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, list[str]]]
) -> None:
    """Property: for any texts, each character is of the page, message and heading in which it was written."""
    folder = tmp_path_factory.mktemp("places") / "c"
    with ContextFileWriter(folder) as writer:
        for document, (unit, texts) in enumerate(plan):
            writer.begin_document(str(document), unit)
            for number, text in enumerate(texts, 1):
                if unit == "page":
                    writer.begin_page()
                elif unit == "message":
                    writer.begin_message(MessageHeader(number, "user"))
                else:
                    writer.heading(number, len(text))
                writer.write(text + "\n")
        writer.finish()
    with Body.open(folder) as body:
        at = 0
        for document, (unit, texts) in enumerate(plan):
            for number, text in enumerate(texts, 1):
                header = f"[{number}] user\n" if unit == "message" else ""
                for char in (at, at + len(header) + len(text)):
                    place = body.place(char)
                    assert place is not None
                    assert place.document == str(document)
                    assert place.page == (number if unit == "page" else None)
                    assert place.message == (number if unit == "message" else None)
                    assert len(place.heading_path) == (number if unit == "heading" else 0)
                at += len(header) + len(text) + 1
        assert at == body.chars


def test_millions_of_messages_are_numbers_in_a_file(tmp_path: Path) -> None:
    """Rows are spilled to a file and mapped, so the manifest is bounded in memory."""
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("talk.jsonl", "chat")
        for number in range(1, 100_001):
            writer.begin_message(MessageHeader(number, "user"))
            writer.write("hi\n")
        context = writer.finish()
    assert context.documents[0].messages == 100_000
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["body", "index", "manifest.json"]
    assert (tmp_path / "c" / "manifest.json").stat().st_size < 1_000
    with Body.open(tmp_path / "c") as body:
        place = body.place(body.chars // 2)
        assert place is not None
        assert 40_000 < (place.message or 0) < 60_000
        assert isinstance(body.marks.messages._cells, memoryview)
