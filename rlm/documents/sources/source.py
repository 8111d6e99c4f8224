"""Sources of text: paths, strings, streams, URLs and revisions, and their form on a command line."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rlm.documents.sources.frame import FrameSource
from rlm.documents.sources.url import check_url, public_name
from rlm.errors import DocumentError

__all__ = [
    "SCHEME",
    "WEB",
    "Check",
    "CloudSource",
    "Fetched",
    "GitSource",
    "PathSource",
    "Source",
    "StreamSource",
    "TextSource",
    "UrlSource",
    "describe",
    "exists",
    "sources_from_arguments",
]

_GLOB_MARKS = frozenset("*?[")
WEB = re.compile(r"https?://", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+-]*://", re.IGNORECASE)


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


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A page or file at an http or https URL. It is downloaded when it is read.

    Only public addresses are reached, and the private hosts in `allow_hosts` (`HOST` or `HOST:PORT`). No
    credential is sent.
    """

    url: str
    allow_hosts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The URL, without values that may be credentials."""
        return public_name(self.url)


@dataclass(frozen=True, slots=True)
class CloudSource:
    """An object, a prefix or a glob in a storage that fsspec knows: `s3://…`, `gs://…`, `az://…`. `exclude`
    is as in PathSource. Credentials are those of the user's environment."""

    url: str
    exclude: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The URL."""
        return self.url


@dataclass(frozen=True, slots=True)
class GitSource:
    """A git repository at a revision (`v1.2`), without a checkout; or, for a range (`v1..v2`, `..main`), its
    commits with their diffs. A `path` below the repository leaves out what is elsewhere. `exclude` is as in
    PathSource."""

    path: Path
    revision: str
    exclude: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The repository and the revision, as on a command line."""
        return f"{self.path}@{self.revision}"


Check = Callable[[str, bytes], object]
"""Gets the name that tells the kind of a file and its first bytes, before the rest is fetched. It raises
NotRead for a file that could not be read."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file without a name on the disk, at its start. `name` is the name of its document. `kind_name` is a
    file name whose suffix tells its kind."""

    name: str
    kind_name: str
    file: BinaryIO


Source = PathSource | TextSource | StreamSource | FrameSource | UrlSource | CloudSource | GitSource


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
    arguments: Sequence[str],
    stdin: BinaryIO,
    *,
    exclude: Sequence[str] = (),
    allow_hosts: Sequence[str] = (),
) -> tuple[Source, ...]:
    """Return the sources of PATH arguments: files, folders, globs the shell did not expand, URLs, revisions
    of a repository (`REPO@REV`), and one `-` for `stdin`.

    A file of that exact name wins over a glob and a revision. `exclude` applies to every folder. URLs may
    lead to the private hosts in `allow_hosts`. Raises DocumentError for a missing path, a glob without a
    match, and a second `-`.
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
        if SCHEME.match(argument):
            sources.append(_from_url(argument, exclude, allow_hosts))
            continue
        path = Path(argument)
        if not exists(path):
            path = _expand_home(path)
        if exists(path):
            sources.append(PathSource(path, tuple(exclude)))
        elif (revision := _revision(path, exclude)) is not None:
            sources.append(revision)
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


def _from_url(url: str, exclude: Sequence[str], allow_hosts: Sequence[str]) -> Source:
    if WEB.match(url):
        check_url(url)
        return UrlSource(url, tuple(allow_hosts))
    if url.lower().startswith("file://"):
        raise DocumentError(f"{url} is a file of this machine: give its path")
    return CloudSource(url, tuple(exclude))


def _revision(path: Path, exclude: Sequence[str]) -> GitSource | None:
    """Return the source of `REPO@REV`, where REPO is an existing folder."""
    text = str(path)
    for mark in re.finditer("@", text):
        folder, revision = Path(text[: mark.start()]), text[mark.end() :]
        if mark.start() and revision and folder.is_dir():
            return GitSource(folder, revision, tuple(exclude))
    return None


def _expand_home(path: Path) -> Path:
    """Expand a `~` that the shell left because it was quoted."""
    try:
        return path.expanduser()
    except RuntimeError:  # unknown user, or unknown home
        return path


def exists(path: Path) -> bool:
    """Return whether a path names something, be it a broken link."""
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):
        # The name is too long or holds a NUL. A folder that cannot be searched is reported when it is read.
        return False
