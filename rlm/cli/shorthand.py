"""Short ways to ask and to look: a question without a command, `-1` for the newest run, words in another
order."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["find_swapped", "is_file", "misspelt_variables", "resolve_shorthand", "unquoted_question"]

_BACK = re.compile(r"-([1-9]\d{0,3})")
_TAKE_A_RUN = frozenset({"show", "export", "resume", "replay", "view"})
_OTHER_VARIABLES = frozenset(
    {
        "RLM_BUBBLEWRAP",
        "RLM_CONFIG",
        "RLM_MCP_TOKEN",
        "RLM_OPENAI_COMPATIBLE_KEY",
        "RLM_OPENAI_COMPATIBLE_KEY_HOST",
    }
)
"""Variables that no option has."""
_ALIKE = 0.8
_ALIASES = {"help": "--help", "version": "--version"}
_OF_RLM = frozenset({"-h", "--help", "-V", "--version", "--install-completion", "--show-completion"})
"""Options that need no command."""


def resolve_shorthand(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the arguments of `rlm` as its commands take them.

    A first argument that is no command asks, if it is a question, a file, an option of a question, or a word
    before an existing file. `rlm help` and `rlm version` are the options of that name. `-1` in place of a run
    is the newest one, `-2` the one before it.
    """
    given = list(arguments)
    if given and given[0].startswith("-") and given[0] not in _OF_RLM:
        has_question = any(map(_is_question, given))
        return ["ask", *given] if has_question and not any(one in commands for one in given) else given
    if not given or given[0].startswith("-") or given[0] in commands:
        if given and given[0] in _TAKE_A_RUN:
            given[1:] = [_run_name(one) for one in given[1:]]
        return given
    first = given[0].strip()
    if first in _ALIASES:
        return [*given[1:2], _ALIASES[first]] if first == "help" and given[1:2] else [_ALIASES[first]]
    if _is_question(first) or is_file(first) or (_is_word(first, commands) and any(map(is_file, given[1:]))):
        return ["ask", *given]
    return given


def unquoted_question(question: str, paths: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return a question that was given without quotes, and the paths behind it; None if it was not.

    Then the first path does not exist, a later one does, and no word has a space or looks like a path.
    """
    words = [question]
    for place, path in enumerate(paths):
        if is_file(path):
            return (" ".join(words), paths[place:]) if place else None
        words.append(path)
        if any(map(str.isspace, path)) or "/" in path or "://" in path:
            return None
    return None


def find_swapped(question: str, paths: Sequence[str]) -> str | None:
    """Return the path that looks like the question, if `question` names a file and one of the paths does
    not exist and reads like a question; else None."""
    if not is_file(question):
        return None
    return next((path for path in paths if any(map(str.isspace, path.strip())) and not is_file(path)), None)


def misspelt_variables(environment: Iterable[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each variable that is nearly one of the `known` ones, with the one that was meant."""
    known = {*known, *_OTHER_VARIABLES}
    for name in sorted(environment):
        if name.startswith("RLM_") and name not in known:
            close = difflib.get_close_matches(name, known, 1, _ALIKE)
            if close:
                yield name, close[0]


def _run_name(argument: str) -> str:
    back = _BACK.fullmatch(argument)
    return argument if back is None else f"latest~{int(back[1]) - 1}"


def _is_question(argument: str) -> bool:
    argument = argument.strip()
    return any(map(str.isspace, argument)) or argument.endswith(("?", "？"))


def _is_word(argument: str, commands: Collection[str]) -> bool:
    """Return whether the argument is a word that no command resembles."""
    return not difflib.get_close_matches(argument, commands, 1, _ALIKE)


def is_file(name: str) -> bool:
    """Return whether a file or folder has this name."""
    with suppress(OSError, ValueError):
        return Path(name).exists()
    return False
