"""Writes a pattern that `re` has parsed in the syntax of RE2.

Where RE2 has no equal construct, the spelling matches more (it leaves out a look-around), never less.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .charset import ASCII_LIMIT, UNICODE_LIMIT, CharSet, category, complement, holds, spell, union

__all__ = ["UNBOUNDED", "CharNode", "Spelling"]

UNBOUNDED = 1 << 40
"""A width without limit."""
_MAX_REPEAT = 1000  # RE2's own limit
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTTED_I = union([(ord(c), ord(c)) for c in "iI\u0130\u0131"])


class CharNode(NamedTuple):
    """A part of a pattern that matches one character: one of `chars`, or any other if `negated`. Case is
    not applied."""

    chars: CharSet
    negated: bool


class Spelling:
    """Spells a parsed pattern for RE2.

    `exact` is False if the spelling matches more than the pattern. `crosses` is True if a match, or what an
    assertion looks at, may hold a line end. `behind` is how many characters look-behinds see. `nodes` are
    the parts that match one character.
    """

    def __init__(self, ascii_body: bool) -> None:
        self.exact = True
        self.crosses = False
        self.behind = 0
        self.nodes: list[CharNode] = []
        self._ascii_body = ascii_body
        self._groups: dict[int, int] = {}

    def sequence(self, tree: Any, flags: int) -> tuple[str, int]:
        """Return the spelling of a sequence, and how many characters it can span, assertions included."""
        sources = []
        width = 0
        for op, argument in tree:
            source, taken = self._node(str(op), argument, flags)
            sources.append(source)
            width += taken
        return "".join(sources), min(width, UNBOUNDED)

    def _node(self, op: str, argument: Any, flags: int) -> tuple[str, int]:
        match op:
            case "LITERAL":
                return self._chars(((argument, argument),), (), False, flags), 1
            case "NOT_LITERAL":
                return self._chars(((argument, argument),), (), True, flags), 1
            case "ANY":
                self.crosses |= bool(flags & re.DOTALL)
                self.nodes.append(CharNode((), True))
                return ("(?s:.)" if flags & re.DOTALL else "[^\\n]"), 1
            case "IN":
                return self._class(argument, flags), 1
            case "AT":
                return self._place(str(argument), flags)
            case "SUBPATTERN":
                return self._group(argument, flags)
            case "ATOMIC_GROUP":
                self.exact = False
                source, width = self.sequence(argument, flags)
                return f"(?:{source})", width
            case "BRANCH":
                return self._either(argument[1], flags)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(op, argument, flags)
            case "ASSERT" | "ASSERT_NOT":
                self.exact = False
                _, width = self.sequence(argument[1], flags)
                if argument[0] < 0:
                    self.behind += width
                return "", width
            case "GROUPREF":
                self.exact = False
                return "[^\\n]*", self._groups.get(argument, UNBOUNDED)
            case "GROUPREF_EXISTS":
                self.exact = False
                return self._either([branch for branch in argument[1:] if branch is not None] + [()], flags)
            case "FAILURE":
                return spell(()), 0
            case _:
                self.exact, self.crosses = False, True
                return "(?s:.*)", UNBOUNDED

    def _group(self, argument: Any, flags: int) -> tuple[str, int]:
        number, added, dropped, inner = argument
        if added & re.ASCII or added & re.UNICODE:
            flags &= ~(re.ASCII | re.UNICODE)
        source, width = self.sequence(inner, (flags | added) & ~dropped)
        if number is not None:
            self._groups[number] = width
        return f"(?:{source})", width

    def _either(self, branches: Any, flags: int) -> tuple[str, int]:
        spelled = [self.sequence(branch, flags) for branch in branches]
        return f"(?:{'|'.join(source for source, _ in spelled)})", max(width for _, width in spelled)

    def _repeat(self, op: str, argument: Any, flags: int) -> tuple[str, int]:
        least, most, inner = argument
        source, width = self.sequence(inner, flags)
        unlimited = str(most) == "MAXREPEAT"
        total = (UNBOUNDED if width else 0) if unlimited else min(UNBOUNDED, width * most)
        # The engines differ on a repeated piece that can be empty, and RE2 has no possessive repeat.
        self.exact &= op != "POSSESSIVE_REPEAT" and (most == 1 or inner.getwidth()[0] > 0)
        if least > _MAX_REPEAT or (not unlimited and most > _MAX_REPEAT):
            self.exact = False
            return f"(?:{source})*", total
        counts = f"{{{least},{'' if unlimited else most}}}"
        return f"(?:{source}){counts}{'?' if op == 'MIN_REPEAT' else ''}", total

    def _place(self, place: str, flags: int) -> tuple[str, int]:
        if place == "AT_BEGINNING_STRING" or (place == "AT_BEGINNING" and not flags & re.MULTILINE):
            return "\\A", 0
        if place == "AT_BEGINNING":
            return "(?m:^)", 0
        if place == "AT_END" and flags & re.MULTILINE:
            return "(?m:$)", 0
        if place == "AT_END_STRING":
            return "\\z", 0
        # RE2's word boundaries only know ASCII letters.
        if place in ("AT_BOUNDARY", "AT_NON_BOUNDARY") and self._ascii_body:
            return ("\\b" if place == "AT_BOUNDARY" else "\\B"), 0
        self.exact = False
        if place == "AT_END":
            # The end of the text, or before a line end there: RE2 has no such thing.
            self.crosses = True
            return "", 2
        return "", 0

    def _class(self, items: Any, flags: int) -> str:
        plain: list[tuple[int, int]] = []
        classes: list[tuple[int, int]] = []
        negated = False
        for op, argument in items:
            match str(op):
                case "NEGATE":
                    negated = True
                case "LITERAL":
                    plain.append((argument, argument))
                case "RANGE":
                    plain.append(argument)
                case "CATEGORY":
                    classes += self._category(str(argument), flags, whole=negated)
                case _:
                    self.exact, self.crosses = False, True
                    return "(?s:.)"
        return self._chars(union(plain), union(classes), negated, flags)

    def _category(self, name: str, flags: int, *, whole: bool) -> CharSet:
        kind = name.removeprefix("CATEGORY_").removeprefix("NOT_")
        # Under IGNORECASE a negated class is folded by RE2, so its parts must hold for all characters.
        folded = whole and flags & re.IGNORECASE
        limit = ASCII_LIMIT if self._ascii_body and not folded else UNICODE_LIMIT
        found = category({"DIGIT": "\\d", "SPACE": "\\s", "WORD": "\\w"}[kind], limit, flags & re.ASCII)
        return complement(found) if "_NOT_" in name else found

    def _chars(self, plain: CharSet, classes: CharSet, negated: bool, flags: int) -> str:
        """Return a class that matches `plain` (folded under IGNORECASE) or `classes` (not folded), or neither
        of them if `negated`."""
        self.nodes.append(CharNode(union(plain + classes), negated))
        if holds(union(plain + classes), ord("\n")) != negated:
            self.crosses = True
        if not flags & re.IGNORECASE:
            return spell(union(plain + classes), negated=negated)
        if flags & re.ASCII:
            # RE2 would fold s and k into the letters beyond ASCII that `re` then keeps apart.
            return spell(union(_both_cases(plain) + classes), negated=negated)
        if any(holds(plain, code) for low, high in _DOTTED_I for code in (low, high)):
            # The one family of letters that `re` folds and RE2 does not: i, I, dotted I, dotless i.
            plain = union(plain + _DOTTED_I)
        if negated:
            return f"(?i:{spell(union(plain + classes), negated=True)})"
        if not classes:
            return f"(?i:{spell(plain)})"
        return f"(?:(?i:{spell(plain)})|{spell(classes)})" if plain else spell(classes)


def _both_cases(chars: CharSet) -> CharSet:
    """Return `chars` with the other case of every ASCII letter."""
    other = [(ord(c.swapcase()),) * 2 for c in _LETTERS if holds(chars, ord(c))]
    return union((*chars, *other))
