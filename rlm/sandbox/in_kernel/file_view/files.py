"""The documents of a body as files: objects in the manner of `pathlib.Path`, read-only and lazy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, overload

from ..body.body import Body, Document, Span
from ..context_handle.access_log import AccessLog
from ..context_handle.records import Text
from .globbing import matches
from .open_document import MAX_TEXT, OpenDocument, too_large

__all__ = ["File", "Files"]

_SHOWN = 10


class File:
    """One document as a path. `span` is its place, so it can be a slice, `within` and evidence, too.

    `size` is its number of characters, and `kind` that of documents(). Iterating over it yields its lines.
    """

    __slots__ = ("_body", "_document", "_log", "_path")

    def __init__(self, body: Body, log: AccessLog, document: Document) -> None:
        self._body = body
        self._log = log
        self._document = document
        self._path = PurePosixPath(document.name)

    @property
    def path(self) -> str:
        """The whole name of the document."""
        return self._document.name

    @property
    def name(self) -> str:
        """The last part of the name, as `Path.name`."""
        return self._path.name

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The suffix with its dot, or ""."""
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes."""
        return self._path.suffixes

    @property
    def parent(self) -> PurePosixPath:
        """The folder, as a path without a file system."""
        return self._path.parent

    @property
    def parents(self) -> Sequence[PurePosixPath]:
        """The folders above, the nearest first."""
        return self._path.parents

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the name."""
        return self._path.parts

    @property
    def kind(self) -> str:
        """The kind of the document."""
        return self._document.kind

    @property
    def size(self) -> int:
        """The number of characters."""
        return self._document.end - self._document.start

    @property
    def start(self) -> int:
        """Where it begins in the body."""
        return self._document.start

    @property
    def end(self) -> int:
        """Where it ends in the body."""
        return self._document.end

    @property
    def span(self) -> Span:
        """Its place in the body."""
        return Span(self._document.start, self._document.end)

    def open(self, mode: str = "r", *_: Any, **__: Any) -> OpenDocument:
        """Open it for reading as text. Encoding and line ends are as they are. Raises ValueError for another
        mode."""
        if mode not in ("r", "rt", "tr"):
            raise ValueError(
                f"mode {mode!r}: documents can only be read, as text: open() or open('r'). New data belongs "
                "in variables"
            )
        return OpenDocument(self._body, self._log, self._document)

    def read_text(self, *_: Any, **__: Any) -> Text:
        """Return the whole text. Raises ValueError for more than 20,000,000 characters."""
        if self.size > MAX_TEXT:
            raise too_large(self.path, self.size)
        return self.open().read()

    def read_bytes(self) -> bytes:
        """Return the whole text in UTF-8. Raises ValueError for more than 20,000,000 characters."""
        return self.read_text().encode()

    def stat(self) -> os.stat_result:
        """Return a status with `st_size`, the bytes of the text in UTF-8. All else is 0."""
        size = self._body.byte_of(self._document.end) - self._body.byte_of(self._document.start)
        return os.stat_result((0o100444, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self) -> bool:
        """Return True."""
        return True

    def is_file(self) -> bool:
        """Return True."""
        return True

    def is_dir(self) -> bool:
        """Return False."""
        return False

    def match(self, pattern: str) -> bool:
        """Return whether the name ends as `pattern` says, as `PurePath.match`."""
        return self._path.match(pattern)

    def relative_to(self, *other: Any) -> PurePosixPath:
        """Return the name below a folder."""
        return self._path.relative_to(*other)

    def as_posix(self) -> str:
        """Return the whole name."""
        return self.path

    def __iter__(self) -> Iterator[Text]:
        return iter(self.open())

    def __str__(self) -> str:
        return self.path

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"File({self.path!r}, size={self.size:,})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, File):
            return self._document == other._document
        return str(other) == self.path if isinstance(other, (str, PurePosixPath)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._path)

    def __lt__(self, other: File) -> bool:
        return self._path < other._path

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.path,)


class Files(Sequence[File]):
    """The documents as files, in their order. `glob` and `rglob` are those of the folder that holds them."""

    __slots__ = ("_body", "_documents", "_log")

    def __init__(self, body: Body, log: AccessLog, documents: Sequence[Document]) -> None:
        self._body = body
        self._log = log
        self._documents = documents

    def glob(self, pattern: str) -> Files:
        """Return the files whose whole name fits a pattern, as `Path.glob`: `*.py` are those on top, and
        `**/*.py` all."""
        if not isinstance(pattern, str) or not pattern:
            raise TypeError("pattern must be a str like '**/*.py'")
        found = [one for one in self._documents if matches(pattern, one.name)]
        if not found and "**" not in pattern:
            below = sum(matches(f"**/{pattern}", one.name) for one in self._documents)
            if below:
                sys.stderr.write(
                    f"glob({pattern!r}) fits no document on top, and {below:,} below: glob('**/{pattern}')\n"
                )
        return Files(self._body, self._log, found)

    def rglob(self, pattern: str) -> Files:
        """Return the files at any depth that fit a pattern."""
        if not isinstance(pattern, str) or not pattern:
            raise TypeError("pattern must be a str like '*.py'")
        return self.glob(f"**/{pattern}")

    def __len__(self) -> int:
        return len(self._documents)

    @overload
    def __getitem__(self, at: int | str) -> File: ...
    @overload
    def __getitem__(self, at: slice) -> Files: ...
    def __getitem__(self, at: int | str | slice) -> File | Files:
        if isinstance(at, slice):
            return Files(self._body, self._log, self._documents[at])
        if isinstance(at, str):
            return self._named(at)
        return File(self._body, self._log, self._documents[at])

    def _named(self, name: str) -> File:
        documents = self._documents
        found = [one for one in documents if one.name == name] or [
            one for one in documents if one.name.endswith(f"/{name}")
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found) or 'no'} documents are named {name[:80]!r}: files() lists them")
        return File(self._body, self._log, found[0])

    def __contains__(self, one: object) -> bool:
        if isinstance(one, (str, PurePosixPath)):
            return any(document.name == str(one) for document in self._documents)
        return isinstance(one, File) and one._document in self._documents

    def __repr__(self) -> str:
        shown = [f"  {self[at]!r}" for at in range(min(len(self), _SHOWN))]
        if len(self) > len(shown):
            shown.append(f"  … and {len(self) - len(shown):,} more")
        return "\n".join([f"{len(self):,} file{'' if len(self) == 1 else 's'}", *shown])
