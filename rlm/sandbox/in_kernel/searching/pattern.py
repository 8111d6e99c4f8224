"""Compiles a search pattern for `re` and for a linear-time engine.

`re` itself parses a pattern, and its tree is spelled again for RE2. Where the spelling matches more than the
pattern, RE2 only finds the lines that `re` then searches.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .linear import compile_linear
from .literal import Literal, literal_of
from .spelling import Spelling

__all__ = ["SearchPattern", "parse", "understand"]

_KEPT_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE | re.ASCII | re.MULTILINE
_MAX_LITERAL = 2_000

# The parser of `re` is private, but has been stable. A construct that is not known here goes to `re` itself.
_parser: Any = importlib.import_module("re._parser")


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern that is ready to run. Widths are in characters.

    `linear` is an RE2 object or None. If `exact`, it finds what `compiled` finds, otherwise at least that.
    If `crosses`, a match, or what its assertions look at, may hold a line end.
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
    """Return the compiled `pattern`, always with MULTILINE. `engine` is the re2 module, or None without it.

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
    spelling = Spelling(ascii_body)
    source, reach = spelling.sequence(tree, tree.state.flags)
    narrowest, widest = tree.getwidth()
    # After an empty match `re` looks for a longer one at the same place. RE2 cannot do that.
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


def parse(query: SearchPattern) -> Any:
    """Return the parse tree of a pattern."""
    return _parser.parse(query.source, re.RegexFlag(query.compiled.flags) & _KEPT_FLAGS)


def _literal(tree: Any, flags: int, ascii_body: bool) -> Literal | None:
    """Return the plain text that the pattern is, or None."""
    if any(str(op) != "LITERAL" for op, _ in tree) or len(tree) > _MAX_LITERAL:
        return None
    return literal_of([code for _, code in tree], flags, ascii_body=ascii_body)


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:80] + "…")
