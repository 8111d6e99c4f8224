"""Finds the variables that a cell created or changed, with types that a model knows."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping
from typing import Any

from .registry import YIELDING

_UNITS: Mapping[str, str] = {"ChildResults": "answers", "Hits": "hits", "Listed": ""}
MAX_CHANGES = 500
"""Variables reported for one cell."""
_MAX_CHARS = 100
_SCALARS = (str, int, float, bool, type(None))
_SILENT = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


def describe(value: Any) -> tuple[str, str]:
    """Return type and size of a value: `("str", "1,204 chars")`, `("list", "11 answers")`, `("float", "")`.

    Both are short. Never raises, whatever the value's own methods do.
    """
    try:
        kind, size = _describe(value)
        return str(kind)[:_MAX_CHARS], str(size)[:_MAX_CHARS]
    except Exception:
        # len() and attributes may run the value's own code, which can raise anything.
        return "object", ""


def _describe(value: Any) -> tuple[str, str]:
    unit = _UNITS.get(type(value).__name__)
    if unit is not None:
        return "list", f"{len(value):,} {unit or value.unit + 's'}"
    if isinstance(value, str):
        return "str", f"{len(value):,} chars"
    if isinstance(value, (bytes, bytearray)):
        return type(value).__name__, f"{len(value):,} bytes"
    if isinstance(value, dict):
        return "dict", f"{len(value):,} keys"
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value).__name__, f"{len(value):,} items"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(size, int) for size in shape):
        return type(value).__name__, " x ".join(map(str, shape))
    return type(value).__name__, ""


def passing_names(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a cell binds only by `for`, `with` or `import`, and those that it assigns only
    within a loop."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(), frozenset()
    passing: set[str] = set()
    assigned: dict[bool, set[str]] = {False: set(), True: set()}
    # No recursion: a sum of a thousand terms is as deep.
    left: list[tuple[ast.AST, bool]] = [(tree, False)]
    while left:
        node, looped = left.pop()
        match node:
            case ast.For() | ast.AsyncFor():
                passing |= _bound(node.target)
            case ast.withitem():
                passing |= _bound(node.optional_vars)
            case ast.Import() | ast.ImportFrom():
                passing |= {(name.asname or name.name).partition(".")[0] for name in node.names}
            case ast.Assign():
                for target in node.targets:
                    assigned[looped] |= _bound(target)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                # What is only counted up in a loop was there before.
                assigned[False] |= _bound(node.target)
            case _:
                pass
        looped = looped or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        left.extend((child, looped) for child in ast.iter_child_nodes(node))
    return frozenset(passing - assigned[False] - assigned[True]), frozenset(assigned[True] - assigned[False])


def _bound(target: ast.AST | None) -> set[str]:
    return {name.id for name in ast.walk(target) if isinstance(name, ast.Name)} if target else set()


class VariableWatch:
    """Compares the namespace before and after a cell.

    Names in `ours` count as user variables only if a cell bound something else to them.
    """

    def __init__(self, namespace: dict[str, Any], ours: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._ours = ours
        self._seen: dict[str, tuple[int, str, str]] = {}
        self._hidden: frozenset[str] = frozenset(namespace)

    def variables(self) -> dict[str, str]:
        """Return every user variable with its type."""
        return {name: ": ".join(filter(None, describe(value))) for name, value in self._user_variables()}

    def changes(self, code: str) -> tuple[list[tuple[str, str, str]], int]:
        """Return (name, type, size) of the first `MAX_CHANGES` variables changed since the last call, and how
        many changed in all. Those of loops and imports do not count."""
        passing, looped = passing_names(code)
        changed = []
        seen = {}
        for name, value in self._user_variables():
            kind, size = describe(value)
            seen[name] = (id(value), kind, size)
            if seen[name] == self._seen.get(name) or name in passing:
                continue
            if name in looped and isinstance(value, _SCALARS):
                continue
            changed.append((name, kind, size))
        self._seen = seen
        return changed[:MAX_CHANGES], len(changed)

    def rebound(self) -> list[str]:
        """Return the helpers whose names a cell has bound to something else, but for common words."""
        return [
            name
            for name, value in self._ours.items()
            if self._namespace.get(name, value) is not value and name not in YIELDING
        ]

    def _user_variables(self) -> list[tuple[str, Any]]:
        return [
            (name, value)
            for name, value in list(self._namespace.items())
            if isinstance(name, str)
            and not name.startswith("_")
            and (name not in self._hidden or name in self._ours)
            and len(name) <= _MAX_CHARS
            and self._ours.get(name) is not value
            and not isinstance(value, _SILENT)
        ]
