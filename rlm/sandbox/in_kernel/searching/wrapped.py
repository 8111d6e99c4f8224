"""Patterns for texts whose lines are wrapped: where a pattern has a blank, the text may have a line end."""

from __future__ import annotations

import re

__all__ = ["across_lines"]

# What keeps its blanks: an escaped character, a set, and a blank that is repeated.
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]| +[*+?{]|(?P<blanks> +)", re.DOTALL)


def across_lines(pattern: str | re.Pattern[str]) -> str | re.Pattern[str] | None:
    r"""The same pattern with `\s+` for its blanks; None where it has none, or means none (re.VERBOSE).

    Raises re.error for what is no pattern.
    """
    source = pattern if isinstance(pattern, str) else pattern.pattern
    flags = re.compile(pattern).flags
    if flags & re.VERBOSE:
        return None
    wide = _PARTS.sub(lambda part: r"\s+" if part["blanks"] else part[0], source)
    if wide == source:
        return None
    return wide if isinstance(pattern, str) else re.compile(wide, flags)
