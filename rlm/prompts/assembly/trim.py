"""Cut a text to a number of tokens, and mark the cut in the text."""

from __future__ import annotations

import re
from collections.abc import Callable

from rlm.prompts.assembly.policy import Keep

__all__ = ["trim_text"]

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]?(?=\s)|[。！？]|\n")
_SENTENCE_SHARE = 0.7
_EXACT_BELOW = 4096  # characters: above this, the search stops within 1.6 % of the best cut


def trim_text(text: str, allowance: int, keep: Keep, count: Callable[[str], int]) -> str | None:
    """Return as much of `text` as fits `allowance` tokens, with a mark at the cut. None if nothing fits.

    A text that fits is returned unchanged. The search starts from a guess and doubles it, so it measures
    little more than twice what fits, however long the text is.
    """
    if len(text) <= _EXACT_BELOW and count(text) <= allowance:
        return text
    fits, guess = 0, max(1, allowance * 2)
    while guess < len(text) and count(_cut(text, guess, keep)) <= allowance:
        fits, guess = guess, guess * 2
    if guess >= len(text) and count(text) <= allowance:
        return text
    too_many = min(guess, len(text))
    while too_many - fits > max(1, (fits - _EXACT_BELOW) // 64):
        middle = (fits + too_many) // 2
        if count(_cut(text, middle, keep)) <= allowance:
            fits = middle
        else:
            too_many = middle
    return _cut(text, fits, keep) if fits else None


def _cut(text: str, kept: int, keep: Keep) -> str:
    """Return `kept` characters of a longer text, with the mark."""
    if keep == "sentence":
        ends = [match.end() for match in _SENTENCE_END.finditer(text, int(kept * _SENTENCE_SHARE), kept)]
        if ends:
            kept = ends[-1]
    mark = f"[… {len(text) - kept:,} characters cut …]"
    if keep == "tail":
        return f"{mark}\n{text[len(text) - kept :]}"
    if keep == "middle":
        head = (kept + 1) // 2
        return f"{text[:head]}\n{mark}\n{text[len(text) - (kept - head) :]}"
    return f"{text[:kept]}\n{mark}"
