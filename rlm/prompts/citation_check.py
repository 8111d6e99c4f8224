"""Which markers a reply cites, which of them stand for something, and which sentences cite nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlm.prompts.assembly.section import Citation

__all__ = ["CitationCheck", "CitedPlace", "check_citations"]

_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = r"\^?(?:\d{1,6}|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,6})"
_MARKER = re.compile(rf"\[\s*{_NUMBER}(?:\s*[,;]\s*{_NUMBER})*\s*\]")
_DEFINITION = re.compile(rf"^[ \t]*\[{_NUMBER}\]:.*$", re.MULTILINE)
_SENTENCE = re.compile(
    r"\S.*?(?:[.!?…。！？]+[\"'»”’)]*(?:\s*\[[^\]\n]{1,80}\])*(?=\s|$)|\n\s*\n|\Z)", re.DOTALL
)
_WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """A marker in the reply (`start`, `end` in its characters) and the citation it stands for: its document,
    its pack, and where in the document, as far as that is known."""

    marker: str
    start: int
    end: int
    citation: Citation


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """What a reply cites. Markers are given as the prompt shows them, each once, in order of appearance.

    `unknown` stand for nothing that was in the prompt, `unused` were there and not cited,
    `uncited` are the sentences without any marker. `places` resolves every known one.
    """

    known: tuple[str, ...]
    unknown: tuple[str, ...]
    unused: tuple[str, ...]
    uncited: tuple[str, ...]
    places: tuple[CitedPlace, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping of everything."""
        return asdict(self)


def check_citations(reply: str, citations: Sequence[Citation]) -> CitationCheck:
    """The markers in `reply` against those of the prompt it answers. `[¹]`, `[1]` and `[^1]` are one; a
    footnote's definition is neither a citation nor a sentence."""
    numbered = {_number(citation.marker): citation for citation in citations}
    body = _DEFINITION.sub(lambda found: " " * len(found[0]), reply)
    places: list[CitedPlace] = []
    unknown: dict[str, None] = {}
    for found in _MARKER.finditer(body):
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
            if _WORD.search(sentence := found[0].strip()) and not _MARKER.search(sentence)
        ),
        places=tuple(places),
    )


def _number(marker: str) -> int:
    return int(marker.strip("[]^ ").translate(_DIGITS))
