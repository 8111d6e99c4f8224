"""Lists the files of a folder in a fixed order, without those that .gitignore excludes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rlm.documents.formats.piece import Problem
from rlm.errors import DocumentError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["FoundFile", "files_of", "patterns_of"]

_MOST_RULES = 1 << 20
"""Bytes of a .gitignore that is applied."""
_TOO_LARGE = Problem(f"a .gitignore of more than {_MOST_RULES >> 20} MB, not applied", kind="nothing")


class FoundFile(NamedTuple):
    """A file below a folder. `name` is its path from that folder, with slashes. `problem` is why the file
    is not read, or None."""

    path: str
    name: str
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Rules:
    """One .gitignore file. `base` is the path of its folder from the top, with a final slash unless empty."""

    base: str
    spec: GitIgnoreSpec

    def is_excluded(self, name: str) -> bool | None:
        """Return whether the file excludes `name`, or None if no pattern matches. `name` is the path from
        the top; the path of a folder ends in a slash."""
        return self.spec.check_file(name.removeprefix(self.base)).include


def files_of(
    folder: Path, exclude: Sequence[str] = (), tick: Callable[[], None] = lambda: None
) -> Iterator[FoundFile]:
    """Yield the files below `folder`, sorted by name.

    Skips `.git`, and every name that `exclude` or a .gitignore matches (in subfolders, too). Follows only
    links to files inside `folder`. Unreadable folders, other links, sockets and devices are yielded with a
    `problem`. `tick` is called for every name, and may raise an exception to end the walk. Raises
    DocumentError if `folder` itself cannot be read.
    """
    try:
        entries = _sorted_entries(folder)
    except OSError as error:
        raise DocumentError(
            f"cannot read {folder}: {error.strerror}. Check its permissions or name another folder"
        ) from error
    return _walk(folder, entries, patterns_of(tuple(exclude)) if exclude else None, tick)


def _walk(
    top: Path, entries: list[os.DirEntry[str]], exclude: GitIgnoreSpec | None, tick: Callable[[], None]
) -> Iterator[FoundFile]:
    """Yield the files below `top`, which holds `entries`. `exclude` overrides every .gitignore."""
    real = top.resolve()
    stack = [("", iter(entries), _rules_in(str(top), "", entries))]
    rules: tuple[_Rules, ...] = ()
    while stack:
        base, rest, rules = stack[-1]
        entry = next(rest, None)
        if entry is None:
            stack.pop()
            continue
        tick()
        name = base + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git":
            continue
        if exclude is not None or rules:
            # A name that is not UTF-8 holds surrogates, which pathspec rejects.
            shown = os.fsencode(name).decode("utf-8", "replace") + ("/" if is_folder else "")
            if (exclude is not None and exclude.match_file(shown)) or _is_ignored(shown, rules):
                continue
        if not is_folder:
            problem = _problem(entry, real)
            if problem is None and entry.name == ".gitignore" and entry.stat().st_size > _MOST_RULES:
                problem = _TOO_LARGE
            yield FoundFile(entry.path, name, problem)
            continue
        try:
            below = _sorted_entries(entry.path)
        except OSError as error:
            problem = Problem(f"cannot be read: {error.strerror}", kind="other")
            yield FoundFile(entry.path, name + "/", problem)
            continue
        stack.append((name + "/", iter(below), (*rules, *_rules_in(entry.path, name + "/", below))))


def _rules_in(folder: str, base: str, entries: list[os.DirEntry[str]]) -> tuple[_Rules, ...]:
    """Return the rules of the .gitignore among the entries of a folder. One that is too large is not
    applied."""
    if not any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries):
        return ()
    try:
        with Path(folder, ".gitignore").open("rb") as file:
            data = file.read(_MOST_RULES + 1)
    except OSError:
        return ()  # the walk yields it
    lines = tuple(data.decode("utf-8", "replace").splitlines()) if len(data) <= _MOST_RULES else ()
    return (_Rules(base, patterns_of(lines)),) if lines else ()


@lru_cache(maxsize=16)
def patterns_of(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Return the patterns in the lines of a .gitignore file."""
    from pathspec import GitIgnoreSpec  # a context of one text needs none

    return GitIgnoreSpec.from_lines(lines)


def _sorted_entries(folder: str | Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _is_ignored(name: str, rules: tuple[_Rules, ...]) -> bool:
    """Return whether the nearest .gitignore with a matching pattern excludes `name`."""
    results = (rule.is_excluded(name) for rule in reversed(rules))
    return next((is_excluded for is_excluded in results if is_excluded is not None), False)


def _problem(entry: os.DirEntry[str], top: Path) -> Problem | None:
    try:
        reason = "" if entry.is_file() else "not a regular file"
        if entry.is_symlink():
            target = Path(entry.path).resolve(strict=True)
            if not target.is_relative_to(top):
                reason = "a link that leads out of the folder"
            elif target.is_dir():
                reason = "a link to a folder"
    except (OSError, RuntimeError):
        reason = "a broken link"
    return Problem(reason, kind="nothing") if reason else None
