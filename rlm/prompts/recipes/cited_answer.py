"""Join a model's reply to a cited prompt with the sources of its markers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlm.citation_markers import marks_in, without_indices
from rlm.prompts.packs import Citation

__all__ = ["CitedAnswer", "CitedPlace", "check_citations"]

_DEFINITION = re.compile(r"^[ \t]*\[\^?[0-9⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}\]:.*$", re.MULTILINE)
_SENTENCE = re.compile(
    r"\S.*?(?:[.!?…。！？]+[\"'»”’)]*(?:\s*\[[^\]\n]{1,80}\])*(?=\s|$)|\n\s*\n|\Z)", re.DOTALL
)
_WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """A marker in the reply and the citation it refers to. `start` and `end` are its characters in the
    reply."""

    marker: str
    start: int
    end: int
    citation: Citation


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """A reply, and what its citation markers refer to.

    `sources` are the cited packs in order of appearance, each once, and `places` every use of their markers.
    `unknown` are markers that the prompt did not have: nothing stands behind them. `unused` markers were in
    the prompt but not in the reply. `uncited` are the sentences without a marker. A marker says which text
    the model claims to have used; whether that text supports the sentence is not checked.
    """

    text: str
    sources: tuple[Citation, ...]
    unknown: tuple[str, ...]
    unused: tuple[str, ...]
    uncited: tuple[str, ...]
    places: tuple[CitedPlace, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """Return the markers of the sources, as the prompt writes them."""
        return tuple(source.marker for source in self.sources)

    @property
    def complete(self) -> bool:
        """Return whether every sentence has a marker and every marker a source."""
        return not self.unknown and not self.uncited

    def lines(self) -> tuple[str, ...]:
        """Return one line for each source: its marker, document, headings and place."""
        return tuple(_line(source) for source in self.sources)

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return {
            "text": self.text,
            "sources": [source.to_json() for source in self.sources],
            "known": list(self.known),
            "unknown": list(self.unknown),
            "unused": list(self.unused),
            "uncited": list(self.uncited),
            "places": [
                {"marker": place.marker, "start": place.start, "end": place.end} for place in self.places
            ],
        }


def check_citations(reply: str, citations: Sequence[Citation]) -> CitedAnswer:
    """Look up the markers of `reply` among the citations of its prompt.

    `[¹]`, `[1]` and `[^1]` are the same marker. Beside markers after a space, a plain one right after a word
    or a closing bracket, or at the start of the reply, is an index: `arr[1]`. A footnote definition is
    neither a citation nor a sentence.
    """
    numbered = {
        number: citation
        for citation in citations
        for mark in marks_in(citation.marker, loose=True)
        for number in mark.numbers
    }
    body = _DEFINITION.sub(lambda definition: " " * len(definition[0]), reply)
    marks = without_indices(body, list(marks_in(body, loose=True)))
    places: list[CitedPlace] = []
    unknown: dict[str, None] = {}
    for mark in marks:
        written = re.findall(r"[^\s,;]+", body[mark.start + 1 : mark.end - 1])
        for number, shown in zip(mark.numbers, written, strict=True):
            citation = numbered.get(number)
            if citation is None:
                unknown[f"[{shown}]"] = None
            else:
                places.append(CitedPlace(citation.marker, mark.start, mark.end, citation))
    sources = {place.marker: place.citation for place in places}
    return CitedAnswer(
        text=reply,
        sources=tuple(sources.values()),
        unknown=tuple(unknown),
        unused=tuple(citation.marker for citation in citations if citation.marker not in sources),
        uncited=tuple(
            sentence
            for found in _SENTENCE.finditer(body)
            if _WORD.search(sentence := found[0].strip())
            and not any(found.start() <= mark.start < found.end() for mark in marks)
        ),
        places=tuple(places),
    )


def _line(source: Citation) -> str:
    place = "" if source.span is None else f"characters {source.span[0]:,} to {source.span[1]:,}"
    parts = (source.doc_id, " > ".join(source.heading_path), place)
    return f"{source.marker} " + ", ".join(" ".join(part.split()) for part in parts if part)
