"""The sections of documents: by headings, else pages, else length. They cover the whole text."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.tasks.summaries.sections import DocumentSection, sections_of

Piece = str | tuple[int, str] | None
"""Text, a heading of a level, or (None) where a page begins."""


def sections(documents: Sequence[Sequence[Piece]], most: int = 24) -> tuple[str, tuple[DocumentSection, ...]]:
    """The text of a body of these documents, and its sections."""
    with tempfile.TemporaryDirectory() as folder, ContextFileWriter(Path(folder)) as writer:
        for number, pieces in enumerate(documents):
            writer.begin_document(f"{number}.md")
            for piece in pieces:
                if piece is None:
                    writer.begin_page()
                elif isinstance(piece, str):
                    writer.write(piece)
                else:
                    writer.write_heading(*piece)
            writer.end_document()
        with writer.finish().open() as body:
            return body.text(0, body.chars), sections_of(body, most=most)


def titles(pieces: Sequence[Piece], most: int = 24) -> list[str]:
    return [section.title for section in sections([pieces], most)[1]]


def chapters(level: int, names: str) -> list[Piece]:
    return [piece for name in names for piece in ((level, name), f"Of {name}.\n")]


def test_a_document_is_cut_at_headings_down_to_the_level_that_fits() -> None:
    deep = [*chapters(1, "A"), *chapters(2, "ab"), *chapters(1, "B"), *chapters(2, "cd")]
    assert titles(deep) == ["A", "a", "b", "B", "c", "d"]
    assert titles(deep, most=4) == ["A", "B"]
    assert titles(["An abstract. " * 30, *deep], most=4) == ["Beginning", "A", "B"]
    assert titles(chapters(1, "ABCDEF"), most=3) == ["A …", "C …", "E …"]


def test_a_document_without_headings_is_cut_at_pages() -> None:
    pages: list[Piece] = [piece for number in range(8) for piece in (None, f"Page {number} says so.\n")]
    assert titles(pages) == ["Pages 1–2", "Pages 3–4", "Pages 5–6", "Pages 7–8"]
    assert titles(pages[:6]) == ["Page 1", "Page 2", "Page 3"]
    assert titles(pages, most=2) == ["Pages 1–4", "Pages 5–8"]


def test_a_document_without_either_is_cut_by_length_at_sentence_ends() -> None:
    text, found = sections([["The pump of the yard has run for 30 days. " * 1_200]])
    assert [section.title for section in found] == ["Part 1 of 3", "Part 2 of 3", "Part 3 of 3"]
    assert all(text[one.start : one.end].startswith("The pump") for one in found)
    assert titles(["It is short."]) == ["0.md"]


def test_titles_name_the_document_and_blank_sections_are_dropped() -> None:
    _, found = sections([chapters(1, "AB"), ["One more."], [" \n\n"]])
    assert [section.title for section in found] == ["0.md: A", "0.md: B", "1.md"]
    assert [section.document for section in found] == ["0.md", "0.md", "1.md"]


_PIECES = st.one_of(
    st.none(),
    st.sampled_from(["Yes. ", "A line.\n", "\n\n", "no end ", "It is so. " * 60, "中。\n"]),
    st.tuples(st.integers(1, 4), st.sampled_from(["A", "Some title", "###"])),
)


@given(st.lists(st.lists(_PIECES, max_size=12), min_size=1, max_size=3), st.integers(1, 8))
def test_sections_cover_all_text_once_and_in_order(documents: list[list[Piece]], most: int) -> None:
    text, found = sections(documents, most)
    assert "".join("".join(text[one.start : one.end].split()) for one in found) == "".join(text.split())
    assert all(before.end <= after.start for before, after in pairwise(found))
    # One for each document, and what stands before its first heading.
    assert len(found) <= max(most, len(documents)) + len(documents)
