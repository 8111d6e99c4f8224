r"""Finds RE2 patterns whose numbers of matches add up to that of a pattern with assertions at its ends.

RE2 has no look-around, and its `\b` only knows ASCII. For counting, a pattern may consume what an assertion
looks at, if that text cannot be part of another match:

- `(?<=B)P(?=A)` with texts A and B: `BPA`, if no character of A or B occurs in the other or in P. So a match
  ends before the next B begins, and no match begins in an A.
- `\bP\b` with a text P of word characters: one match for each word that is P. These are the words that
  begin with P (`(?:\A|\W)P`), minus the longer ones (`(?:\A|\W)P\w`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .charset import UNICODE_LIMIT, category, holds, spell
from .linear import compile_linear
from .literal import literal_of
from .pattern import SearchPattern, parse
from .spelling import CharNode, Spelling

__all__ = ["Term", "terms_of"]

_Node = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Term:
    """An RE2 object whose matches are added (`sign` 1) or subtracted (-1). `reach` and `crosses` are those of
    a SearchPattern."""

    linear: Any
    reach: int
    crosses: bool
    sign: int = 1


def terms_of(query: SearchPattern, *, ascii_body: bool, engine: ModuleType | None) -> tuple[Term, ...]:
    """Return the terms of a pattern that is not exact. Returns none if it has another form."""
    if engine is None or query.nullable:
        return ()
    tree = parse(query)
    nodes, flags = list(tree), tree.state.flags
    if _is_boundary(nodes[0]) or _is_boundary(nodes[-1]):
        spelled = _spell_word(nodes, flags, ascii_body)
    else:
        spelled = _spell_looks(nodes, flags, ascii_body)
    terms = [
        Term(compile_linear(engine, source), reach, crosses, sign) for source, reach, crosses, sign in spelled
    ]
    return tuple(terms) if all(term.linear is not None for term in terms) else ()


_Spelled = list[tuple[str, int, bool, int]]
"""Source, reach, crosses and sign of each term."""


def _spell_word(nodes: list[_Node], flags: int, ascii_body: bool) -> _Spelled:
    opens, closes = _is_boundary(nodes[0]), _is_boundary(nodes[-1])
    text = nodes[opens : len(nodes) - closes]
    ways = _ways(text, flags)
    if not ways or not all(re.fullmatch(r"\w", way, flags & re.ASCII) for way in ways):
        return []
    source, width = Spelling(ascii_body).sequence(text, flags)
    word_chars = category(r"\w", UNICODE_LIMIT, flags & re.ASCII)
    word, other = spell(word_chars), spell(word_chars, negated=True)
    before = f"(?:\\A|{other})"
    if not opens:
        return [(f"{source}(?:{other}|\\z)", width + 1, True, 1)]
    begins = (f"{before}{source}", width + 1, True, 1)
    return [begins, (f"{before}{source}{word}", width + 2, True, -1)] if closes else [begins]


def _spell_looks(nodes: list[_Node], flags: int, ascii_body: bool) -> _Spelled:
    behind = _looked_at(nodes[0], -1)
    ahead = _looked_at(nodes[-1], 1)
    if not behind and not ahead:
        return []
    # In any case, because a group of P may ignore case on its own.
    before, after = _ways(behind, re.IGNORECASE), _ways(ahead, re.IGNORECASE)
    if bool(behind) != bool(before) or bool(ahead) != bool(after) or before & after:
        return []
    spelling = Spelling(ascii_body)
    middle, width = spelling.sequence(nodes[bool(behind) : len(nodes) - bool(ahead)], flags)
    if not spelling.exact or any(_may_match(node, way) for node in spelling.nodes for way in before | after):
        return []
    head, head_width = spelling.sequence(behind, flags)
    tail, tail_width = spelling.sequence(ahead, flags)
    return [(f"{head}(?:{middle}){tail}", head_width + width + tail_width, spelling.crosses, 1)]


def _looked_at(node: _Node, direction: int) -> Sequence[_Node]:
    """Return what a positive look-around in this direction holds; nothing for any other node."""
    op, argument = node
    return list(argument[1]) if str(op) == "ASSERT" and argument[0] == direction else ()


def _ways(nodes: Sequence[_Node], flags: int) -> set[str]:
    """Return every character that a plain text may hold, in any case if case is ignored; nothing if the
    nodes are no plain text."""
    if any(str(op) != "LITERAL" for op, _ in nodes):
        return set()
    literal = literal_of([code for _, code in nodes], flags, ascii_body=False)
    return {way.decode() for ways in literal.spellings for way in ways} if literal else set()


def _may_match(node: CharNode, char: str) -> bool:
    return holds(node.chars, ord(char)) != node.negated


def _is_boundary(node: _Node) -> bool:
    op, argument = node
    return str(op) == "AT" and str(argument) == "AT_BOUNDARY"
