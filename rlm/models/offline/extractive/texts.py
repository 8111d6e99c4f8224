"""The fixed texts of an answer that no language model wrote."""

from __future__ import annotations

from dataclasses import replace

from rlm.results import RunResult

__all__ = ["EXTRACTS", "NEAREST", "NOTHING", "NO_WORDS", "is_extracts", "with_status"]

EXTRACTS = "Extracts (no language model was asked; --model NAME asks one):"
NEAREST = "No passage with these words. The nearest:"
NOTHING = "No passage with these words. No language model was asked; --model NAME asks one."
NO_WORDS = "The question has no words to search for. No language model was asked; --model NAME asks one."


def is_extracts(result: RunResult) -> bool:
    """Return whether the answer consists of passages that no language model chose."""
    return isinstance(result.answer, str) and result.answer.startswith((EXTRACTS, NEAREST))


def with_status(result: RunResult, unread: str) -> RunResult:
    """Return the result of a run without a language model. Where no passage has enough of the question's
    words, its stop reason is `nearest` and nothing was found, but nothing is denied either: an answer may
    stand in other words, or in what was not read (`unread`)."""
    answer = NOTHING if result.stop_reason == "not_found" else result.answer
    if not isinstance(answer, str) or not answer.startswith((NEAREST, NOTHING, NO_WORDS)):
        return replace(result, found=answer is not None)
    answer += f"\n\n{unread.strip()}" if unread else ""
    return replace(result, answer=answer, stop_reason="nearest", confidence=None, found=False)
