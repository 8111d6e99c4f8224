"""Decides whether the documents hold no answer, for every way to ask."""

from __future__ import annotations

import re
from calendar import day_name, month_name
from contextlib import closing
from dataclasses import replace

from rlm.models.base import EXTRACTIVE
from rlm.prompts import is_not_found, states_absence
from rlm.results import RunResult

__all__ = ["NOT_IN_DOCUMENTS", "NO_WORDS", "judge_absence", "not_found"]

NOT_IN_DOCUMENTS = "Not in the documents: they do not contain the answer to this question."
NO_WORDS = "Not in the documents: no passage holds enough of this question's words."
"""What extracts say. Nobody has read for the meaning, so the documents may hold an answer in other words."""

_NEAREST = "The closest passages:"
_NAMES_PER_MISSING = 4
"""One in this number of a question's names may be missing from the extracts."""
_MAX_CAPITALS = 0.6
_CALENDAR = frozenset(name.casefold() for name in (*month_name[1:], *day_name))
_POSSESSIVE = re.compile(r"['’]s?$")
_NAME = re.compile(r"(?<=\s)[A-Z][\w’'-]+")
_SHOWN = 5


def judge_absence(question: str, result: RunResult) -> RunResult:
    """Return the result of a question, with `found` False if its answer says that the documents hold none.

    Extracts that do not mention the names in the question are not an answer. A statement that the documents
    hold none names the documents that were not read.
    """
    answer = result.answer
    if result.stop_reason == "not_found":
        return not_found(result)
    if not result.found or answer is None:
        return replace(result, found=False)
    if not isinstance(answer, str):
        return result
    if states_absence(answer):
        return replace(result, answer=answer + _describe_unread(result), found=False)
    if any(usage.model == EXTRACTIVE for usage in result.usage):
        # Only runs without a language model need this module.
        from rlm.models.offline.extractive.answer_texts import is_extracts

        if is_extracts(result):
            return _judge_extracts(question, result, answer)
    return not_found(result) if is_not_found(answer) else result


def _judge_extracts(question: str, result: RunResult, answer: str) -> RunResult:
    from rlm.models.offline.extractive.answer_texts import HINT
    from rlm.models.offline.extractive.words import is_overview, terms

    if not (terms(question) or is_overview(question)):
        return replace(result, found=False)  # nothing was searched, so nothing is denied
    if is_not_found(answer) or not result.citations:
        return _denied(result, f"{NO_WORDS}{_describe_unread(result)} {HINT}")
    if not _mentions_names(question, result):
        # The extracts may still be useful, and their citations are verified.
        closest = f"{NO_WORDS}{_describe_unread(result)} {_NEAREST}\n{answer}"
        return replace(result, answer=closest, confidence="low", found=False)
    return result


def not_found(result: RunResult) -> RunResult:
    """Return the result with the statement that the documents hold no answer."""
    return _denied(result, NOT_IN_DOCUMENTS + _describe_unread(result))


def _denied(result: RunResult, answer: str) -> RunResult:
    return replace(result, answer=answer, citations=(), support=None, found=False)


def _describe_unread(result: RunResult) -> str:
    """Return ` Not read: a.rtf, scan.pdf (in part).`, or "" if everything was read."""
    if not result.unread:
        return ""
    rest = len(result.unread) - _SHOWN
    return f" Not read: {', '.join(result.unread[:_SHOWN])}{f' and {rest:,} more' if rest > 0 else ''}."


def _mentions_names(question: str, result: RunResult) -> bool:
    """Return whether the extracts contain the names in the question and half of its other subject words.
    Without a name they must contain more than half, or one of two."""
    from rlm.models.offline.extractive.words import subject_words
    from rlm.retrieval.words import Tokens

    quotes = [text for citation in result.citations for text in (citation.quote, citation.document or "")]
    about = subject_words(question)
    with closing(Tokens()) as tokens:
        quoted = set().union(*tokens.stems(quotes)) if quotes else set()
        names = [set(stems) for stems in tokens.stems(_names(question)) if stems]
        named = set().union(*names)
        words = {stem for stem in tokens.query(about).stems if len(stem) > 1} - named if about else set()
    if sum(not stems & quoted for stems in names) > len(names) // _NAMES_PER_MISSING:
        return False
    half = len(words) // 2
    return len(words & quoted) >= (half if names or len(words) in (0, 2) else half + 1)


def _names(question: str) -> list[str]:
    """Return the names in the question: capitalized words within a sentence, identifiers, numbers, quoted
    phrases. Days and months are not names. If nearly every word is capitalized, capitals do not count."""
    from rlm.models.offline.extractive.words import distinctive_terms

    capitals = _NAME.findall(question)
    if len(capitals) > _MAX_CAPITALS * len(question.split()):
        capitals = []
    named = [_POSSESSIVE.sub("", name) for name in (*distinctive_terms(question), *capitals)]
    return sorted({name for name in named if name.casefold() not in _CALENDAR})
