"""Test LaTeX: its text is unchanged, and its sections are headings."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_tree import text_of

from rlm.documents import load
from rlm.documents.latex import LatexWriter
from rlm.sandbox.context.writer import ContextFileWriter

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
