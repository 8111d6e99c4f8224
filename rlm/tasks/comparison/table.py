"""The result of a comparison: a row for each method, and a recommendation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from rlm.lazy_dataclass import dataclass
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
"""Answers that share a smaller part of their words than this are reported as different."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The result of one method, which the journal stores as the part with the method's name. `note` says what
    the method could not do, for example that it read only the beginning; "" for nothing."""

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
        """The cost in US dollars; None if a price is unknown."""
        costs = [usage.cost_usd for usage in self.result.usage]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    @property
    def is_verified(self) -> bool:
        """Whether there is an answer with citations, and all of them are verified."""
        return self.result.answer is not None and 0 < self.verified == len(self.citations)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
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
    """The rows in the order of the request. `fits`: the whole input fits one prompt."""

    question: str
    chars: int
    fits: bool
    rows: tuple[MethodRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        return {
            "question": self.question,
            "input_chars": self.chars,
            "fits_one_prompt": self.fits,
            "rows": [row.to_json() for row in self.rows],
            "recommendation": self.advice,
        }

    @property
    def advice(self) -> str:
        """A recommendation by cost and verified quotes. The figures cannot tell which answer is right."""
        verified = [row for row in self.rows if row.is_verified]
        parts = [self._recommend(verified)]
        if len(verified) > 1 and _has_different_answers(verified):
            parts.append("The answers differ: read their citations before you choose.")
        return " ".join(parts)

    def _recommend(self, verified: Sequence[MethodRow]) -> str:
        if not verified:
            return "No method gave an answer with only verified quotes. Do not rely on these answers."
        cheapest = min(verified, key=_rate_price)
        name = _NAMES[cheapest.method]
        rlm = next((row for row in self.rows if row.method == "rlm"), None)
        if cheapest.method == "rlm":
            alone = len(verified) == 1 and len(self.rows) > 1
            why = (
                "it is the only method with only verified quotes"
                if alone
                else "no other method with verified quotes was cheaper"
            )
            return f"Use the RLM here: {why}."
        more = "" if rlm is None else _describe_rlm(rlm, cheapest)
        if self.fits and cheapest.method == "direct":
            return (
                f"You need no RLM for this: the input fits one call, and all its quotes are verified{more}."
            )
        seen = cheapest.result.coverage
        share = (
            f", but read only {100 * seen.answered_chars / self.chars:.1f} % of the input"
            if self.chars
            else ""
        )
        unread = "" if seen.complete else share
        return f"{name[0].upper()}{name[1:]} is the cheapest method with verified quotes{unread}{more}."


def _rate_price(row: MethodRow) -> tuple[float, int, int]:
    """Return a sort key: the cost, then the tokens, then the simplicity of the method. An unknown cost counts
    as 0. Time does not count, because it differs between runs of the same calls."""
    return row.cost_usd or 0.0, row.input_tokens + row.output_tokens, METHODS.index(row.method)


def _describe_rlm(rlm: MethodRow, other: MethodRow) -> str:
    """Return what the RLM cost compared with `other`, or that it has no verified answer."""
    if not rlm.is_verified:
        has_answer = rlm.result.answer is not None
        return "; the RLM's answer is not verified" if has_answer else "; the RLM gave no answer"
    for verb, of_rlm, of_other in (
        ("cost", rlm.cost_usd, other.cost_usd),
        ("used", rlm.input_tokens + rlm.output_tokens, other.input_tokens + other.output_tokens),
    ):
        if of_rlm and of_other:
            what = "as much" if verb == "cost" else "as many tokens"
            return f"; the RLM {verb} {of_rlm / of_other:.1f} times {what}"
    return ""


def _has_different_answers(rows: Sequence[MethodRow]) -> bool:
    words = [set(_WORD.findall(row.result.text.casefold())) for row in rows]
    return any(
        len(one & other) < _ALIKE * min(len(one), len(other))
        for place, one in enumerate(words)
        for other in words[:place]
    )
