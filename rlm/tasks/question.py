"""Answer a question with citations, a choice, a typed value, or "not in the documents"."""

from __future__ import annotations

import re
import string
from calendar import day_name, month_name
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from rlm.documents import Context
from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.models.offline.extractive.answer_texts import is_extracts
from rlm.models.offline.extractive.words import distinctive_terms, subject_words
from rlm.prompts import NOT_FOUND, is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.retrieval.words import Tokens
from rlm.runs.setup import check_question
from rlm.runtime import RLM

__all__ = ["NOT_IN_DOCUMENTS", "Answered", "ask", "read_answer"]

NOT_IN_DOCUMENTS = "Not in the documents: they do not contain the answer to this question."

_NEAREST = "The closest passages:"
_NOT_FOUND_START = "not in the documents"
"""The start of a root's answer when it found none, as its prompt asks."""
_MAX_CHOICES = len(string.ascii_uppercase)
_NAMES_PER_MISSING = 4
"""One in this number of a question's names may be missing from the extracts."""
_MAX_CAPITALS = 0.6
_CALENDAR = frozenset(name.casefold() for name in (*month_name[1:], *day_name))
_POSSESSIVE = re.compile(r"['’]s?$")
_NAME = re.compile(r"(?<=\s)[A-Z][\w’'-]+")
_LETTER = re.compile(r"^\W*([A-Z])(?:\W|$)")


@dataclass(frozen=True, slots=True)
class Answered:
    """A result as an answer. `found` is False if the documents do not contain the answer; then the answer
    says so. `choice` is the letter of the choice, or None."""

    result: RunResult
    found: bool = True
    choice: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result's JSON with found, choice and text. `answer` is as finalized; in `text` its
        marks are written like those of the citations."""
        return {
            **self.result.to_json(),
            "found": self.found,
            "choice": self.choice,
            "text": self.result.text,
        }


async def ask(
    rlm: RLM,
    question: str,
    context: Context,
    *,
    choices: Sequence[str] = (),
    schema: Any = None,
) -> Answered:
    """Answer `question` over `context`, with citations.

    With `choices` (2 to 26 texts), the answer has the form `B: the text of the choice`. `schema` is that of
    `RLM.run`. Raises UsageError, and the errors of `RLM.run`.
    """
    if choices and schema is not None:
        raise UsageError("choices cannot be combined with a schema: give only one of them")
    if choices and not 2 <= len(choices) <= _MAX_CHOICES:
        raise UsageError(f"{len(choices)} choices: give 2 to {_MAX_CHOICES}")
    check_question(question)
    if is_extractive(rlm.model):
        result = await rlm.run(question, context, schema=schema)
        return read_answer(question, result) if not choices else _choose_by_words(question, choices, result)
    words = table("tasks.toml")
    if not choices:
        if schema is not None:
            return Answered(await rlm.run(question, context, schema=schema))
        # The root's own prompt says what to finalize if there is no answer.
        return read_answer(question, await rlm.run(question, context))
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in _add_letters(choices))
    task = words["choices"].strip().format(question=question, choices=listed, not_found=NOT_FOUND)
    letters = [letter for letter, _ in _add_letters(choices)]
    result = await rlm.run(task, context, schema={"enum": [*letters, NOT_FOUND]})
    return _read_choice(choices, result)


def read_answer(question: str, result: RunResult) -> Answered:
    """Return a result as an answer, or as the statement that the documents do not contain one. Extracts that
    do not mention the names in the question are not an answer."""
    answer = result.answer
    if not isinstance(answer, str):
        return Answered(result, found=answer is not None)
    if answer.casefold().startswith(_NOT_FOUND_START):
        return Answered(result, found=False)
    extracts = is_extracts(question, result)
    if is_not_found(answer) or (extracts and not result.citations):
        return _make_not_found(result)
    if extracts and not _mentions_names(question, result):
        # The extracts may still be useful, and their citations are verified.
        return Answered(replace(result, answer=f"{NOT_IN_DOCUMENTS} {_NEAREST}\n{answer}"), found=False)
    return Answered(result)


def _make_not_found(result: RunResult) -> Answered:
    return Answered(replace(result, answer=NOT_IN_DOCUMENTS, citations=()), found=False)


def _mentions_names(question: str, result: RunResult) -> bool:
    """Return whether the extracts contain the names in the question and half of its other subject words.
    Without a name they must contain more than half, or one of two."""
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
    capitals = _NAME.findall(question)
    if len(capitals) > _MAX_CAPITALS * len(question.split()):
        capitals = []
    named = [_POSSESSIVE.sub("", name) for name in (*distinctive_terms(question), *capitals)]
    return sorted({name for name in named if name.casefold() not in _CALENDAR})


def _add_letters(choices: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(string.ascii_uppercase, choices, strict=False))


def _choose_by_words(question: str, choices: Sequence[str], result: RunResult) -> Answered:
    """Return the choice with the highest share of its words in the extracts, if there is any such word."""
    if result.answer is None:
        return Answered(result, found=False)
    with closing(Tokens()) as tokens:
        # Whole words, because stems of short words (one, on) are often equal.
        (question_words,) = tokens.words([question])
        own = [set(words) - set(question_words) for words in tokens.words(choices)]
        quoted = set().union(*tokens.words([citation.quote for citation in result.citations] or [""]))
    shared = set.intersection(*own)
    scores = [
        (len((words - shared) & quoted) / max(1, len(words - shared)), len((words - shared) & quoted))
        for words in own
    ]
    best = max(range(len(choices)), key=lambda place: (scores[place], -place))
    if scores[best][1] == 0:
        return _make_not_found(result)
    return _with_choice(choices, best, replace(result, confidence="low"))


def _read_choice(choices: Sequence[str], result: RunResult) -> Answered:
    if not isinstance(result.answer, str):
        return Answered(result, found=False)
    if is_not_found(result.answer):
        return _make_not_found(result)
    letter = _LETTER.match(result.answer)
    place = string.ascii_uppercase.index(letter[1]) if letter else len(choices)
    if place >= len(choices):
        return Answered(result, found=False)
    return _with_choice(choices, place, result)


def _with_choice(choices: Sequence[str], place: int, result: RunResult) -> Answered:
    letter, choice = _add_letters(choices)[place]
    return Answered(replace(result, answer=f"{letter}: {choice}"), choice=letter)
