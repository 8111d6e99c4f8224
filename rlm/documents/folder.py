"""The files of a folder in a fixed order, without those that .gitignore excludes."""

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
    """A file below a folder. `name` is its path from there, with slashes; `unfit` is why it cannot be
    read."""

    path: Path
    name: str
    unfit: str | None = None


@dataclass(frozen=True, slots=True)
class _Rules:
    """One .gitignore. `base` is its folder's path from the top, with a final slash unless it is empty."""

    base: str
    spec: GitIgnoreSpec

    def verdict(self, name: str) -> bool | None:
        """Return whether it excludes `name` (from the top; folders end in a slash); None if no pattern
        matches."""
        return self.spec.check_file(name.removeprefix(self.base)).include


def files_of(
    folder: Path, exclude: Sequence[str] = (), tick: Callable[[], None] = lambda: None
) -> Iterator[Found]:
    """Yield the files below `folder`, sorted by name.

    Skips `.git`, and whatever `exclude` or a .gitignore (nested ones too) matches. Does not follow links to
    folders, nor links that lead out of `folder`. Unreadable folders, and sockets, devices and broken links,
    are yielded as unfit. `tick` is called for every name, and may raise to end the walk. Raises
    DocumentError if `folder` itself cannot be read.
    """
    try:
        entries = _list(folder)
    except OSError as error:
        raise DocumentError(
            f"{folder} can't be read: {error.strerror}: check its permissions or name another folder"
        ) from error
    return _walk(_Walk(folder.resolve(), GitIgnoreSpec.from_lines(exclude), tick), folder, "", entries, ())


@dataclass(frozen=True, slots=True)
class _Walk:
    """The constants of a walk: its top folder, the patterns that override every .gitignore, and the callback
    for every name."""

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
        # A name that is not UTF-8 holds surrogates, which pathspec rejects.
        matched = os.fsencode(name).decode("utf-8", "replace") + ("/" if is_folder else "")
        if entry.name == ".git" or walk.exclude.match_file(matched) or _is_ignored(matched, rules):
            continue
        path = folder / entry.name
        if not is_folder:
            yield Found(path, name, _unfit(entry, walk.top))
            continue
        try:
            below = _list(path)
        except OSError as error:
            yield Found(path, name + "/", f"can't be read: {error.strerror}")
            continue
        yield from _walk(walk, path, name + "/", below, rules)


def _list(folder: Path) -> list[os.DirEntry[str]]:
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


def _is_ignored(name: str, rules: tuple[_Rules, ...]) -> bool:
    """Return the verdict of the nearest .gitignore with a matching pattern."""
    return next((verdict for rule in reversed(rules) if (verdict := rule.verdict(name)) is not None), False)


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
