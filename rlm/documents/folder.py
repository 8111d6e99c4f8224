"""The files of a folder, in a fixed order, without what .gitignore leaves out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from rlm.errors import DocumentError

__all__ = ["Found", "files_of"]


@dataclass(frozen=True, slots=True)
class Found:
    """A file below a folder: `name` is its path from there, with slashes; `unfit` why it can't be read."""

    path: Path
    name: str
    unfit: str | None = None


@dataclass(frozen=True, slots=True)
class _Rules:
    """One .gitignore: `base` is the path of its folder from the top, ending in a slash unless it is empty."""

    base: str
    spec: GitIgnoreSpec

    def verdict(self, name: str) -> bool | None:
        """Whether it leaves `name` (from the top; folders end in a slash) out; None if it says nothing."""
        return self.spec.check_file(name.removeprefix(self.base)).include


def files_of(
    folder: Path, exclude: Sequence[str] = (), tick: Callable[[], None] = lambda: None
) -> Iterator[Found]:
    """Files below `folder` in the order of their names, whatever the file system's.

    `.git`, what matches `exclude` and what a .gitignore (nested ones too) leaves out is passed over.
    Links to folders are not followed, nor links that lead out of `folder`. Folders that can't be read,
    and files that are none (sockets, devices, broken links), are given as unfit. `tick` is called for
    every name met, and may raise to end the walk. DocumentError if `folder` itself can't be read.
    """
    try:
        entries = _listed(folder)
    except OSError as error:
        raise DocumentError(
            f"{folder} can't be read: {error.strerror}: check its permissions or name another folder"
        ) from error
    return _walk(_Walk(folder.resolve(), GitIgnoreSpec.from_lines(exclude), tick), folder, "", entries, ())


@dataclass(frozen=True, slots=True)
class _Walk:
    """What holds for a whole walk: where it began, what it leaves out whatever any .gitignore says, and
    what is called for every name."""

    top: Path
    exclude: GitIgnoreSpec
    tick: Callable[[], None]


def _walk(
    walk: _Walk, folder: Path, base: str, entries: list[os.DirEntry[str]], rules: tuple[_Rules, ...]
) -> Iterator[Found]:
    own = _rules_of(folder, base, entries)
    if own is not None:
        rules = (*rules, own)
    for entry in entries:
        walk.tick()
        name = base + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        # A name that is no UTF-8 holds surrogates, which the patterns' engine refuses.
        matched = os.fsencode(name).decode("utf-8", "replace") + ("/" if is_folder else "")
        if entry.name == ".git" or walk.exclude.match_file(matched) or _left_out(matched, rules):
            continue
        path = folder / entry.name
        if not is_folder:
            yield Found(path, name, _unfit(entry, walk.top))
            continue
        try:
            below = _listed(path)
        except OSError as error:
            yield Found(path, name + "/", f"can't be read: {error.strerror}")
            continue
        yield from _walk(walk, path, name + "/", below, rules)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _rules_of(folder: Path, base: str, entries: list[os.DirEntry[str]]) -> _Rules | None:
    if not any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries):
        return None
    try:
        lines = (folder / ".gitignore").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None  # it is listed as unreadable itself
    return _Rules(base, GitIgnoreSpec.from_lines(lines))


def _left_out(name: str, rules: tuple[_Rules, ...]) -> bool:
    """The nearest .gitignore that says anything decides."""
    return next((said for rule in reversed(rules) if (said := rule.verdict(name)) is not None), False)


def _unfit(entry: os.DirEntry[str], top: Path) -> str | None:
    try:
        if entry.is_symlink():
            target = Path(entry.path).resolve(strict=True)
            if not target.is_relative_to(top):
                return "a link that leads out of the folder"
            if target.is_dir():
                return "a link to a folder"
        return None if entry.is_file() else "not a regular file"
    except (OSError, RuntimeError):
        return "a broken link"
