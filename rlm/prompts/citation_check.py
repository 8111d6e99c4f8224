"""Check a reply's citation markers: known, unknown and unused ones, and sentences without any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.section import Citation

__all__ = ["CitationCheck", "CitedPlace", "check_citations"]

_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = r"\^?(?:[1-9]\d{0,2}|[¹²³⁴⁵⁶⁷⁸⁹][⁰¹²³⁴⁵⁶⁷⁸⁹]{0,2})"
"""A marker has at most three digits, and none is 0: `[2024]` is a year, `[0]` an index."""
_MARKER = re.compile(rf"\[\s*{_NUMBER}(?:\s*[,;]\s*{_NUMBER})*\s*\]")
_DEFINITION = re.compile(rf"^[ \t]*\[{_NUMBER}\]:.*$", re.MULTILINE)
_SENTENCE = re.compile(
    r"\S.*?(?:[.!?…。！？]+[\"'»”’)]*(?:\s*\[[^\]\n]{1,80}\])*(?=\s|$)|\n\s*\n|\Z)", re.DOTALL
)
_WORD = re.compile(r"\w{2,}")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)


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

    `[¹]`, `[1]` and `[^1]` are the same marker. A footnote definition is neither a citation nor a sentence.
    """
    numbered = {_number(citation.marker): citation for citation in citations}
    body = _DEFINITION.sub(_blank, reply)
    markers = _markers(_CODE.sub(_blank, body))
    places: list[CitedPlace] = []
    unknown: dict[str, None] = {}
    for found in markers:
        for number in re.finditer(_NUMBER, found[0]):
            citation = numbered.get(_number(number[0]))
            if citation is None:
                unknown[f"[{number[0]}]"] = None
            else:
                places.append(CitedPlace(citation.marker, found.start(), found.end(), citation))
    known = tuple(dict.fromkeys(place.marker for place in places))
    return CitationCheck(
        known=known,
        unknown=tuple(unknown),
        unused=tuple(citation.marker for citation in citations if citation.marker not in known),
        uncited=tuple(
            sentence
            for found in _SENTENCE.finditer(body)
            if _WORD.search(sentence := found[0].strip())
            and not any(found.start() <= one.start() < found.end() for one in markers)
        ),
        places=tuple(places),
    )


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _markers(body: str) -> list[re.Match[str]]:
    """Return the markers. Beside markers after a space, one right after a word is an index: `arr[1]`."""
    found = list(_MARKER.finditer(body))
    before = [body[max(0, one.start() - 1) : one.start()] for one in found]
    if not any(one.isspace() for one in before):
        return found
    return [
        one
        for one, char in zip(found, before, strict=True)
        if not (char.isascii() and (char.isalnum() or char == "_"))
    ]


def _number(marker: str) -> int:
    return int(marker.strip("[]^ ").translate(_DIGITS))
