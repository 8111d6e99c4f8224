"""The fixed texts of an `extractive` answer. Code identifies results by their data, never by these texts."""

from __future__ import annotations

from rlm.models.base import EXTRACTIVE
from rlm.results import RunResult

__all__ = ["HEADING", "HINT", "NOTHING", "NO_WORDS", "UNQUOTED", "is_extracts"]

HEADING = "Extracts (no language model was asked; --model NAME asks one):"
UNQUOTED = "Extracts (the child's reply has nothing of the input, so the lines with the question's words):"
HINT = (
    "Only the question's own words were searched. A language model reads for the meaning: --model "
    "anthropic:NAME or openai:NAME, with its key."
)
NO_WORDS = (
    "The question has no words to search for. No language model was asked, so only the question's own words "
    "can be searched."
)
NOTHING = (
    "No passage of the input contains the words of the question. No language model was asked, so only these "
    "words were searched."
)


def is_extracts(result: RunResult) -> bool:
    """Return whether the answer consists of extracts that no language model chose.

    This holds if `extractive` answered every call of the run, and did not compute the answer. An answer
    without citations means that nothing was found.
    """
    models = {usage.model for usage in result.usage}
    # Extracts always have the confidence "low".
    computed = result.strategy == "rlm" and result.confidence in ("medium", "high")
    return result.answer is not None and models == {EXTRACTIVE} and not computed
