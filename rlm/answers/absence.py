"""Decides whether an answer says that the documents hold none, for every way to ask."""

from __future__ import annotations

from dataclasses import replace

from rlm.prompts import is_not_found, states_absence
from rlm.results import RunResult

__all__ = ["NOT_IN_DOCUMENTS", "describe_unread", "judge_absence", "not_found"]

NOT_IN_DOCUMENTS = "Not in the documents: they do not contain the answer to this question."
_SHOWN = 5


def judge_absence(result: RunResult) -> RunResult:
    """Return the result of a question that a model answered, with `found` False if its answer says that the
    documents hold none. Such a statement names the documents that were not read."""
    answer = result.answer
    if result.stop_reason == "not_found":
        return not_found(result)
    if not result.found or answer is None:
        return replace(result, found=False)
    if not isinstance(answer, str):
        return result
    if states_absence(answer):
        return replace(result, answer=answer + describe_unread(result), found=False)
    return not_found(result) if is_not_found(answer) else result


def not_found(result: RunResult) -> RunResult:
    """Return the result with the statement that the documents hold no answer."""
    answer = NOT_IN_DOCUMENTS + describe_unread(result)
    return replace(result, answer=answer, citations=(), support=None, found=False)


def describe_unread(result: RunResult) -> str:
    """Return ` Not read: a.rtf, scan.pdf (in part).`, or "" if everything was read."""
    if not result.unread:
        return ""
    rest = len(result.unread) - _SHOWN
    return f" Not read: {', '.join(result.unread[:_SHOWN])}{f' and {rest:,} more' if rest > 0 else ''}."
