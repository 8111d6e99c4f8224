"""Rewrites patterns for wrapped text, where a blank of the pattern may be a line end."""

from __future__ import annotations

import re

__all__ = ["across_lines"]

# Blanks stay in an escaped character, in a set, and if they are repeated.
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]| +[*+?{]|(?P<blanks> +)", re.DOTALL)


def across_lines(pattern: str | re.Pattern[str]) -> str | re.Pattern[str] | None:
    r"""Return the pattern with `\s+` for its blanks, or None if it has none or ignores them (re.VERBOSE).

    Raises re.error for an invalid pattern.
    """
    source = pattern if isinstance(pattern, str) else pattern.pattern
    flags = re.compile(pattern).flags
    if flags & re.VERBOSE:
        return None
    wide = _PARTS.sub(lambda part: r"\s+" if part["blanks"] else part[0], source)
    if wide == source:
        return None
    return wide if isinstance(pattern, str) else re.compile(wide, flags)
