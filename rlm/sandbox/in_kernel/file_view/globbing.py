"""Matches the names of documents with patterns, as `pathlib.Path.glob` does with files."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["matches"]


def matches(pattern: str, name: str) -> bool:
    """Return whether `name` fits `pattern`, in which `**` stands for any folders, `*` and `?` for characters
    within a name, and `[abc]` for one of these. Case matters."""
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ValueError(f"{pattern[:80]!r} is no pattern of names: give for example '**/*.py'")
    regex = "/?" if pattern.startswith("/") else ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            regex += ".*" if is_last else "(?:[^/]+/)*"
        else:
            regex += _part(part) + ("" if is_last else "/")
    return re.compile(regex, re.DOTALL)


def _part(part: str) -> str:
    regex = ""
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        end = part.find("]", at + (part[at : at + 1] == "!") + 1) if char == "[" else -1
        if char == "*":
            regex += "[^/]*"
        elif char == "?":
            regex += "[^/]"
        elif end > 0:
            inside, at = part[at:end], end + 1
            negated = inside.startswith("!")
            listed = inside[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            regex += f"[{'^/' if negated else ''}{listed}]"
        else:
            regex += re.escape(char)
    return regex
