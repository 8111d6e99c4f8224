"""What users of other tools type: a question without a command, `-1` for the newest run, words in another
order."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["find_swapped", "misspelt_variables", "with_habits"]

_BACK = re.compile(r"-([1-9]\d{0,3})")
_TAKE_A_RUN = frozenset({"show", "export", "resume", "replay"})
_OTHER_VARIABLES = frozenset(
    {"RLM_BUBBLEWRAP", "RLM_CONFIG", "RLM_OPENAI_COMPATIBLE_KEY", "RLM_OPENAI_COMPATIBLE_KEY_HOST"}
)
"""Variables that no option has."""
_ALIKE = 0.8
_ALIASES = {"help": "--help", "version": "--version"}


def with_habits(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the arguments of `rlm` as its commands take them.

    A first argument that is a question and no command asks it. `rlm help` and `rlm version` are the options
    of that name. `-1` in place of a run is the newest one, `-2` the one before it.
    """
    given = list(arguments)
    if not given or given[0].startswith("-") or given[0] in commands:
        if given and given[0] in _TAKE_A_RUN:
            given[1:] = [_run_name(one) for one in given[1:]]
        return given
    first = given[0].strip()
    if first in _ALIASES:
        return [*given[1:2], _ALIASES[first]] if first == "help" and given[1:2] else [_ALIASES[first]]
    return ["ask", *given] if any(map(str.isspace, first)) or first.endswith(("?", "？")) else given


def find_swapped(question: str, paths: Sequence[str]) -> str | None:
    """Return the path that looks like the question, if `question` names a file and one of the paths does
    not exist and reads like a question; else None."""
    if not _exists(question):
        return None
    return next((path for path in paths if any(map(str.isspace, path.strip())) and not _exists(path)), None)


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


def _exists(name: str) -> bool:
    with suppress(OSError, ValueError):
        return Path(name).exists()
    return False
