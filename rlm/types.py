"""What comes out of a run: frozen, plain, and the same in Python as in JSON.

Offsets are characters of the context body, 0-based, end-exclusive; lines and pages count from 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, Literal

from sandbox.types import Span

__all__ = [
    "Citation",
    "Confidence",
    "Coverage",
    "RunResult",
    "Span",
    "StopReason",
    "Strategy",
    "TokenUsage",
    "Usage",
]

StopReason = Literal[
    "finalized",
    "rounds",
    "sub_calls",
    "tokens",
    "cost",
    "time",
    "contract_violation",
    "kernel",
    "model",
    "cancelled",
]
Strategy = Literal["rlm", "direct"]
Confidence = Literal["low", "medium", "high"] | float


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote and where it stands. `verified` is False when the body does not hold the quote there."""

    marker: str
    quote: str
    start: int | None
    end: int | None
    document: str | None
    page: int | None
    line: int | None
    verified: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the body was seen, in characters, whatever the answer claims.

    sent, answered and failed are the driver's own account of children; read (handed to a cell) and
    scanned (searched by machine) are the kernel's word, bounds-checked. `complete` is true exactly when
    every character was answered for or read. `gaps` are the first few stretches that were not.
    """

    input_chars: int
    read_chars: int = 0
    scanned_chars: int = 0
    sent_chars: int = 0
    answered_chars: int = 0
    failed_chars: int = 0
    chunks_processed: int = 0
    chunks_total: int = 0
    complete: bool = False
    gaps: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens as the provider counted them. `input_tokens` includes `cached_tokens` (read from its cache) and
    `cache_write_tokens` (written to it, where that is charged apart)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __bool__(self) -> bool:
        return self != TokenUsage()

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What one model was asked for. `cost_usd` is None when its price is not known."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run. `answer` is None when it ended without one: `stop_reason` says why, and
    `variables` what the kernel held then (`name: type, size`). `answer` is JSON-safe; `parsed` is what it is
    in Python where the caller gave a type (`schema=Answer`), and is no part of the JSON."""

    run_id: str
    answer: Any
    confidence: Confidence | None
    stop_reason: StopReason
    forced: bool
    strategy: Strategy
    citations: tuple[Citation, ...]
    coverage: Coverage
    usage: tuple[Usage, ...]
    rounds: int
    sub_calls: int
    seconds: float
    warnings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    parsed: Any = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping; `from_json` reads it back to an equal result."""
        data = asdict(replace(self, parsed=None))
        del data["parsed"]
        data["coverage"]["gaps"] = [list(gap) for gap in self.coverage.gaps]
        return data

    def _repr_html_(self) -> str:
        """How a notebook shows it: the answer, its sources, what was read. Everything in it is escaped."""
        if self.answer is None:
            answer = f"<em>No answer ({self.stop_reason}).</em>"
        else:
            answer = escape(self.answer if isinstance(self.answer, str) else str(self.answer))
        sources = "".join(
            f"<li>{escape(citation.marker)} {escape(citation.document or 'input')}"
            f"{'' if citation.line is None else f':{citation.line}'} "
            f"{'' if citation.verified else '<strong>not found in the input</strong> '}"
            f"<q>{escape(citation.quote)}</q></li>"
            for citation in self.citations
        )
        coverage = self.coverage
        return (
            f"<div><p style='white-space: pre-wrap'>{answer}</p><ul>{sources}</ul>"
            f"<p><small>{self.strategy}, {self.rounds} rounds, {self.sub_calls} child calls, "
            f"{self.seconds:.1f} s; {coverage.input_chars:,} characters, {coverage.read_chars:,} read, "
            f"{coverage.answered_chars:,} answered for by children; run {escape(self.run_id)}"
            "</small></p></div>"
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunResult:
        """The result that `to_json` wrote."""
        coverage = dict(data["coverage"])
        coverage["gaps"] = tuple(Span(*gap) for gap in coverage["gaps"])
        return cls(
            **{
                **data,
                "citations": tuple(Citation(**citation) for citation in data["citations"]),
                "coverage": Coverage(**coverage),
                "usage": tuple(Usage(**usage) for usage in data["usage"]),
                "warnings": tuple(data["warnings"]),
                "variables": tuple(data["variables"]),
            }
        )
