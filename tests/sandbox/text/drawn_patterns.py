"""Draws regular expressions for the tests of search and counting."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["patterns"]

ATOMS = [
    "a",
    "b",
    "c",
    "é",
    "世",
    "\\n",
    ".",
    "\\w",
    "\\d",
    "\\s",
    "\\b",
    "[ab]",
    "[^a]",
    "[^é\\s]",
    "^",
    "$",
    "(?i:É)",
]
"""What patterns are drawn from."""


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Draw a regular expression that RE2 or re takes."""
    parts = []
    for atom in draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4)):
        repeat = draw(st.sampled_from(["", "", "", "+", "*", "?", "{2}", "+?", "*?"]))
        parts.append(atom if atom in ("^", "$", "\\b") else atom + repeat)
    cut = draw(st.integers(0, len(parts)))
    source = "".join(parts)
    shape = draw(st.sampled_from(["plain", "group", "either", "last", "ahead", "behind"]))
    match shape:
        case "group":
            return f"(?:{source})+"
        case "either":
            return f"(?:{''.join(parts[:cut])}|{''.join(parts[cut:])})"
        case "last":
            return f"({''.join(parts[:cut])})|{''.join(parts[cut:])}$"
        case "ahead":
            return f"{''.join(parts[:cut])}(?={''.join(parts[cut:])})"
        case "behind":
            return f"(?<!a){source}"
    return source
