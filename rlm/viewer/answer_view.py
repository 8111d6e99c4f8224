"""An answer as pieces for a page: its marks, and its claims with whether their sources support them."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

from rlm.citation_markers import marker, marks_of
from rlm.results import Citation, RunResult
from rlm.viewer.events import cut

__all__ = ["answer_pieces", "result_facts", "result_of"]

_MAX_ANSWER = 200_000
_MAX_QUOTE = 2_000
_SHOWN, _NOTES = 1_000, 100
_WORD = re.compile(r"[^\W_]+")
_VERDICTS = ("unsupported", "supported", "unchecked")


def result_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of the `finished` event of a run."""
    result = result_of(data)
    if result is None:
        return {"unreadable": True, "pieces": [], "citations": [], "claims": [], "warnings": []}
    return {
        "pieces": answer_pieces(result),
        "is_text": isinstance(result.answer, str),
        "cause": result.cause,
        "found": result.found,
        "confidence": result.confidence,
        "stop_reason": result.stop_reason,
        "figures": result.figures,
        "citations": _citation_facts(result)[:_SHOWN],
        "claims": _claim_facts(result)[:_SHOWN],
        "usage": [asdict(one) for one in result.usage],
        "warnings": [cut(one, 1_000) for one in result.warnings[:_NOTES]],
        "unread": [cut(one, 300) for one in result.unread[:_NOTES]],
        "gates": [
            {"name": gate.name, "refusals": [cut(one, 300) for one in gate.refusals[:20]]}
            for gate in result.gates
        ],
    }


def answer_pieces(result: RunResult) -> list[dict[str, Any]]:
    """Return the answer in order: each piece has its `text`, the index of its `claim` (or None), and the
    numbers that it `cites` if it is a mark. Beyond 200,000 characters it is cut."""
    if result.answer is None:
        return []
    if not isinstance(result.answer, str):
        text = json.dumps(result.answer, ensure_ascii=False, indent=2, default=str)
        return [{"text": cut(text, _MAX_ANSWER), "claim": None, "cites": []}]
    answer = result.answer[:_MAX_ANSWER]
    marks = _marks(answer, len(result.citations))
    claims = [] if result.support is None else result.support.claims
    owner: list[tuple[int, int, int]] = []
    letters = _Letters(answer)
    for number, claim in enumerate(claims):
        if claim.start is not None and claim.end is not None and claim.start < claim.end:
            place = letters.place_of(claim.text, claim.start, claim.end)
            if place is not None:
                owner.append((*place, number))
    borders = sorted(
        {0, len(answer)}
        | {place for start, end, _ in owner for place in (start, end)}
        | {place for start, end, _ in marks for place in (start, end)}
    )
    cites = {start: numbers for start, _, numbers in marks}
    pieces: list[dict[str, Any]] = []
    owner.sort()
    for low, high in pairwise(borders):
        owned = next((number for start, end, number in owner if start <= low and high <= end), None)
        numbers = list(cites.get(low, ()))
        text = "".join(map(marker, numbers)) or answer[low:high]
        pieces.append({"text": text, "claim": owned, "cites": numbers})
    if len(result.answer) > _MAX_ANSWER:
        pieces.append({"text": "… (cut)", "claim": None, "cites": []})
    return pieces


def _citation_facts(result: RunResult) -> list[dict[str, Any]]:
    """Return the citations with their place, and whether each supports the claims that cite it: `verdict` is
    unsupported if one of them is not supported, else supported, unchecked, or "" if no claim cites it."""
    claims = () if result.support is None else result.support.claims
    cited: dict[int, list[int]] = {}
    for index, claim in enumerate(claims):
        for number in claim.sources:
            cited.setdefault(number, []).append(index)
    return [
        _citation(
            number, citation, cited.get(number, []), [claims[one].status for one in cited.get(number, [])]
        )
        for number, citation in enumerate(result.citations, 1)
    ]


def _claim_facts(result: RunResult) -> list[dict[str, Any]]:
    """Return the claims of the answer with their verdicts."""
    claims = () if result.support is None else result.support.claims
    return [
        {
            "text": cut(claim.text, _MAX_QUOTE),
            "status": claim.status,
            "test": claim.test,
            "reason": cut(claim.reason, _MAX_QUOTE),
            "sources": list(claim.sources),
        }
        for claim in claims
    ]


def _citation(
    number: int, citation: Citation, claims: Sequence[int], statuses: Sequence[str]
) -> dict[str, Any]:
    return {
        "number": number,
        "marker": citation.marker,
        "quote": cut(citation.quote, _MAX_QUOTE),
        "place": citation.place,
        "document": citation.document,
        "start": citation.start,
        "end": citation.end,
        "verified": citation.verified,
        "seen": citation.seen,
        "claims": list(claims),
        "verdict": next((one for one in _VERDICTS if one in statuses), ""),
    }


class _Letters:
    """The letters and digits of a text, and where they stand in it."""

    def __init__(self, text: str) -> None:
        words = list(_WORD.finditer(text))
        self._text = "".join(word[0] for word in words)
        self._places = [word.start() for word in words]
        self._ends = [word.end() for word in words]
        self._at = [0, *accumulate(len(word[0]) for word in words)]

    def place_of(self, claim: str, start: int, end: int) -> tuple[int, int] | None:
        """Return where a claim stands: from `start` to `end`, or from its first to its last letter further
        on, if a statement was put before the answer later. None if its text is not there."""
        letters = "".join(_WORD.findall(claim))
        first = self._text.find(letters, self._at[bisect_right(self._ends, start)])
        if first < 0 or not letters:
            return None
        low, high = self._place(first), self._place(first + len(letters) - 1) + 1
        return (start, end) if start <= low and high <= end else (low, high)

    def _place(self, letter: int) -> int:
        word = bisect_right(self._at, letter) - 1
        return self._places[word] + letter - self._at[word]


def _marks(answer: str, count: int) -> list[tuple[int, int, Sequence[int]]]:
    """Return the marks that name citations."""
    return [(mark.start, mark.end, mark.numbers) for mark in marks_of(answer, range(1, count + 1))]


def result_of(data: Mapping[str, Any]) -> RunResult | None:
    """Return the result of a `finished` event, or None if this version cannot read it."""
    try:
        return RunResult.from_json(data)
    except (KeyError, TypeError, ValueError):
        return None
