"""Lowers the confidence of an answer that the coverage of the input and the evidence do not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from rlm.accounting.coverage import CoverageLedger
from rlm.prompts import states_absence
from rlm.prompts.templates import table
from rlm.results import Citation, Confidence

__all__ = ["limit_confidence"]

_Level = Literal["low", "medium"]
_NUMBERS: Mapping[str, float] = MappingProxyType({"low": 0.3, "medium": 0.6, "high": 1.0})
"""The largest number that stands for each word."""
_TINY_SHARE = 0.1
_ENOUGH_SHARE = 0.95
"""To say that something is not in the input, this share of it must have been looked at."""
_FEW_CHARS = 1_000
"""Parts that are not looked at count only beyond this size: a heading, a signature."""


def limit_confidence(
    given: Confidence | None,
    value: Any,
    citations: Sequence[Citation],
    coverage: CoverageLedger,
    *,
    looked_before: bool = False,
) -> tuple[Confidence | None, str]:
    """Return the confidence that an answer may have, and why it is lower than `given` ("" if it is not).

    It is at most medium if children failed or chunks of a batch were not answered, or if some evidence is not
    in the input, and at most low if none of it is. If only a small part of the input was searched, read or
    answered for, it is at most low, or medium with verified evidence; an answer without evidence needs all
    of it for more than medium. `looked_before`: earlier questions have looked at the input.
    """
    if given is None:
        return None, ""
    words = table("feedback.toml")["confidence"]
    found = [*_failures(coverage, words), *_evidence(citations, words)]
    if not looked_before:
        found += _unseen(value, citations, coverage, words)
    if not found:
        return given, ""
    cap: _Level = "low" if any(level == "low" for level, _ in found) else "medium"
    if (_NUMBERS[given] if isinstance(given, str) else given) <= _NUMBERS[cap]:
        return given, ""
    lowered: Confidence = cap if isinstance(given, str) else _NUMBERS[cap]
    reasons = "; ".join(reason for _, reason in found)
    return lowered, str(words["lowered"].format(given=given, lowered=lowered, reasons=reasons))


_Found = list[tuple[_Level, str]]


def _failures(coverage: CoverageLedger, words: Mapping[str, str]) -> _Found:
    seen = coverage.report()
    if seen.complete:
        return []
    if seen.chunks_processed < seen.chunks_total:
        processed, total = f"{seen.chunks_processed:,}", f"{seen.chunks_total:,}"
        return [("medium", words["chunks"].format(processed=processed, total=total))]
    if seen.failed_chars:
        return [("medium", words["failed"].format(chars=f"{seen.failed_chars:,}"))]
    return []


def _evidence(citations: Sequence[Citation], words: Mapping[str, str]) -> _Found:
    missing = sum(not citation.verified and not citation.seen for citation in citations)
    if not missing:
        return []
    level: _Level = "low" if missing == len(citations) else "medium"
    return [(level, words["evidence"].format(count=missing, pieces=len(citations)))]


def _unseen(
    value: Any, citations: Sequence[Citation], coverage: CoverageLedger, words: Mapping[str, str]
) -> _Found:
    looked, chars = coverage.looked_chars, coverage.input_chars
    if chars - looked <= _FEW_CHARS:
        return []
    share = looked / chars
    is_proven = any(citation.verified or citation.seen for citation in citations)
    level: _Level | None = None
    if isinstance(value, str) and states_absence(value):
        level = "low" if share < _ENOUGH_SHARE else None
    elif share < _TINY_SHARE:
        level = "medium" if is_proven else "low"
    elif not is_proven:
        level = "medium"
    if level is None:
        return []
    shown = f"{100 * share:.1f} %" if share >= 0.001 else "less than 0.1 %"
    return [(level, words["unseen"].format(share=shown))]
