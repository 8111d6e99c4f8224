"""Sources of text: paths, strings and streams, and their form on a command line."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from rlm.errors import DocumentError, UsageError

__all__ = [
    "Context",
    "PathSource",
    "Source",
    "StreamSource",
    "TextSource",
    "describe",
    "sources_from_arguments",
    "sources_of",
]

_GLOB_MARKS = frozenset("*?[")
_MAX_PATH = 4_096
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_FORMS = "give a text, a Path (a file or a folder), or a list of these"


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file, a folder (read recursively) or a named pipe. `exclude` holds patterns as in .gitignore; files
    below the folder that match one are skipped."""

    path: Path
    exclude: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path; for `.`, the name of the current folder."""
        return self.path.name or self.path.absolute().name


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text in memory. Bytes are decoded like a file's. `kind` is as in `Document.kind`."""

    name: str
    text: str | bytes
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A binary stream. It is read to its end and not closed."""

    name: str
    stream: BinaryIO


Source = PathSource | TextSource | StreamSource

Context: TypeAlias = str | bytes | Path | Source | Sequence[str | bytes | Path | Source]
"""A text, a path (file or folder), or a list of these."""


def sources_of(context: Context) -> list[Source]:
    """Return the sources of a context that a caller gave.

    Raises UsageError for anything else, and for a text that only names an existing file or is only a URL:
    its few characters would be searched instead of the file.
    """
    if isinstance(context, str | bytes | Path | Source):
        return [_checked(context)]
    if not isinstance(context, Iterable) or isinstance(context, Mapping) or hasattr(context, "read"):
        raise UsageError(f"the context is {describe(context)}: {_FORMS}")
    return [_checked(one) for one in context]


def _checked(given: Any) -> Source:
    if not isinstance(given, str | bytes | Path | Source):
        raise UsageError(f"the context holds {describe(given)}: {_FORMS}")
    if isinstance(given, str) and len(given) <= _MAX_PATH:
        line = given.strip()
        if line and "\n" not in line and _exists(Path(line)):
            raise UsageError(
                f"the context is the text {line!r}, which names an existing file or folder: give "
                f"Path({line!r}) to read it, or rlm.documents.TextSource('text', …) for these characters"
            )
        if _URL.fullmatch(line):
            raise UsageError(
                f"the context is the URL {line!r}, which is not downloaded: save the page and give its Path"
            )
    return as_source(given)


def describe(value: object) -> str:
    """Return what a wrong argument is, for a message: `None`, `a value of type int`."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def as_source(given: Source | Path | str | bytes) -> Source:
    """Return a path or text as a source. A text is named `text`."""
    if isinstance(given, Path):
        return PathSource(given)
    if isinstance(given, str | bytes):
        return TextSource("text", given)
    return given


def sources_from_arguments(
    arguments: Sequence[str], stdin: BinaryIO, *, exclude: Sequence[str] = ()
) -> tuple[Source, ...]:
    """Return the sources of PATH arguments: files, folders, globs the shell did not expand, and one `-` for
    `stdin`.

    A file of that exact name wins over a glob. `exclude` applies to every folder. Raises DocumentError for a
    missing path, a glob without a match, and a second `-`.
    """
    sources: list[Source] = []
    for argument in arguments:
        if argument == "-":
            if any(isinstance(source, StreamSource) for source in sources):
                raise DocumentError("- (standard input) was given twice: give it once")
            sources.append(StreamSource("stdin", stdin))
            continue
        if not argument:
            raise DocumentError("an empty path was given: name a file, a folder or - for standard input")
        path = Path(argument)
        if not _exists(path):
            path = _expand_home(path)
        if _exists(path):
            sources.append(PathSource(path, tuple(exclude)))
        elif _GLOB_MARKS.intersection(argument):
            # Not Path.glob: it refuses absolute patterns.
            found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
            if not found:
                raise DocumentError(
                    f"no file matches {argument!r}: check the pattern and the folder you are in"
                )
            sources.extend(PathSource(Path(match), tuple(exclude)) for match in found)
        else:
            raise DocumentError(f"{argument} does not exist: check the path and the folder you are in")
    return tuple(sources)


def _expand_home(path: Path) -> Path:
    """Expand a `~` that the shell left because it was quoted."""
    try:
        return path.expanduser()
    except RuntimeError:  # unknown user, or unknown home
        return path


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):
        # The name is too long or holds a NUL. A folder that cannot be searched is reported when it is read.
        return False
