"""Join a model's reply to a cited prompt with the sources of its markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.section import Citation
from rlm.prompts.citation_check import check_citations

__all__ = ["CitedAnswer"]


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """A reply, and what its citation markers refer to.

    `sources` are the cited packs in order of appearance, each once. `unknown` are markers that the prompt did
    not have: nothing stands behind them. `uncited` are the sentences without a marker. A marker says which
    text the model claims to have used; whether that text supports the sentence is not checked.
    """

    text: str
    sources: tuple[Citation, ...]
    unknown: tuple[str, ...]
    uncited: tuple[str, ...]

    @classmethod
    def of(cls, reply: str, citations: Sequence[Citation]) -> CitedAnswer:
        """Look up the markers of `reply` among the citations of its prompt."""
        found = check_citations(reply, citations)
        by_marker = {citation.marker: citation for citation in citations}
        return cls(reply, tuple(by_marker[marker] for marker in found.known), found.unknown, found.uncited)

    @property
    def complete(self) -> bool:
        """Return whether every sentence has a marker and every marker a source."""
        return not self.unknown and not self.uncited

    def lines(self) -> tuple[str, ...]:
        """Return one line for each source: its marker, document, headings and place."""
        return tuple(_line(source) for source in self.sources)

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return {**asdict(self), "sources": [source._asdict() for source in self.sources]}


def _line(source: Citation) -> str:
    place = "" if source.span is None else f"characters {source.span[0]:,} to {source.span[1]:,}"
    parts = (source.doc_id, " > ".join(source.heading_path), place)
    return f"{source.marker} " + ", ".join(" ".join(part.split()) for part in parts if part)
