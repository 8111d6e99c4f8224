"""Check a reply's citation markers: known, unknown and unused ones, and sentences without any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlm.citation_markers import marks_in, without_indices
from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.section import Citation

__all__ = ["CitationCheck", "CitedPlace", "check_citations"]

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
class CitationCheck:
    """The citations of a reply. Markers are written as in the prompt, each once, in order of appearance.

    `unknown` markers were not in the prompt. `unused` markers were in the prompt but not in the reply.
    `uncited` are the sentences without a marker. `places` holds every use of a known marker.
    """

    known: tuple[str, ...]
    unknown: tuple[str, ...]
    unused: tuple[str, ...]
    uncited: tuple[str, ...]
    places: tuple[CitedPlace, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return asdict(self)


def check_citations(reply: str, citations: Sequence[Citation]) -> CitationCheck:
    """Compare the markers in `reply` with the citations of its prompt.

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
    known = tuple(dict.fromkeys(place.marker for place in places))
    return CitationCheck(
        known=known,
        unknown=tuple(unknown),
        unused=tuple(citation.marker for citation in citations if citation.marker not in known),
        uncited=tuple(
            sentence
            for found in _SENTENCE.finditer(body)
            if _WORD.search(sentence := found[0].strip())
            and not any(found.start() <= mark.start < found.end() for mark in marks)
        ),
        places=tuple(places),
    )
