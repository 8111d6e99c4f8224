"""The fixed texts of an `extractive` answer. Results are told apart by data, never by these texts."""

from __future__ import annotations

from rlm.models.base import EXTRACTIVE
from rlm.models.offline.extractive.computing import computing_block
from rlm.results import RunResult

__all__ = ["HEADING", "NOTHING", "NO_WORDS", "is_extracts"]

HEADING = "Extracts (no language model was asked):"
NO_WORDS = (
    "The question holds no word that could be looked for (no language model was asked: only its own words "
    "can be)."
)
NOTHING = (
    "No passage of the input holds the words of the question (no language model was asked: only its own "
    "words were looked for)."
)


def is_extracts(question: str, result: RunResult) -> bool:
    """Return whether the answer to `question` consists of extracts that no language model chose.

    Every call of the run was `extractive`'s, and the question is not one that `extractive` computes. Without
    citations nothing was found.
    """
    models = {usage.model for usage in result.usage}
    computed = result.strategy == "rlm" and computing_block(question, 1) is not None
    return result.answer is not None and models == {EXTRACTIVE} and not computed
