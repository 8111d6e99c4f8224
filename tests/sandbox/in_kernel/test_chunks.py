from __future__ import annotations

import itertools
import json
import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.in_kernel.places import spans_of
from rlm.sandbox.text.body import Body, Span

UNITS = ["lines", "paragraphs", "headings", "documents"]


@pytest.fixture(scope="module")
def make_body(make_body):
    """Return `make(*texts)`, which opens a body of documents in Markdown."""
    return lambda *texts: make_body(*((f"d{n}.md", "markdown", text) for n, text in enumerate(texts)))


def unit_starts(body: Body, text: str, by: str | None) -> set[int]:
    """Compute where units begin, over the whole text."""
    match by:
        case "lines":
            return {found.end() for found in re.finditer("\n", text)}
        case "paragraphs":
            return {found.end() for found in re.finditer(r"\n(?:[ \t\r]*\n)+", text)}
        case "headings":
            return {found.start() for found in re.finditer(r"(?m)^#{1,6}[ \t]", text)} - {0}
        case "documents":
            return {document.start for document in body.documents} - {0}
    return set()


def check(body: Body, text: str, max_chars: int, overlap: int, by: Any) -> None:
    chunks = Handle(body).chunk(max_chars, overlap, by)
    spans = [Span(chunk.start, chunk.end) for chunk in chunks]
    assert spans == spans_of(chunks)
    assert len(chunks) == len(spans)
    assert [chunk.index for chunk in chunks] == list(range(len(spans)))
    assert [chunk.text for chunk in chunks] == [text[start:end] for start, end in spans]
    assert all(0 < end - start <= max_chars for start, end in spans)
    assert (spans[0].start, spans[-1].end) == (0, len(text)) if text else not spans
    for before, after in itertools.pairwise(spans):
        assert before.start < after.start <= before.end
        assert before.end < after.end
        assert before.end - after.start <= overlap
    borders = unit_starts(body, text, by)
    for start, end in spans[:-1]:
        fitting = [border for border in borders if start < border <= start + max_chars]
        if fitting:
            # Where whole units fit, the chunk ends with one. Only the tail of a cut document ends early.
            assert end in borders
            assert end == max(fitting) or (
                by == "documents" and start not in borders | {0} and end == min(fitting)
            )
        elif by is not None:
            line_ends = [found.end() for found in re.finditer("\n", text[start : start + max_chars])]
            assert end == start + (line_ends[-1] if line_ends else max_chars)


@settings(max_examples=150)
@given(
    st.lists(st.text(alphabet="aé世\n\n# \r", max_size=40), max_size=4),
    st.integers(1, 25),
    st.integers(0, 24),
    st.sampled_from([None, *UNITS]),
)
@example(["aaa", "\naa\na"], 4, 0, "paragraphs")
def test_chunks_cover_everything_and_keep_units_whole_where_they_fit(
    make_body, documents: list[str], max_chars: int, overlap: int, by: str | None
) -> None:
    with make_body(*documents) as body:
        check(body, body.text(0, body.chars), max_chars, min(overlap, max_chars - 1), by)


@pytest.mark.parametrize("by", [None, *UNITS])
@pytest.mark.parametrize("overlap", [0, 700])
def test_chunks_of_a_larger_text(make_body, by: str | None, overlap: int) -> None:
    part = "# Kapitel\n" + "Слово und 世界, and more of it.\n" * 80 + "\n" + "x" * 30_000 + "\n\n"
    body = make_body(part * 3, "small\n", "tiny", part * 2)
    check(body, body.text(0, body.chars), 20_000, overlap, by)


def test_small_documents_share_a_chunk_and_the_rest_of_a_cut_one_does_not(make_body) -> None:
    body = make_body("a" * 5, "b" * 4, "c" * 23, "d" * 3)
    chunks = Handle(body).chunk(12, by="documents")
    assert [chunk.text for chunk in chunks] == ["aaaaa\nbbbb\n", "c" * 12, "c" * 11 + "\n", "ddd"]
    assert [chunk.document for chunk in chunks] == ["d0.md", "d2.md", "d2.md", "d3.md"]


def test_overlap_begins_with_a_whole_unit(make_body) -> None:
    body = make_body("1111\n2222\n3333\n4444\n")
    chunks = Handle(body).chunk(15, overlap=7, by="lines")
    assert [chunk.text for chunk in chunks] == ["1111\n2222\n3333\n", "3333\n4444\n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_chars": 0}, "max_chars is 0. Give 1 or more"),
        ({"max_chars": -5}, "max_chars is -5"),
        ({"max_chars": 10, "overlap": 10}, r"overlap is 10\. .* less than max_chars \(10\)"),
        ({"overlap": -1}, "overlap is -1"),
        ({"by": "words"}, "by='words' is not a unit. Use 'lines', 'paragraphs'"),
        ({"by": "messages"}, "this input has no messages: use by='lines'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make_body, arguments: dict[str, Any], message: str) -> None:
    """max_chars ≤ 0 and overlap ≥ max_chars are ValueErrors."""
    with pytest.raises(ValueError, match=message):
        Handle(make_body("text")).chunk(**arguments)


def test_a_number_that_is_not_whole_is_a_type_error(make_body) -> None:
    with pytest.raises(TypeError, match=r"max_chars is a whole number, not float: use int\(...\)"):
        Handle(make_body("text")).chunk(1e4)  # type: ignore[arg-type]


def test_chunks_are_a_sequence(make_body) -> None:
    text = "0123456789" * 10
    chunks = Handle(make_body(text)).chunk(10)
    assert chunks[-1].start == 90
    assert chunks[3]["text"] == chunks[3].text == "0123456789"
    assert [chunk.index for chunk in chunks[2:8:3]] == [2, 5]
    assert [chunk.index for chunk in chunks[5:][-2:]] == [8, 9]
    assert [chunk.index for chunk in reversed(chunks)] == list(range(9, -1, -1))
    assert chunks[4].text.span == (40, 50)
    assert json.loads(json.dumps(chunks[0])) == {
        "index": 0,
        "start": 0,
        "end": 10,
        "text": "0123456789",
        "document": "d0.md",
    }
    with pytest.raises(IndexError, match="there is no chunk 10: there are 10"):
        chunks[10]
    assert list(Handle(make_body("")).chunk()) == []


@pytest.mark.parametrize("by", [None, "lines"])
def test_chunks_of_a_large_body_cost_little_memory(make_body, by: Any) -> None:
    """1 GB in chunks of 20,000 characters costs < 50 MB: here a tenth as many."""
    body = make_body("a line of the text, of which there are many\n" * 12_000)
    tracemalloc.start()
    chunks = Handle(body).chunk(100, by=by)
    total = sum(len(chunk.text) for chunk in chunks)
    _, peak = tracemalloc.get_traced_memory()
    all_chunks = [*chunks]
    everything, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == body.chars
    assert len(all_chunks) > 5_000
    assert peak < 500_000
    assert everything < 5_000_000


def test_chunk_coverage_finds_the_gaps(make_body) -> None:
    body = make_body("x" * 100)
    handle = Handle(body)
    full = handle.chunk_coverage(handle.chunk(7, overlap=3))
    assert full == {
        "chunks": len(handle.chunk(7, overlap=3)),
        "input_chars": 100,
        "covered_chars": 100,
        "gaps": [],
        "complete": True,
    }
    chunks = handle.chunk(10)
    part = handle.chunk_coverage([chunks[5], (0, 12), Span(30, 31), chunks[6].text, chunks[6]])
    assert (part.chunks, part.covered_chars, part.complete) == (5, 33, False)
    assert part.gaps == [(12, 30), (31, 50), (70, 100)]
    assert handle.chunk_coverage(chunks[::2]).covered_chars == 50
    assert handle.chunk_coverage([(-5, 3), (90, 500)]).covered_chars == 13
    many = handle.chunk_coverage([(at, at + 1) for at in range(0, 100, 2)])
    assert (len(many.gaps), many.covered_chars) == (20, 50)
    assert Handle(make_body("")).chunk_coverage([]).complete
    assert not handle.chunk_coverage([]).complete
    with pytest.raises(TypeError, match="takes chunks, hits or"):
        handle.chunk_coverage(["text"])
