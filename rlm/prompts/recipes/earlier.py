"""Show previous questions and their answers in a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.escaping import json_text
from rlm.lazy_dataclass import dataclass
from rlm.prompts.templates import table

__all__ = ["EarlierQuestion", "earlier_lines", "earlier_words"]

MAX_QUESTIONS = 20
_MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class EarlierQuestion:
    """A previous question about the same text, and its answer as text."""

    question: str
    answer: str


def earlier_lines(earlier: Sequence[EarlierQuestion]) -> list[tuple[int, str]]:
    """Return the number and the text of each of the last 20 questions, in order."""
    words = table("root.toml")["earlier"]
    left_out = max(0, len(earlier) - MAX_QUESTIONS)
    return [
        (
            number,
            words["one"].format(number=number, question=_short(one.question), answer=_short(one.answer)),
        )
        for number, one in enumerate(earlier[left_out:], left_out + 1)
    ]


def earlier_words(earlier: Sequence[EarlierQuestion]) -> str:
    """Return the questions as one text to put before a new question, or ""."""
    if not earlier:
        return ""
    lines = [table("root.toml")["earlier"]["direct"], *(line for _, line in earlier_lines(earlier))]
    return "\n".join(lines) + "\n\n"


def _short(text: str) -> str:
    return json_text(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")
