"""Compiles a search pattern for RE2 and for `re`.

`re` itself parses a pattern, and its tree is spelled again for RE2. Where RE2 has no equal construct, the
spelling matches more (it leaves out a look-around), never less: then RE2 only finds the places that `re`
looks at again.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

__all__ = [
    "BATCH",
    "SearchPattern",
    "across_lines",
    "compile_batch",
    "compile_pattern",
    "compile_probe",
    "compile_words",
    "spellings",
]

_UNBOUNDED = 1 << 40
"""A width without limit."""
_MAX_REPEAT = 1000  # RE2's own limit
_MEMORY = 64 << 20
_KEPT_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE | re.ASCII | re.MULTILINE
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# The parser of `re` is private, but has been stable. A construct that is not known here goes to `re` itself.
_parser: Any = importlib.import_module("re._parser")

_BACKTRACKS = re.compile(r"[*+?{].*[*+?{]|[(|]|\\[1-9]", re.DOTALL)
"""Where `re` may backtrack much at one place: two repeats, a group, alternatives, a back-reference."""


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern that is ready to run. Widths are in characters.

    `linear` is an RE2 object or None. If `exact`, it finds what `compiled` finds, otherwise at least that.
    If `crosses`, a match, or what its assertions look at, may hold a line end. `plain` is the text of each
    match if there is one only, which does not overlap itself. `letters` stand in each match in any case.
    `word` is the part between two `\\b` that RE2 finds, if it begins and ends in a letter or digit.
    """

    source: str
    compiled: re.Pattern[str]
    linear: Any
    exact: bool
    crosses: bool
    reach: int
    behind: int
    nullable: bool
    plain: bytes = b""
    letters: str = ""
    word: str = ""

    @property
    def backtracks(self) -> bool:
        """Whether `re` may take long at one place."""
        return _BACKTRACKS.search(self.source) is not None


def compile_pattern(pattern: str | re.Pattern[str], *, ascii_body: bool) -> SearchPattern:
    """Return the compiled `pattern`, always with MULTILINE.

    Raises ValueError with the place of a mistake in the pattern, and TypeError for any other type.
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
            "use re.escape(text) to search for a plain text"
        ) from None
    except (RecursionError, OverflowError) as error:
        raise ValueError(
            f"{_shown(pattern)} is too deeply nested or repeats too often: use a simpler pattern"
        ) from error
    spelling = _Spelling(ascii_body)
    source, reach = spelling.sequence(tree, tree.state.flags)
    narrowest, widest = tree.getwidth()
    # After an empty match `re` looks for a longer one at the same place. RE2 cannot do that.
    exact = spelling.exact and (narrowest > 0 or widest == 0)
    return SearchPattern(
        source=pattern,
        compiled=compiled,
        linear=_linear(source) if exact or narrowest else None,
        exact=exact,
        crosses=spelling.crosses,
        reach=reach,
        behind=spelling.behind,
        nullable=narrowest == 0,
        plain=_plain(tree),
        letters=_letters(tree),
        word="" if exact else _word(tree),
    )


def _linear(source: str | bytes) -> Any:
    """Return the RE2 object for a pattern, or None if it is too large or holds a lone surrogate. In a pattern
    of bytes, each byte is a character."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    if isinstance(source, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(source, options)
    except (re2.error, UnicodeEncodeError):
        return None


BATCH = 8
"""Matches in one batch. With 16, RE2 has so many states for `\\w+` that a batch is slower."""


@lru_cache(maxsize=16)
def compile_batch(query: SearchPattern) -> Any:
    """Return the RE2 object that matches the next eight matches of an exact pattern at once, or None.

    Each part prefers the shortest gap before a match, then what the pattern itself prefers. Without a match
    it takes the rest of the text, so that it never fails, and RE2 never gives up an earlier choice for a
    later one.
    """
    # After an empty match the search continues after the next character.
    more = "(?s:.)" if query.nullable else ""
    return _linear(f"(?:\\C*?(?:{query.linear.pattern}){more}|\\C*\\z)" * BATCH)


def _word(tree: Any) -> str:
    """Return the spelling of what stands between two `\b`, if it begins and ends in a letter or digit."""
    flags, (first, *middle, last) = tree.state.flags, [*tree] if len(tree) > 2 else [(None, None)] * 2
    if any(str(place) != "AT_BOUNDARY" for _, place in (first, last)) or flags & re.ASCII:
        return ""
    spelling = _Spelling(False)
    source, _ = spelling.sequence(middle, flags)
    is_whole = _is_word(middle, 1) and _is_word(middle, -1)
    return source if is_whole and spelling.exact and not spelling.crosses else ""


def _is_word(items: Sequence[Any], step: int) -> bool:
    """Return whether a sequence surely begins in a letter or digit, or ends in one if `step` is -1."""
    for op, argument in items[::step]:
        match str(op):
            case "LITERAL":
                return _is_letter(argument)
            case "IN":
                return all(map(_is_word_set, argument))
            case "SUBPATTERN":
                return _is_word(argument[3], step)
            case "BRANCH":
                return all(_is_word(branch, step) for branch in argument[1])
            case "MAX_REPEAT" | "MIN_REPEAT":
                if not _is_word(argument[2], step):
                    return False
                if argument[0]:
                    return True
            case _:
                return False
    return False


def _is_word_set(item: Any) -> bool:
    op, argument = str(item[0]), item[1]
    if op == "RANGE":
        return argument[1] < 128 and all(map(_is_letter, range(argument[0], argument[1] + 1)))
    if op == "CATEGORY":
        return str(argument) in ("CATEGORY_WORD", "CATEGORY_DIGIT")
    return op == "LITERAL" and _is_letter(argument)


def _is_letter(code: int) -> bool:
    return chr(code).isalnum() or code == ord("_")


@lru_cache(maxsize=16)
def compile_words(word: str, times: int) -> Any:
    """Return the RE2 object that matches the next words, each between characters that are no letters, and the
    one after them; or the rest of the text if there are fewer. A match before must end where it starts."""
    other = _spell(_category("\\w", _UNICODE_LIMIT, 0), negated=True)
    edge = f"(?:\\A|{other})"
    part = f"(?:{edge}(?:\\C*?{other})??(?:{word})|(?:{edge}\\C*)?\\z)"
    return _linear(part * times + f"(?:{other}|\\z)")


def _plain(tree: Any) -> bytes:
    """Return the text that a pattern is, unless case does not matter or the text overlaps itself."""
    if tree.state.flags & re.IGNORECASE or any(str(op) != "LITERAL" for op, _ in tree):
        return b""
    text = "".join(chr(code) for _, code in tree).encode("utf-8", "surrogatepass")
    return b"" if any(text.startswith(text[at:]) for at in range(1, len(text))) else text


def _letters(tree: Any) -> str:
    """Return the longest run of characters that stand in every match, if case does not matter."""
    runs = [""]
    for op, argument in tree:
        if str(op) == "LITERAL" and not 0xD800 <= argument < 0xE000:
            runs[-1] += chr(argument)
        else:
            runs.append("")
    return max(runs, key=len) if tree.state.flags & re.IGNORECASE else ""


@lru_cache(maxsize=256)
def spellings(char: str, flags: int, *, ascii_body: bool) -> tuple[bytes, ...]:
    """Return the ways to write a character in UTF-8 if case does not matter, as `re` itself compares it."""
    alike = re.findall(re.escape(char), _cased(ascii_body), re.IGNORECASE | (flags & re.ASCII))
    return tuple(one.encode() for one in dict.fromkeys([char, *alike]))


@lru_cache(maxsize=2)
def _cased(ascii_body: bool) -> str:
    """Return the letters that have two cases."""
    every = map(chr, range(0x80 if ascii_body else _CASED_LIMIT))
    return "".join(char for char in every if char.lower() != char or char.upper() != char)


_CASED_LIMIT = 0x1F000
"""Every letter with two cases is below this code point."""


def compile_probe(way: bytes, tail: Sequence[Sequence[bytes]], sample: bytes) -> Any:
    """Return the RE2 object that finds one way to write a letter, by the byte of it that is rarest in
    `sample`, and then the letters of `tail` in all ways to write them."""
    rarest = min(range(len(way)), key=lambda at: sample.count(way[at]))
    rest = "".join(f"(?:{'|'.join(map(_escaped, ways))})" for ways in tail)
    # RE2 leaps to the byte. Without the group, it would leap to the rest too, and be slower.
    return _linear((_escaped(way[rarest:]) + (f"(?:{rest}){{1}}" if rest else "")).encode())


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:80] + "…")


# Blanks stay in an escaped character, in a set, and if they are repeated.
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]| +[*+?{]|(?P<blanks> +)", re.DOTALL)


def across_lines(pattern: str | re.Pattern[str]) -> str | re.Pattern[str] | None:
    r"""Return the pattern with `\s+` for its blanks. Return None if it has none or ignores them (re.VERBOSE),
    or if it may not hold a repeat there, as in a look-behind.

    Raises re.error for an invalid pattern.
    """
    source = pattern if isinstance(pattern, str) else pattern.pattern
    flags = re.compile(pattern).flags
    wide = _PARTS.sub(lambda part: r"\s+" if part["blanks"] else part[0], source)
    if flags & re.VERBOSE or wide == source:
        return None
    try:
        compiled = re.compile(wide, flags)
    except re.error:
        return None
    return wide if isinstance(pattern, str) else compiled


class _Spelling:
    """Spells a parsed pattern for RE2.

    `exact` is False if the spelling matches more than the pattern. `crosses` is True if a match, or what an
    assertion looks at, may hold a line end. `behind` is how many characters look-behinds see.
    """

    def __init__(self, ascii_body: bool) -> None:
        self.exact = True
        self.crosses = False
        self.behind = 0
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
        return "".join(sources), min(width, _UNBOUNDED)

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
                return "[^\\n]*", self._groups.get(argument, _UNBOUNDED)
            case "GROUPREF_EXISTS":
                self.exact = False
                return self._either([branch for branch in argument[1:] if branch is not None] + [()], flags)
            case "FAILURE":
                return _spell(()), 0
            case _:
                self.exact, self.crosses = False, True
                return "(?s:.*)", _UNBOUNDED

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
        total = (_UNBOUNDED if width else 0) if unlimited else min(_UNBOUNDED, width * most)
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
        return self._chars(_union(plain), _union(classes), negated, flags)

    def _category(self, name: str, flags: int, *, whole: bool) -> _CharSet:
        kind = name.removeprefix("CATEGORY_").removeprefix("NOT_")
        # Under IGNORECASE a negated class is folded by RE2, so its parts must hold for all characters.
        folded = whole and flags & re.IGNORECASE
        limit = _ASCII_LIMIT if self._ascii_body and not folded else _UNICODE_LIMIT
        found = _category({"DIGIT": "\\d", "SPACE": "\\s", "WORD": "\\w"}[kind], limit, flags & re.ASCII)
        return _complement(found) if "_NOT_" in name else found

    def _chars(self, plain: _CharSet, classes: _CharSet, negated: bool, flags: int) -> str:
        """Return a class that matches `plain` (folded under IGNORECASE) or `classes` (not folded), or neither
        of them if `negated`."""
        if _holds(_union(plain + classes), ord("\n")) != negated:
            self.crosses = True
        if not flags & re.IGNORECASE:
            return _spell(_union(plain + classes), negated=negated)
        if flags & re.ASCII:
            # RE2 would fold s and k into the letters beyond ASCII that `re` then keeps apart.
            return _spell(_union(_both_cases(plain) + classes), negated=negated)
        if any(_holds(plain, code) for low, high in _DOTTED_I for code in (low, high)):
            # The one family of letters that `re` folds and RE2 does not: i, I, dotted I, dotless i.
            plain = _union(plain + _DOTTED_I)
        if negated:
            return f"(?i:{_spell(_union(plain + classes), negated=True)})"
        if not classes:
            return f"(?i:{_spell(plain)})"
        return f"(?:(?i:{_spell(plain)})|{_spell(classes)})" if plain else _spell(classes)


def _both_cases(chars: _CharSet) -> _CharSet:
    """Return `chars` with the other case of every ASCII letter."""
    other = [(ord(c.swapcase()),) * 2 for c in _LETTERS if _holds(chars, ord(c))]
    return _union((*chars, *other))


_CharSet = tuple[tuple[int, int], ...]

_ASCII_LIMIT = 0x80
_UNICODE_LIMIT = 0x110000


def _union(ranges: Iterable[tuple[int, int]]) -> _CharSet:
    """Return one set of all the ranges. They may overlap, in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(chars: _CharSet) -> _CharSet:
    """Return every code point that is not in `chars`."""
    gaps = []
    at = 0
    for low, high in chars:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at < _UNICODE_LIMIT:
        gaps.append((at, _UNICODE_LIMIT - 1))
    return tuple(gaps)


def _holds(chars: _CharSet, code: int) -> bool:
    """Return whether `code` is in `chars`."""
    return any(low <= code <= high for low, high in chars)


@lru_cache(maxsize=16)
def _category(escape: str, limit: int, flags: int) -> _CharSet:
    """Return the characters below `limit` that `re` matches with `escape` (\\d, \\s or \\w)."""
    every = "".join(map(chr, range(limit)))
    return tuple((found.start(), found.end() - 1) for found in re.finditer(f"{escape}+", every, flags))


def _spell(chars: _CharSet, *, negated: bool = False) -> str:
    """Return the set as an RE2 character class."""
    if not chars:
        return _spell(((0, _UNICODE_LIMIT - 1),), negated=not negated)
    inside = "".join(
        f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in chars
    )
    return f"[{'^' if negated else ''}{inside}]"


_DOTTED_I = _union([(ord(c), ord(c)) for c in "iI\u0130\u0131"])
