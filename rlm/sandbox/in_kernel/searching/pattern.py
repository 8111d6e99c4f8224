"""A search pattern understood: what it means to `re`, and the same in the terms of a linear-time engine.

A pattern is parsed by `re` itself, and its tree is spelled out again for RE2. Where RE2 has no equal
construct, the spelling matches more (a look-around is left out), never less: then RE2 only finds the lines
worth handing to `re`.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .charset import ASCII_LIMIT, UNICODE_LIMIT, CharSet, category, complement, holds, spell, union
from .linear import compile_linear
from .literal import Literal, literal_of

__all__ = ["UNBOUNDED", "SearchPattern", "understand"]

UNBOUNDED = 1 << 40
"""A width that stands for any."""
_MAX_REPEAT = 1000  # RE2's own limit
_KEPT_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE | re.ASCII | re.MULTILINE
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTTED_I = union([(ord(c), ord(c)) for c in "iI\u0130\u0131"])
_MAX_LITERAL = 2_000

# `re` keeps its parser private and has kept it stable; a construct not known here goes to `re` itself.
_parser: Any = importlib.import_module("re._parser")


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern ready to run. Widths are in characters.

    `linear` is an RE2 object, or None; `exact` says that it finds what `compiled` finds, else it finds at
    least that. `crosses` says whether a match, or what its assertions look at, may hold a line end.
    """

    source: str
    compiled: re.Pattern[str]
    linear: Any
    exact: bool
    crosses: bool
    reach: int
    behind: int
    nullable: bool
    literal: Literal | None


def understand(
    pattern: str | re.Pattern[str], *, ascii_body: bool, engine: ModuleType | None
) -> SearchPattern:
    """The query for `pattern` (MULTILINE always on). `engine` is the re2 module, None where it is absent.

    Raises ValueError saying where the pattern is wrong, TypeError for what is no pattern.
    """
    flags = re.MULTILINE
    if isinstance(pattern, re.Pattern):
        flags |= re.RegexFlag(pattern.flags) & _KEPT_FLAGS
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern is a str or a compiled re.Pattern of str, not {type(pattern).__name__}")
    try:
        compiled = re.compile(pattern, flags)
        tree = _parser.parse(pattern, flags)
    except re.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise ValueError(
            f"{_shown(pattern)} is not a regular expression: {error.msg}{where}; "
            "use re.escape(text) to look for a text as it stands"
        ) from None
    except (RecursionError, OverflowError) as error:
        raise ValueError(f"{_shown(pattern)} is too deeply nested or repeats too often") from error
    spelling = _Spelling(ascii_body)
    source, reach = spelling.sequence(tree, tree.state.flags)
    narrowest, widest = tree.getwidth()
    # After an empty match `re` looks for a longer one at the same place, which RE2 can't be asked for.
    exact = spelling.exact and (narrowest > 0 or widest == 0)
    return SearchPattern(
        source=pattern,
        compiled=compiled,
        linear=None if engine is None or not (exact or narrowest) else compile_linear(engine, source),
        exact=exact,
        crosses=spelling.crosses,
        reach=reach,
        behind=spelling.behind,
        nullable=narrowest == 0,
        literal=_literal(tree, compiled.flags, ascii_body),
    )


def _literal(tree: Any, flags: int, ascii_body: bool) -> Literal | None:
    """The plain text that is all the pattern matches, if it is one."""
    if any(str(op) != "LITERAL" for op, _ in tree) or len(tree) > _MAX_LITERAL:
        return None
    return literal_of([code for _, code in tree], flags, ascii_body=ascii_body)


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:80] + "…")


class _Spelling:
    """Writes a parsed pattern for RE2, noting on the way what the spelling could not say."""

    def __init__(self, ascii_body: bool) -> None:
        self.exact = True
        self.crosses = False
        self.behind = 0
        self._ascii_body = ascii_body
        self._groups: dict[int, int] = {}

    def sequence(self, tree: Any, flags: int) -> tuple[str, int]:
        """The spelling of a sequence, and how many characters it can take in, assertions included."""
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
        # RE2's word boundaries know ASCII letters only.
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
        # Under IGNORECASE a negated class is folded by RE2, so its parts have to be true of all characters.
        folded = whole and flags & re.IGNORECASE
        limit = ASCII_LIMIT if self._ascii_body and not folded else UNICODE_LIMIT
        found = category({"DIGIT": "\\d", "SPACE": "\\s", "WORD": "\\w"}[kind], limit, flags & re.ASCII)
        return complement(found) if "_NOT_" in name else found

    def _chars(self, plain: CharSet, classes: CharSet, negated: bool, flags: int) -> str:
        """One character of `plain` (folded under IGNORECASE) or `classes` (not folded), or of neither."""
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
    """`chars` with the other case of every ASCII letter."""
    other = [(ord(c.swapcase()),) * 2 for c in _LETTERS if holds(chars, ord(c))]
    return union((*chars, *other))
