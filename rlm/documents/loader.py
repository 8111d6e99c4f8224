"""Sources in, one context file out: every text is streamed through, none is held."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rlm.documents.blocks import BLOCK, blocks, opened
from rlm.documents.encoding import HEAD, Decoder, looks_binary
from rlm.documents.folder import files_of
from rlm.documents.kind import kind_of
from rlm.documents.source import PathSource, Source, StreamSource, TextSource
from rlm.errors import DocumentError
from sandbox.context_file import ContextFile, ContextFileWriter

__all__ = ["Guessed", "Loaded", "Progress", "Skipped", "load"]

_EMPTY = "empty"
_TWICE = "given twice"

Progress = Callable[[str, int], None]
"""Takes the name of what is being read, and the bytes read so far, of all documents. It is called on the
reading thread for each file looked at, after each block (1 MiB at most), and every 0.1 s of waiting for a
pipe. What it raises ends the loading and comes out of it: let that be an exception of your own."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Guessed:
    """A document that is no UTF-8 and does not say what it is; `encoding` is what it most likely is in, by
    Python's name for it."""

    document: str
    encoding: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A finished context. `skipped` lists what was left out of folders and globs; `replaced` counts the
    U+FFFD marks that stand for what could not be decoded; `guessed` lists what was decoded on a guess."""

    context: ContextFile
    skipped: tuple[Skipped, ...] = ()
    replaced: int = 0
    guessed: tuple[Guessed, ...] = ()


def load(
    sources: Sequence[Source | Path | str | bytes], folder: Path, progress: Progress | None = None
) -> Loaded:
    """Write the texts of `sources`, in order, into a new context folder. A bare Path is a path, a bare str
    or bytes is a text; no sources at all make an empty context.

    A document is named by its file's name, or its path below the folder that was given (begun with that
    folder's name when there are several sources); a name that is taken gets a number. What can't be read of
    a folder (binary, empty, unreadable files) is skipped and listed; a file or stream given by name that
    can't be read is a DocumentError of one line, as is a source with nothing in it. A file that a folder
    holds under several names (links) is read once. Nothing stays in `folder` after an error, or when
    `progress` ends the loading. A disk that fills up is a ContextFileError.
    """
    wanted = [_source_of(source) for source in sources]
    with ContextFileWriter(folder) as writer:
        loading = _Loading(writer, progress, several=len(wanted) > 1)
        for source in wanted:
            loading.add(source)
        loading.check(wanted)
        context = writer.finish()
    return Loaded(
        context, tuple(loading.skipped), context.replaced + loading.replaced, tuple(loading.guessed)
    )


def _source_of(source: Source | Path | str | bytes) -> Source:
    if isinstance(source, Path):
        return PathSource(source)
    if isinstance(source, str | bytes):
        return TextSource("text", source)
    return source


class _Unfit(Exception):
    """Why one file is left out, and what helps if it was named."""

    def __init__(self, reason: str, remedy: str = "name a file that holds text") -> None:
        super().__init__(reason)
        self.remedy = remedy


class _Loading:
    """One run of `load`: the names given out, what was skipped, how much was read."""

    def __init__(self, writer: ContextFileWriter, progress: Progress | None, *, several: bool) -> None:
        self.skipped: list[Skipped] = []
        self.guessed: list[Guessed] = []
        self.replaced = 0
        self._writer = writer
        self._progress = progress
        self._several = several
        self._name = ""
        self._names: set[str] = set()
        self._seen: set[Path] = set()
        self._bytes = 0
        self._documents = 0

    def add(self, source: Source) -> None:
        match source:
            case PathSource(path, exclude):
                self._add_path(path, exclude)
            case TextSource(name, text, kind):
                self._add_text(name, text, kind)
            case StreamSource(name, stream):
                self._add_stream(name, stream)

    def check(self, sources: Sequence[Source]) -> None:
        """DocumentError unless there is something to read, or nothing was asked for."""
        if sources and not self._documents:
            why = f": skipped {_words(self.skipped)}" if self.skipped else ""
            raise DocumentError(f"there is nothing to read{why}: name files that hold text")

    def _add_path(self, path: Path, exclude: Sequence[str]) -> None:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            broken = " is a broken link" if path.is_symlink() else " does not exist"
            raise DocumentError(f"{path}{broken}: check the path and the folder you are in") from None
        except OSError as error:
            raise _unreadable(path, error) from error
        if stat.S_ISDIR(mode):
            self._add_folder(path, exclude)
        elif stat.S_ISFIFO(mode):
            try:
                stream = opened(path)
            except OSError as error:
                raise _unreadable(path, error) from error
            with stream:
                self._add_stream(path.name, stream)
        elif not stat.S_ISREG(mode):
            raise DocumentError(
                f"{path} is not a file but a device or socket: name a file, a folder or a pipe"
            )
        else:
            try:
                self._add_file(path, path.name)
            except _Unfit as unfit:
                # One empty file among many (a glob's) is not worth an end; alone it is.
                if not self._several or str(unfit) not in (_EMPTY, _TWICE):
                    raise DocumentError(f"{path} is {unfit}: {unfit.remedy}") from None
                self.skipped.append(Skipped(str(path), str(unfit)))

    def _add_folder(self, folder: Path, exclude: Sequence[str]) -> None:
        before, skipped, twice = self._documents, len(self.skipped), False
        prefix = f"{folder.resolve().name}/" if self._several else ""
        for found in files_of(folder, exclude, self._tick):
            try:
                if found.unfit is not None:
                    raise _Unfit(found.unfit)
                self._add_file(found.path, prefix + found.name)
            except _Unfit as unfit:
                if str(unfit) == _TWICE:
                    twice = True  # a link beside its file: nothing of the folder is missing
                else:
                    self.skipped.append(Skipped(str(found.path), str(unfit)))
        if self._documents == before:
            if twice:
                self.skipped.append(Skipped(str(folder), _TWICE))
                return
            left_out = self.skipped[skipped:]
            why = f"nothing in it could be read ({_words(left_out)})" if left_out else "it is empty"
            raise DocumentError(f"{folder} holds no text: {why}: name a folder or file that does")

    def _add_file(self, path: Path, name: str) -> None:
        """Stream one regular file in. Raises _Unfit before anything of it is written."""
        real = path.resolve()
        if real in self._seen:
            raise _Unfit(_TWICE)
        try:
            stream = opened(path)
        except FileNotFoundError:
            raise _Unfit("gone since the folder was listed") from None
        except OSError as error:
            raise _Unfit(f"unreadable ({error.strerror})", "check its permissions") from None
        with stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise _Unfit("no regular file any more")
            self._name = name
            rest = blocks(stream, path, self._tick)
            first = next(rest, b"")
            if not first:
                raise _Unfit(_EMPTY)
            if looks_binary(first[:HEAD]):
                raise _Unfit("binary")
            self._seen.add(real)
            self._write(name, kind_of(name), first, _unchanged(rest, stream, before, path))

    def _add_stream(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        rest = blocks(stream, name, self._tick)
        first = next(rest, b"")
        if not first:
            raise DocumentError(f"{name} is empty: pipe a text into it, or name a file")
        if looks_binary(first[:HEAD]):
            raise DocumentError(f"{name} is binary: pipe a text into it, or name a file that holds text")
        self._write(name, kind_of(name), first, rest)

    def _add_text(self, name: str, text: str | bytes, kind: str) -> None:
        if not text:
            raise DocumentError(f"{name} is empty: give a text, or no source at all")
        if isinstance(text, bytes):
            if looks_binary(text[:HEAD]):
                raise DocumentError(f"{name} is binary: give a text")
            pieces = (text[at : at + BLOCK] for at in range(0, len(text), BLOCK))
            self._write(name, kind, next(pieces), pieces)
            return
        self._begin(name, kind)
        for at in range(0, len(text), BLOCK):
            piece = text[at : at + BLOCK]
            self._writer.write(piece)
            self._count(len(piece))
        self._end()

    def _write(self, name: str, kind: str, first: bytes, rest: Iterator[bytes]) -> None:
        self._begin(name, kind)
        decoder = Decoder()
        for block in itertools.chain((first,), rest):
            self._writer.write(decoder.feed(block))
            self._count(len(block))
        self._writer.write(decoder.finish())
        self.replaced += decoder.replaced
        if decoder.guessed is not None:
            self.guessed.append(Guessed(self._name, decoder.guessed))
        self._end()

    def _begin(self, name: str, kind: str) -> None:
        self._name = self._free(os.fsencode(name).decode("utf-8", "replace"))
        self._names.add(self._name)
        self._writer.begin_document(self._name, kind)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._tick()

    def _end(self) -> None:
        self._writer.end_document()
        self._documents += 1

    def _tick(self) -> None:
        if self._progress is not None:
            self._progress(self._name, self._bytes)

    def _free(self, name: str) -> str:
        if name not in self._names:
            return name
        number = 2
        while f"{name} ({number})" in self._names:
            number += 1
        return f"{name} ({number})"


def _words(skipped: Sequence[Skipped]) -> str:
    """`3 binary, 1 empty`."""
    reasons: dict[str, int] = {}
    for one in skipped:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _unreadable(path: Path, error: OSError) -> DocumentError:
    return DocumentError(
        f"{path} can't be read: {error.strerror}: check its permissions or name another file"
    )


def _unchanged(
    rest: Iterator[bytes], stream: BinaryIO, before: os.stat_result, path: Path
) -> Iterator[bytes]:
    """The blocks of a file, DocumentError as soon as it is not what it was: one that grows as fast as it is
    read would never end."""
    while True:
        block = next(rest, b"")
        now = os.fstat(stream.fileno())
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise DocumentError(f"{path} changed while it was read: try again when nothing writes to it")
        if not block:
            return
        yield block
