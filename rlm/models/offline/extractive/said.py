"""The texts of `extractive`: the first line of its answers, and its answers when it finds nothing."""

from __future__ import annotations

__all__ = ["EXTRACTS", "NOTHING", "NO_WORDS"]

EXTRACTS = "Extracts (no language model was asked):"
NO_WORDS = (
    "The question holds no word that could be looked for (no language model was asked: only its own words "
    "can be)."
)
NOTHING = (
    "No passage of the input holds the words of the question (no language model was asked: only its own "
    "words were looked for)."
)
