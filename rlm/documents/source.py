"""Sources of text: paths, strings and streams, and their form on a command line."""

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
