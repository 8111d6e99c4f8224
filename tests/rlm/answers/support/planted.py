"""Find the claim that a check plants: another claim with a wrong number, or a sentence of its own."""

from __future__ import annotations

import re

from rlm.prompts.recipes.support import planted_claim

__all__ = ["claims_in", "is_planted"]

_DIGITS = re.compile(r"\b[1-9][0-9]{0,8}\b")


def claims_in(prompt: str) -> list[tuple[int, str]]:
    """Return the numbers and texts of the claims of a check."""
    return [(int(n), text) for n, text in re.findall(r"^claim (\d+) \([^)]*\): (.*)$", prompt, re.MULTILINE)]


def is_planted(text: str, prompt: str) -> bool:
    """Return whether a claim is like another one but for a number that stands nowhere else in the prompt."""
    forms = [_DIGITS.sub("#", other) for _, other in claims_in(prompt)]
    is_alike = forms.count(_DIGITS.sub("#", text)) > 1 or _DIGITS.sub("#", planted_claim(1)) == _DIGITS.sub(
        "#", text
    )
    every = _DIGITS.findall(prompt)
    return is_alike and any(every.count(number) == 1 for number in _DIGITS.findall(text))
