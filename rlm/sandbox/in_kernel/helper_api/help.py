"""`help` in a cell: what a helper or a tool takes, returns and is bounded by, with an example.

Its words are the registry's, of which the root's full prompt is made, too.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from .registry import HELPERS, NAMES, NOTES, Helper

__all__ = ["MAX_HELP_CHARS", "HelpDesk"]

MAX_HELP_CHARS = 4_000
"""Characters that one call prints. A description of a tool or a module may be far longer."""
_MAX_NAME = 100
_LISTED_CHARS = 100
"""Characters of a tool's description in the list of all."""


class HelpDesk:
    """Answers `help` for one kernel. `helpers` has every helper and tool as an attribute, and `namespace`
    what the cells made."""

    def __init__(self, helpers: object, namespace: dict[str, Any]) -> None:
        self._helpers = helpers
        self._namespace = namespace

    def help(self, what: Any = None) -> None:
        print(_bounded(self._text(what)))  # noqa: T201 - printing is how a cell speaks to the root

    def _text(self, what: Any) -> str:
        if what is None:
            return self._list()
        # The answers of children are str, too, and none of them is meant as a name.
        if type(what) is not str:
            entry = _entry_of(what)
            return _documentation(what) if entry is None else _detail(entry)
        name = what.strip().removesuffix("()")
        entry = _entry_of(getattr(self._helpers, name, None))
        if entry is not None:
            return _detail(entry)
        if name in self._namespace:
            return _documentation(self._namespace[name])
        return _documentation(name) if len(name) <= _MAX_NAME and name.isidentifier() else _unknown(name)

    def _list(self) -> str:
        lines = [f"{helper.short_call}: {helper.brief}" for helper in HELPERS]
        for name, value in vars(self._helpers).items():
            tool = None if name in NAMES else _entry_of(value)
            if tool is not None:
                lines.append(f"{tool.call}: {tool.summary[:_LISTED_CHARS]}")
        return "\n".join(lines)


def _entry_of(value: Any) -> Helper | None:
    """Return the description of a helper or a tool, or None for anything else."""
    entry = getattr(value, "entry", None)
    return entry if isinstance(entry, Helper) else None


def _detail(entry: Helper) -> str:
    lines = [entry.call]
    if entry.summary:
        lines.append(entry.summary)
    if entry.fields:
        lines.append(f"Fields: {', '.join(entry.fields)}")
    lines += [note.text for note in NOTES if entry.name in note.helpers]
    if entry.example:
        lines += ["Example:", *(f"    {line}" for line in entry.example.splitlines())]
    return "\n".join(lines)


def _documentation(what: Any) -> str:
    """Return what Python's own `help` shows of a value, or of a module or builtin by its name."""
    # Rarely needed, and not cheap to import.
    import pydoc

    try:
        # A str is a name to pydoc: of a text, show what its type can do.
        thing = type(what) if isinstance(what, str) and type(what) is not str else what
        return pydoc.plain(pydoc.render_doc(thing, title="%s"))
    except ImportError:
        return _unknown(str(what))


def _unknown(name: str) -> str:
    near = get_close_matches(name[:_MAX_NAME], NAMES, 3)
    meant = f" Did you mean {', '.join(near)}?" if near else ""
    return f"There is no helper {name[:_MAX_NAME]!r}.{meant} help() lists all of them."


def _bounded(text: str) -> str:
    if len(text) <= MAX_HELP_CHARS:
        return text
    return f"{text[:MAX_HELP_CHARS]}\n… {len(text) - MAX_HELP_CHARS:,} more characters are left out."
