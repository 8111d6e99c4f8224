"""What comparing ways of answering one question came to, and what to make of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rlm.results import Citation, RunResult

__all__ = ["METHODS", "Comparison", "Method", "MethodRow"]

Method = Literal["direct", "bm25", "map-reduce", "rlm"]
METHODS: tuple[Method, ...] = ("direct", "bm25", "map-reduce", "rlm")

_NAMES = {
    "direct": "the direct call",
    "bm25": "the call over the best passages",
    "map-reduce": "map-reduce",
    "rlm": "the RLM",
}
_WORD = re.compile(r"\w+")
_ALIKE = 0.5
"""Answers that share fewer of their words than this are told to differ."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One way of answering. `result` is its run's, in the journal under its name; `note` says what it could
    not do (it saw the beginning only, say), "" for nothing."""

    method: Method
    result: RunResult
    note: str = ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        return self.result.citations

    @property
    def verified(self) -> int:
        return sum(citation.verified for citation in self.citations)

    @property
    def calls(self) -> int:
        return sum(usage.calls for usage in self.result.usage)

    @property
    def input_tokens(self) -> int:
        return sum(usage.input_tokens for usage in self.result.usage)

    @property
    def output_tokens(self) -> int:
        return sum(usage.output_tokens for usage in self.result.usage)

    @property
    def cost_usd(self) -> float | None:
        """None where a price is not known."""
        costs = [usage.cost_usd for usage in self.result.usage]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    @property
    def stands(self) -> bool:
        """Whether there is an answer with quotes, every one of which is in the input."""
        return self.result.answer is not None and 0 < self.verified == len(self.citations)

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping."""
        result = self.result
        return {
            "method": self.method,
            "answer": result.answer,
            "stop_reason": result.stop_reason,
            "citations": [asdict(citation) for citation in self.citations],
            "verified": self.verified,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "seconds": result.seconds,
            "coverage": result.to_json()["coverage"],
            "run_id": result.run_id,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows in the order in which they were asked for. `fits` says whether the whole input fits one
    prompt; `models` whether a language model answered (else only extracts are compared)."""

    question: str
    chars: int
    fits: bool
    models: bool
    rows: tuple[MethodRow, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping."""
        return {
            "question": self.question,
            "input_chars": self.chars,
            "fits_one_prompt": self.fits,
            "rows": [row.to_json() for row in self.rows],
            "recommendation": self.advice,
        }

    @property
    def advice(self) -> str:
        """What these figures say, and what they can't: which answer is right, no figure tells."""
        standing = [row for row in self.rows if row.stands]
        parts = [self._verdict(standing)]
        if len(standing) > 1 and _differ(standing):
            parts.append("The answers differ: read their citations before you choose.")
        if not self.models:
            parts.append("No language model was asked: only extracts are compared here.")
        return " ".join(parts)

    def _verdict(self, standing: Sequence[MethodRow]) -> str:
        if not standing:
            return (
                "No method gave an answer whose quotes all stand in the input: rely on none of them for this "
                "question."
            )
        cheapest = min(standing, key=_price)
        name = _NAMES[cheapest.method]
        rlm = next((row for row in self.rows if row.method == "rlm"), None)
        if cheapest.method == "rlm":
            alone = len(standing) == 1 and len(self.rows) > 1
            why = "only its quotes all stand" if alone else "no other whose quotes stand was cheaper"
            return f"Use the RLM here: {why}."
        more = "" if rlm is None else _times(rlm, cheapest)
        if self.fits and cheapest.method == "direct":
            return f"You need no RLM for this: the input fits one call, whose quotes all stand{more}."
        seen = cheapest.result.coverage
        share = (
            f", though it read {100 * seen.answered_chars / self.chars:.1f} % of the input"
            if self.chars
            else ""
        )
        unread = "" if seen.complete else share
        return f"{name[0].upper()}{name[1:]} is the cheapest whose quotes all stand{unread}{more}."


def _price(row: MethodRow) -> tuple[float, int, int]:
    """By what it costs; where that is not known or nothing, by tokens; of equals the simplest. Time has no
    say: the same calls would be told of in another way each time."""
    return row.cost_usd or 0.0, row.input_tokens + row.output_tokens, METHODS.index(row.method)


def _times(rlm: MethodRow, other: MethodRow) -> str:
    if not rlm.stands:
        return "; the RLM's do not" if rlm.result.answer is not None else "; the RLM gave no answer"
    for unit, mine, theirs in (
        ("cost", rlm.cost_usd, other.cost_usd),
        ("took", rlm.input_tokens + rlm.output_tokens, other.input_tokens + other.output_tokens),
    ):
        if mine and theirs:
            what = "as much" if unit == "cost" else "as many tokens"
            return f"; the RLM {unit} {mine / theirs:.1f} times {what}"
    return ""


def _differ(rows: Sequence[MethodRow]) -> bool:
    words = [set(_WORD.findall(row.result.text.casefold())) for row in rows]
    return any(
        len(one & other) < _ALIKE * min(len(one), len(other))
        for place, one in enumerate(words)
        for other in words[:place]
    )
