"""Answer a question with citations, a choice, a typed value, or "not in the documents"."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm.answers.absence import not_found
from rlm.documents import Context
from rlm.errors import UsageError
from rlm.prompts import NOT_FOUND, is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.runs.opening import check_question, require_model
from rlm.runtime import RLM
from rlm.tasks.attempts import answer_in_attempts

__all__ = ["Answered", "ask"]

_MAX_CHOICES = len(string.ascii_uppercase)
_LETTER = re.compile(r"^\W*([A-Z])(?:\W|$)")


@dataclass(frozen=True, slots=True)
class Answered:
    """A result as an answer. `choice` is the letter of the choice, or None."""

    result: RunResult
    choice: str | None = None

    @property
    def found(self) -> bool:
        """Return whether the documents contain the answer. If not, the answer says so."""
        return self.result.found

    def to_json(self) -> dict[str, Any]:
        """Return the result's JSON with choice and text. `answer` is as finalized; in `text` its marks are
        written like those of the citations."""
        return {
            **self.result.to_json(),
            "choice": self.choice,
            "text": self.result.text,
        }


async def ask(
    rlm: RLM,
    question: str,
    context: Context | None,
    *,
    choices: Sequence[str] = (),
    schema: Any = None,
    attempts: int = 1,
) -> Answered:
    """Answer `question` over `context`, with citations.

    With `choices` (2 to 26 texts), the answer has the form `B: the text of the choice`. `schema` is that of
    `RLM.run`. With `attempts` above 1, the answer is the one that most of so many independent runs give. A
    `context` of None asks without a text. Raises UsageError, and the errors of `RLM.run`.
    """
    if choices and schema is not None:
        raise UsageError("choices cannot be combined with a schema: give only one of them")
    if choices and not 2 <= len(choices) <= _MAX_CHOICES:
        raise UsageError(f"{len(choices)} choices: give 2 to {_MAX_CHOICES}")
    check_question(question)
    if choices:
        require_model(rlm.model, "a choice")

    async def answer(task: str, schema: Any) -> RunResult:
        if attempts == 1:
            return await rlm.run(task, context, schema=schema)
        return await answer_in_attempts(rlm, task, context, attempts=attempts, schema=schema)

    words = table("tasks.toml")
    if not choices:
        # The root's own prompt says what to finalize if there is no answer.
        return Answered(await answer(question, schema))
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in _add_letters(choices))
    task = words["choices"].strip().format(question=question, choices=listed, not_found=NOT_FOUND)
    letters = [letter for letter, _ in _add_letters(choices)]
    result = await answer(task, {"enum": [*letters, NOT_FOUND]})
    return _read_choice(choices, result)


def _add_letters(choices: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(string.ascii_uppercase, choices, strict=False))


def _read_choice(choices: Sequence[str], result: RunResult) -> Answered:
    if not isinstance(result.answer, str):
        return Answered(replace(result, found=False))
    if is_not_found(result.answer):
        return Answered(not_found(result))
    letter = _LETTER.match(result.answer)
    place = string.ascii_uppercase.index(letter[1]) if letter else len(choices)
    if place >= len(choices):
        return Answered(replace(result, found=False))
    return _with_choice(choices, place, result)


def _with_choice(choices: Sequence[str], place: int, result: RunResult) -> Answered:
    letter, choice = _add_letters(choices)[place]
    return Answered(replace(result, answer=f"{letter}: {choice}", found=True), choice=letter)
