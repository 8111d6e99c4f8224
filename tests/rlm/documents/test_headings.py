"""Markdown and LaTeX: the text is unchanged, and its headings are indexed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from document_tree import text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.documents import load
from rlm.documents.headings import LatexWriter, MarkdownWriter
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body


def headings_of(folder: Path, pieces: list[bytes]) -> tuple[str, list[tuple[int, int, str]]]:
    """Return the body, and (start, level, title) of each heading of the index."""
    with ContextFileWriter(folder) as writer:
        writer.begin_document("a.md", "markdown")
        markdown = MarkdownWriter(writer)
        for piece in pieces:
            markdown.feed(piece)
        markdown.finish()
        writer.finish()
    with Body.open(folder) as body:
        marks = body.marks
        found = [
            (marks.headings[row], marks.level(row), body.text(*marks.title(row)))
            for row in range(len(marks.headings))
        ]
        return body.text(0, body.chars), found


TEXT = """---
front: matter
---
# One
text
## Two ##
```
# a comment
~~~
```

Under
=====

a paragraph
of two lines
-----------

- item
---
   ### Indented
    # code by indent
#hashtag
####### seven
#
~~~~ python
# not this
~~~
# nor this
~~~~
###### Sechs 世界 🙂\r
end"""


def test_headings_of_markdown_are_found(tmp_path: Path) -> None:
    """`#` and underlined headings are indexed; fenced code and thematic breaks are not."""
    text, found = headings_of(tmp_path / "c", [TEXT.encode()])
    assert text == TEXT
    assert [(level, title) for _, level, title in found] == [
        (1, "One"),
        (2, "Two"),
        (1, "Under"),
        (3, "Indented"),
        (6, "Sechs 世界 🙂"),
    ]
    for start, _, title in found:
        assert text[start:].lstrip(" #").startswith(title)
        assert start == 0 or text[start - 1] == "\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            ["# A", "## B 🙂", "text", "", "```", "~~~", "Title", "=====", "---", "\r", "####", "LONG"]
        ),
        max_size=14,
    ),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_how_the_text_is_cut_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int]
) -> None:
    """Property: body and `#` headings do not depend on the blocks; there are none in a fence."""
    # This example is fixed: a line longer than one piece of the search makes no readable drawn example.
    lines = ["x" * 70_000 if line == "LONG" else line for line in lines]
    data = "\n".join(lines).encode()
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[low:high] for low, high in pairwise(edges)]
    whole, expected = headings_of(tmp_path_factory.mktemp("m") / "c", [data])
    text, found = headings_of(tmp_path_factory.mktemp("m") / "c", pieces)
    assert text == whole == data.decode()
    if "x" * 70_000 not in lines:
        assert found == expected
    marked = [(at, level) for at, level, _ in found if text[at] == "#"]
    assert marked == _by_lines(text)


def test_an_underline_at_the_end_of_a_block_belongs_to_all_of_its_paragraph(tmp_path: Path) -> None:
    """A line under a heading is a paragraph and its underline a break, wherever the block ends."""
    data = b"# A\n## B\ntext\n---\n# C\n\nUnder\n===\nend"
    for cut in range(len(data)):
        _, found = headings_of(tmp_path / str(cut), [data[:cut], data[cut:]])
        assert [(level, title) for _, level, title in found] == [(1, "A"), (2, "B"), (1, "C"), (1, "Under")]


def _by_lines(text: str) -> list[tuple[int, int]]:
    fence, at, found = "", 0, []
    for line in text.split("\n"):
        if line[:3] in ("```", "~~~"):
            fence = "" if fence == line[:3] else fence or line[:3]
        elif not fence and (mark := re.match(r"(#{1,6})[ \t]+\S", line)):
            found.append((at, len(mark[1])))
        at += len(line) + 1
    return found


def test_a_huge_line_is_not_kept_in_memory(tmp_path: Path) -> None:
    """An endless line costs no memory."""
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a.md", "markdown")
        markdown = MarkdownWriter(writer)
        for _ in range(50):
            markdown.feed(b"# " + b"x" * 1_000_000)
            assert len(markdown._held) <= 64 * 1024
        markdown.feed(b"\n# After\n")
        markdown.finish()
        writer.finish()
    with Body.open(tmp_path / "c") as body:
        assert body.chars == 50 * 1_000_002 + 9
        assert body.heading_path(body.chars - 1) == ("After",)


def test_a_markdown_file_in_another_encoding_has_its_headings(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("# Ünder\n\ntext\n".encode("utf-16"))
    loaded = load([tmp_path / "a.md"], tmp_path / "c")
    with loaded.context.open() as body:
        assert body.heading_path(body.chars - 2) == ("Ünder",)


def test_headings_before_a_very_long_line_are_found(tmp_path: Path) -> None:
    """A line longer than any heading does not hide the headings before it."""
    text = "# A\n# B\n# C\n" + "x" * 70_000 + "\n# D\n"
    _, found = headings_of(tmp_path / "c", [text.encode()])
    assert [title for _, _, title in found] == ["A", "B", "C", "D"]


PAPER = r"""\documentclass{article} % with a comment
\begin{document}
\section*{Bees \emph{and {old} honey}} \label{s}
Bees dance.
% \section{Not one}
\subsection[Short]{The notice period}
It is three weeks. % or four?
\section{}
\section{Rivers}
They run.
"""


def test_sections_are_headings_and_the_text_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "paper.tex").write_text(PAPER)
    loaded = load([tmp_path / "paper.tex"], tmp_path / "c")
    assert text_of(loaded) == PAPER
    assert loaded.context.documents[0].kind == "latex"
    with loaded.context.open() as body:
        paths = {
            word: body.heading_path(PAPER.index(word)) for word in ("documentclass", "dance", "three", "run.")
        }
    assert paths == {
        "documentclass": (),
        "dance": (r"Bees \emph{and {old} honey}",),
        "three": (r"Bees \emph{and {old} honey}", "The notice period"),
        "run.": ("Rivers",),
    }


@pytest.mark.parametrize("size", [1, 7, 50])
def test_blocks_of_any_size_give_the_same(tmp_path: Path, size: int) -> None:
    data = (PAPER * 3 + "\\section{é" + "x" * 70_000).encode()
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a.tex", "latex")
        latex = LatexWriter(writer)
        for at in range(0, len(data), size):
            latex.feed(data[at : at + size])
        latex.finish()
        context = writer.finish()
    with context.open() as body:
        assert body.text(0, body.chars).encode() == data
        assert len(body.marks.headings.between(0, body.chars)) == 9
