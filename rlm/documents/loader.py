"""Loads sources into one context. Every text is streamed."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from rlm.documents.blocks import BLOCK, blocks, blocks_unless_changed, open_file, unreadable
from rlm.documents.cache import ContextCache
from rlm.documents.folder import files_of, patterns_of
from rlm.documents.formats.containers.members import Members, Outer, safe_name
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.piece import Member, Note, Unreadable
from rlm.documents.formats.registry import format_of
from rlm.documents.in_place import is_plain, open_plain
from rlm.documents.kind import has_unread_log, readable_kind, reader_faults
from rlm.documents.loaded import Loaded, Skip, Skipped, SkipReason, UniqueNames, count_reasons, shortest_names
from rlm.documents.pictures import Originals
from rlm.documents.rendering import Account, Given, Rendered, Rendering
from rlm.documents.sources.fetched import Fetched
from rlm.documents.sources.frame import FrameSource
from rlm.documents.sources.remote import Fetching
from rlm.documents.sources.source import PathSource, Source, StreamSource, TextSource, as_source
from rlm.documents.time_limit import TimeLimit, TimeOver
from rlm.errors import DocumentError
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.errors import ContextFileError

__all__ = ["Progress", "load"]

_LISTING_GRACE_SECONDS = 1.0

_UNREAD_LOG = (
    "changes that are only in its -wal file were not read: "
    "run `sqlite3 FILE 'pragma wal_checkpoint(truncate)'` where it is in use"
)

Progress = Callable[[str, int], None]
"""Gets the name of the current document, and the number of bytes read so far from all documents.

It is called on the reading thread: for each file, after each block (at most 1 MiB), and every 0.1 s while a
pipe is waited for. To stop the loading, raise an exception; `load` passes it on."""


def load(
    sources: Sequence[Source | Path | str | bytes],
    folder: Path,
    progress: Progress | None = None,
    cache: ContextCache | None = None,
    seconds: float | None = None,
    *,
    pictures: bool = False,
) -> Loaded:
    """Write the texts of `sources`, in order, into a new context folder. A Path names a file or a folder. A
    str or bytes is a text. Without sources, the context is empty.

    The name of a document is its file name, or its path below the given folder. With several sources, this
    path begins with the name of the folder. Where files or folders have the same name, those above them are
    named too (`shortest_names`). A name that is still taken, as of a text, gets a number.

    Binary, empty and unreadable files of a folder are skipped and listed. So is a broken document (PDF,
    DOCX, EPUB, HTML) among several sources. A file with several names in a folder (links) is read once.
    Raises DocumentError (one line) for a named file or stream that cannot be read, and for a source without
    text. Raises ContextFileError if the disk is full. After an error, `folder` is empty.

    After `seconds`, what is not read yet is skipped and listed, and the document that is being read ends
    where it is. Raises DocumentError if nothing was read by then.

    With `pictures`, a model can look at pages: picture files are documents, pages without text are pages, and
    the files of both are kept beside the body (`Originals`).

    A single large UTF-8 file is read in place: the context then holds its index, and not its text.

    With a `cache`, the context may be in the cache instead of in `folder`. Close its lease when it is no
    longer needed. A cache that cannot be used is ignored.
    """
    given = [as_source(source) for source in sources]
    limit = TimeLimit(seconds)

    def tick() -> None:
        if progress is not None:
            progress("", 0)

    pictures = pictures and not is_plain(given)
    key = cache.key(given, tick, pictures=pictures) if cache is not None else None
    if cache is None or key is None:
        return _load(given, folder, progress, limit, pictures=pictures)
    found = cache.find(key)
    if found is not None:
        return found
    lease = cache.begin()
    if lease is None:
        return _load(given, folder, progress, limit, pictures=pictures)
    with ExitStack() as stack:
        stack.callback(lease.close)
        try:
            loaded = _load(given, lease.folder, progress, limit, pictures=pictures)
        except ContextFileError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # The disk of the cache is full. The run's own folder may be on another disk.
            return _load(given, folder, progress, limit, pictures=pictures)
        stack.pop_all()
    # A source changed while it was read, or was not read in time. Do not share this context.
    if limit.is_over or cache.key(given, tick, pictures=pictures) != key:
        return replace(loaded, lease=lease)
    return cache.keep(key, loaded, lease)


def _load(
    sources: Sequence[Source], folder: Path, progress: Progress | None, limit: TimeLimit, *, pictures: bool
) -> Loaded:
    with open_plain(sources) as plain:
        if plain is not None and (loaded := plain.load(folder, progress, limit)) is not None:
            return loaded
    limit = limit.renewed()
    originals = Originals(folder) if pictures else None
    with (
        ContextFileWriter(folder) as writer,
        ExitStack() as undo,
        Converter(pictures=pictures) as converter,
    ):
        if originals is not None:
            undo.callback(originals.remove)
        loading = _Loading(writer, converter, folder, progress, limit, originals, sources)
        for source in sources:
            loading.add(source)
        loading.check_not_empty(sources)
        context = writer.finish()
        undo.pop_all()
        return loading.account.loaded(context, converter.warning)


class _Loading:
    """The state of one `load`: the names used, the files skipped, and the bytes read."""

    def __init__(
        self,
        writer: ContextFileWriter,
        converter: Converter,
        folder: Path,
        progress: Progress | None,
        limit: TimeLimit,
        originals: Originals | None,
        sources: Sequence[Source],
    ) -> None:
        self._limit = limit
        self._folder = folder
        self._is_begun = False
        self._exclude: tuple[str, ...] = (".git/",)
        self._originals = originals
        keep = None if originals is None else self._keep
        self._rendering = Rendering(writer, converter, self._begin, self._tick, folder, keep)
        self.account = Account()
        self._has_told_faults = False
        self._writer = writer
        self._progress = progress
        self._has_several = len(sources) > 1
        self._path_names = shortest_names([one.path for one in sources if isinstance(one, PathSource)])
        self._name = ""
        self._names = UniqueNames()
        self._seen: set[Path] = set()
        self._bytes = self._documents = 0

    def add(self, source: Source) -> None:
        try:
            match source:
                case PathSource(path, exclude):
                    self._add_path(path, exclude)
                case TextSource(name, text, kind):
                    self._add_text(name, text, kind)
                case StreamSource(name, stream):
                    self._add_stream(name, stream)
                case FrameSource(name):
                    self._write_named(name, "csv", source.lines(), search_chats=False)
                case remote:
                    self._name = remote.name
                    fetching = Fetching(self._folder, self._tick, self._detect_kind, self._add_fetched)
                    fetching.add(remote, self.account.skipped, has_several=self._has_several)
        except TimeOver:
            # Not one byte of it was written. A folder may hold more files than were listed.
            name = str(source.path) if isinstance(source, PathSource) else source.name
            self.account.skipped.append(Skipped(name, self._limit.reason, self._limit.remedy))

    def check_not_empty(self, sources: Sequence[Source]) -> None:
        """Raise DocumentError if there are sources but no document was read."""
        if sources and not self._documents:
            skipped = self.account.skipped
            reason = f": skipped {count_reasons(skipped)}" if skipped else ""
            remedy = next((one.remedy for one in skipped if one.remedy), "name files that hold text")
            raise DocumentError(f"there is nothing to read{reason}: {remedy}")

    def _add_path(self, path: Path, exclude: Sequence[str]) -> None:
        self._exclude = (".git/", *exclude)
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            broken = " is a broken link" if path.is_symlink() else " does not exist"
            raise DocumentError(f"{path}{broken}: check the path and the folder you are in") from None
        except OSError as error:
            raise unreadable(path, error) from error
        if stat.S_ISDIR(mode):
            self._add_folder(path, exclude)
        elif stat.S_ISFIFO(mode):
            try:
                stream = open_file(path)
            except OSError as error:
                raise unreadable(path, error) from error
            with stream:
                self._add_stream(path.name, stream)
        elif not stat.S_ISREG(mode):
            raise DocumentError(
                f"{path} is not a file but a device or socket: name a file, a folder or a pipe"
            )
        else:
            try:
                self._add_file(path, self._path_names[path])
            except Skip as skip:
                # An empty or broken file among several (from a glob) is skipped. Alone it is an error.
                if not self._has_several or skip.reason is SkipReason.NOT_TEXT:
                    raise DocumentError(f"{path} is {skip}: {skip.remedy}") from None
                self.account.skipped.append(skip.to_skipped(str(path), self._path_names[path]))

    def _add_folder(self, folder: Path, exclude: Sequence[str]) -> None:
        documents_before, skipped_before = self._documents, len(self.account.skipped)
        repeated: Skip | None = None
        prefix = f"{self._path_names[folder].rstrip('/')}/" if self._has_several else ""
        for found in files_of(folder, exclude, self._list_tick):
            try:
                if found.skip_reason is not None:
                    raise Skip(found.skip_reason)
                self._add_file(found.path, prefix + found.name)
            except Skip as skip:
                if skip.reason is SkipReason.REPEATED:
                    repeated = skip  # a link to a file that was read: no text is missing
                else:
                    self.account.skipped.append(skip.to_skipped(str(found.path), prefix + found.name))
        if self._documents == documents_before:
            if repeated is not None:
                self.account.skipped.append(repeated.to_skipped(str(folder)))
                return
            left_out = self.account.skipped[skipped_before:]
            if self._has_several and any(one.remedy for one in left_out):
                return  # the folder has only broken documents, but other sources may hold text
            reason = f"nothing in it could be read ({count_reasons(left_out)})" if left_out else "it is empty"
            raise DocumentError(f"{folder} holds no text: {reason}: name a folder or file that does")

    def _add_file(self, path: Path, name: str) -> None:
        """Write one regular file. Raises Skip before any of it is written."""
        if self._limit.is_over:
            raise self._late()
        real = path.resolve()
        if real in self._seen:
            raise Skip("given twice", reason=SkipReason.REPEATED)
        try:
            stream = open_file(path)
        except FileNotFoundError:
            raise Skip("gone since the folder was listed") from None
        except OSError as error:
            raise Skip(f"unreadable ({error.strerror})", "check its permissions") from None
        with stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise Skip("no longer a regular file")
            self._name = name
            rest = blocks(stream, path, self._tick)
            try:
                first = next(rest, b"")
            except TimeOver:
                raise self._late() from None
            if not first:
                raise Skip("empty", reason=SkipReason.EMPTY)
            kind = self._detect_kind(name, first, path)
            self._seen.add(real)
            given = blocks_unless_changed(rest, stream, before, path)
            try:
                self._write(name, kind, itertools.chain((first,), given), stream)
            except Unreadable as unreadable:
                raise _broken(unreadable) from None
            except TimeOver:
                raise self._late() from None
            if format_of(kind).is_converted and not self._limit.is_over:
                next(given, b"")  # check that the file did not change

    def _add_fetched(self, fetched: Fetched) -> None:
        """Write one file from elsewhere. Raises Skip before any of it is written."""
        name, file = fetched.name, fetched.file
        given = blocks(file, name, self._tick)
        try:
            first = next(given, b"")
            kind = self._detect_kind(fetched.kind_name, first)
            self._write(name, kind, itertools.chain((first,), given), file)
        except Unreadable as unreadable:
            raise _broken(unreadable) from None
        except TimeOver:
            raise self._late() from None

    def _add_stream(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        rest = blocks(stream, name, self._tick)
        first = next(rest, b"")
        if not first:
            raise DocumentError(f"{name} is empty: pipe a text into it, or name a file")
        try:
            kind = self._detect_kind(name, first)
        except Skip as skip:
            wants = "pipe a text into it, or name a file that holds text"
            raise DocumentError(f"{name} is {skip}: {skip.told_remedy or wants}") from None
        self._write_named(name, kind, itertools.chain((first,), rest), search_chats=True)

    def _add_text(self, name: str, text: str | bytes, kind: str) -> None:
        if not text:
            raise DocumentError(f"{name} is empty: give a text, or no source at all")
        if isinstance(text, bytes):
            try:
                found = self._detect_kind(name, text)
            except Skip as skip:
                raise DocumentError(f"{name} is {skip}: give a text") from None
            if kind == "text" and (format_of(found).is_binary or format_of(found).magic_beats_text):
                kind = found
        pieces = (text[at : at + BLOCK] for at in range(0, len(text), BLOCK))
        self._write_named(name, kind, pieces, search_chats=kind in ("json", "jsonl"))

    def _write_named(self, name: str, kind: str, given: Given, *, search_chats: bool) -> None:
        """Write a text or stream. Raises DocumentError."""
        try:
            self._write(name, kind, given, None, search_chats=search_chats)
        except (Skip, Unreadable) as refusal:
            if not self._has_several:
                raise DocumentError(f"{name} is {refusal}: {refusal.remedy}") from None
            self.account.skipped.append(Skipped(name, str(refusal), refusal.remedy))

    def _write(
        self,
        name: str,
        kind: str,
        given: Given,
        file: BinaryIO | None,
        *,
        search_chats: bool | None = None,
        outer: Outer | None = None,
    ) -> None:
        """Write one document, and those that are in its file. Raises Unreadable or Skip before anything is
        written."""
        self._start(name)
        row = format_of(kind)
        if search_chats is None:
            search_chats = kind in ("json", "jsonl")
        room = None if outer is None else outer.room
        try:
            rendered = self._rendering.render(
                kind, self._counted(given), file, search_chats=search_chats, outer=room
            )
        except TimeOver:
            if not self._is_begun:
                raise
            rendered = Rendered(notes=(Note(f"only its first part was read: {self._limit.remedy}"),))
        except Unreadable as cut:
            if not self._is_begun:
                raise
            rendered = Rendered(notes=(Note(cut.cut_note),))
        if row.is_converted and file is not None and rendered.members is None:
            self._count(os.fstat(file.fileno()).st_size)
        own, is_begun = self._name, self._is_begun
        self._end(rendered)
        if rendered.members is None:
            return
        with closing(rendered.members) as members:
            self._add_members(members, Outer(own, row, members.room, outer), is_begun=is_begun)
        if members.fault is not None:
            self.account.note(own, members.fault.cut_note)
        self.account.note_encoding(own, members.ended.replaced, members.ended.guessed)

    def _add_members(self, members: Members, outer: Outer, *, is_begun: bool) -> None:
        """Write the documents in a file. With `is_begun` the file itself is one. Raises Unreadable or Skip if
        there is nothing that can be read."""
        documents, skipped = self._documents, len(self.account.skipped)
        try:
            for member in members:
                self._add_member(member, members, outer)
        except TimeOver:
            if not is_begun and self._documents == documents:
                raise
            self.account.note(outer.name, f"only its first part was read: {self._limit.remedy}")
        if is_begun or self._documents > documents:
            return
        if members.fault is not None:
            raise members.fault
        left_out = self.account.skipped[skipped:]
        remedy, reasons = next((one.remedy for one in left_out if one.remedy), ""), count_reasons(left_out)
        raise Skip(
            f"{outer.row.article} in which nothing could be read ({reasons or 'it is empty'})",
            remedy or "name a file that holds text",
            SkipReason.BROKEN if remedy else SkipReason.NOT_TEXT,
        )

    def _add_member(self, member: Member, members: Members, outer: Outer) -> None:
        """Write one document of a file. What cannot be read is listed. Raises Unreadable or Skip if it is all
        that the file holds."""
        name = outer.name
        if member.name:
            inner = safe_name(member.name) or "unnamed"
            if patterns_of(self._exclude).match_file(inner):
                return
            name += f"/{inner}"
        self._start(name)
        try:
            if member.kind:
                self._end(self._rendering.render_member(member.kind, members))
                return
            notes: list[Note] = []
            data = members.data(BLOCK, notes)
            first = next(data, b"")
            if not first:
                raise Skip("empty", reason=SkipReason.EMPTY)
            kind = self._detect_kind(name if member.name else outer.without_packing(name), first)
            if format_of(kind).is_converted:
                outer.check_depth(format_of(kind))
            self._write(name, kind, itertools.chain((first,), data), None, outer=outer)
            self.account.note_all(name, notes)
        except (Skip, Unreadable) as refusal:
            if not member.name:
                raise
            skip = refusal if isinstance(refusal, Skip) else _broken(refusal)
            self.account.skipped.append(skip.to_skipped(name, name))

    def _start(self, name: str) -> None:
        self._name = os.fsencode(name).decode("utf-8", "replace")
        self._is_begun = False

    def _end(self, rendered: Rendered) -> None:
        """End the document that was rendered. Its file may have no text of its own."""
        self.account.note_encoding(self._name, rendered.replaced, rendered.guessed)
        self.account.note_all(self._name, rendered.notes)
        if self._is_begun:
            self._writer.end_document()
            self._documents += 1

    def _keep(self, file: BinaryIO) -> None:
        assert self._originals is not None
        try:
            self._writer.note_original(self._originals.keep(self._documents, file))
        except OSError as error:
            raise ContextFileError(f"cannot keep the file of {self._name}: {error.strerror}") from error

    def _late(self) -> Skip:
        return Skip(self._limit.reason, self._limit.remedy, SkipReason.BROKEN)

    def _begin(self, kind: str) -> None:
        self._is_begun = True
        self._name = self._names.add(self._name)
        self._writer.begin_document(self._name, kind, headings_indexed=format_of(kind).headings_indexed)

    def _counted(self, given: Given) -> Given:
        for block in given:
            yield block
            self._count(len(block))

    def _count(self, size: int) -> None:
        self._bytes += size
        self._tick()

    def _list_tick(self) -> None:
        # Each file that is not read in time is named, but not for ever.
        self._tick(_LISTING_GRACE_SECONDS)

    def _tick(self, grace: float = 0.0) -> None:
        if self._progress is not None:
            self._progress(self._name, self._bytes)
        self._limit.check(grace)

    def _detect_kind(self, name: str, first: bytes, path: Path | None = None) -> str:
        kind = readable_kind(name, first, pictures=self._originals is not None)
        if kind == "sqlite" and has_unread_log(first, path):
            # Nobody knows whether a database from elsewhere has a log.
            self.account.note_all(name, [Note(_UNREAD_LOG, is_remark=path is None)])
        if kind == "text" and not self._has_told_faults and (faults := reader_faults(name)):
            self._has_told_faults = True
            self.account.note(name, *(f"it was read as text, because {fault}" for fault in faults))
        return kind


def _broken(unreadable: Unreadable) -> Skip:
    return Skip(str(unreadable), unreadable.remedy, SkipReason.BROKEN)
