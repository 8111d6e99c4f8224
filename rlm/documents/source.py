"""Where texts come from: a path, a string, a stream; and what a command line means by its arguments."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rlm.errors import DocumentError

__all__ = ["PathSource", "Source", "StreamSource", "TextSource", "sources_from_arguments"]

_GLOB_MARKS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file, a folder (read recursively) or a named pipe. What is below a folder and matches a pattern of
    `exclude` (as in .gitignore, from that folder's top) is left out."""

    path: Path
    exclude: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path: `.` has none, its folder's name stands for it."""
        return self.path.name or self.path.absolute().name


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text that is already at hand; bytes are decoded like a file's. `kind` as in `Document.kind`."""

    name: str
    text: str | bytes
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A binary stream, read to its end and left open."""

    name: str
    stream: BinaryIO


Source = PathSource | TextSource | StreamSource


def as_source(given: Source | Path | str | bytes) -> Source:
    """A path or a text as the source it is; a text's name is `text`."""
    if isinstance(given, Path):
        return PathSource(given)
    if isinstance(given, str | bytes):
        return TextSource("text", given)
    return given


def sources_from_arguments(
    arguments: Sequence[str], stdin: BinaryIO, *, exclude: Sequence[str] = ()
) -> tuple[Source, ...]:
    """What a command line's PATH arguments stand for: files, folders, globs the shell did not expand, and
    `-` for `stdin`, once. A file of that very name wins over a glob. Raises DocumentError for a missing path,
    a glob that matches nothing, and a second `-`. `exclude` holds for every folder."""
    sources: list[Source] = []
    for argument in arguments:
        if argument == "-":
            if any(isinstance(source, StreamSource) for source in sources):
                raise DocumentError("- (standard input) was given twice: it can be read once, give it once")
            sources.append(StreamSource("stdin", stdin))
            continue
        if not argument:
            raise DocumentError("an empty path was given: name a file, a folder or - for standard input")
        path = Path(argument)
        if not _exists(path):
            path = _at_home(path)
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


def _at_home(path: Path) -> Path:
    """`path` with a `~` that the shell left, because it was quoted, turned into the home it stands for."""
    try:
        return path.expanduser()
    except RuntimeError:  # nobody of that name, or nobody's home is known
        return path


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):
        # A name that is too long or holds a NUL; a folder that can't be looked into is told when it is read.
        return False
