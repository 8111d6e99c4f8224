"""Loads sources into one context. Every text is streamed."""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from rlm.documents.blocks import BLOCK, Deadline, TimeOver, blocks, file_blocks, open_file, unreadable
from rlm.documents.cache import ContextCache
from rlm.documents.folder import files_of, patterns_of
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.members import Members, Nesting, safe_name
from rlm.documents.formats.piece import Heading, Member, NotRead, Page, Problem, Text
from rlm.documents.formats.registry import format_of
from rlm.documents.in_place import is_plain, open_plain
from rlm.documents.kind import readable_kind, reader_faults
from rlm.documents.loaded import Loaded, UniqueNames, count_reasons, shortest_names
from rlm.documents.message import NO_NAMES, slack_names
from rlm.documents.pictures import Originals
from rlm.documents.rendering import Blocks, write_text
from rlm.documents.sources.frame import FrameSource
from rlm.documents.sources.source import (
    CloudSource,
    Fetched,
    GitSource,
    PathSource,
    Source,
    StreamSource,
    TextSource,
    UrlSource,
    as_source,
)
from rlm.errors import DocumentError
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.errors import ContextFileError

__all__ = ["Progress", "load"]

_LISTING_GRACE_SECONDS = 1.0
_MOST_USERS = 16 << 20
"""Bytes of the list of users of a chat."""
_TWICE = "given twice"
_UNREAD_LOG = "changes that are only in its -wal file were not read"
_CHECKPOINT = "run `sqlite3 FILE 'pragma wal_checkpoint(truncate)'` where it is in use"

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

    What cannot be read of a folder, or of one among several sources, is a problem of the result. A file with
    several names in a folder (links) is read once. Raises DocumentError (one line) for a named file or stream
    that is no document, or the only source and cannot be read. Raises ContextFileError if the disk is full.
    After an error, `folder` is empty.

    After `seconds`, what is not read yet is skipped and listed, and the document that is being read ends
    where it is. Raises DocumentError if nothing was read by then.

    With `pictures`, a model can look at pages: picture files are documents, pages without text are pages, and
    the files of both are kept beside the body (`Originals`).

    A single large UTF-8 file is read in place: the context then holds its index, and not its text.

    With a `cache`, the context may be in the cache instead of in `folder`. Close its lease when it is no
    longer needed. A cache that cannot be used is ignored.
    """
    given = [as_source(source) for source in sources]
    deadline = Deadline(seconds)

    def tick() -> None:
        if progress is not None:
            progress("", 0)

    pictures = pictures and not is_plain(given)
    key = cache.key(given, tick, pictures=pictures) if cache is not None else None
    found = cache.find(key) if cache is not None and key is not None else None
    if found is not None:
        return found
    lease = cache.begin() if cache is not None and key is not None else None
    if cache is None or key is None or lease is None:
        return _load(given, folder, progress, deadline, pictures=pictures)
    with ExitStack() as stack:
        stack.callback(lease.close)
        try:
            loaded = _load(given, lease.folder, progress, deadline, pictures=pictures)
        except ContextFileError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # The disk of the cache is full. The run's own folder may be on another disk.
            return _load(given, folder, progress, deadline, pictures=pictures)
        stack.pop_all()
    # A source changed while it was read, or was not read in time. Do not share this context.
    if deadline.is_over or cache.key(given, tick, pictures=pictures) != key:
        return replace(loaded, lease=lease)
    return cache.keep(key, loaded, lease)


def _load(
    sources: Sequence[Source], folder: Path, progress: Progress | None, deadline: Deadline, *, pictures: bool
) -> Loaded:
    with open_plain(sources) as plain:
        if plain is not None and (loaded := plain.load(folder, progress, deadline)) is not None:
            return loaded
    deadline = deadline.renewed()
    originals = Originals(folder) if pictures else None
    with (
        ContextFileWriter(folder) as writer,
        ExitStack() as undo,
        Converter(pictures=pictures) as converter,
    ):
        if originals is not None:
            undo.callback(originals.remove)
        loading = _Loading(writer, converter, folder, progress, deadline, originals, sources)
        for source in sources:
            loading.add(source)
        loading.check_not_empty(sources)
        context = writer.finish()
        undo.pop_all()
        if converter.warning:
            loading.problems.insert(0, Problem(converter.warning, kind="remark"))
        return Loaded(context, tuple(loading.problems), context.replaced + loading.replaced)


def _names_in(path: Path) -> Mapping[str, str]:
    """Return the names of the users of a Slack export, if the file is its list of them."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_USERS:
            return NO_NAMES
        return slack_names(path.read_bytes())
    except OSError:
        return NO_NAMES


_Item = tuple[str, Callable[[], None] | Problem]
"""The name of a document, and a function that reads it and may raise NotRead; or why it cannot be read."""


class _Loading:
    """The state of one `load`: the documents and problems so far, and the deadline."""

    def __init__(
        self,
        writer: ContextFileWriter,
        converter: Converter,
        folder: Path,
        progress: Progress | None,
        deadline: Deadline,
        originals: Originals | None,
        sources: Sequence[Source],
    ) -> None:
        self.problems: list[Problem] = []
        self.replaced = 0
        self._writer = writer
        self._converter = converter
        self._folder = folder
        self._progress = progress
        self._deadline = deadline
        self._originals = originals
        self._has_several = len(sources) > 1
        self._path_names = shortest_names([one.path for one in sources if isinstance(one, PathSource)])
        self._exclude: tuple[str, ...] = (".git/",)
        self._names = UniqueNames()
        self._seen: set[tuple[int, int]] = set()
        self._bytes = self._documents = 0
        self._user_names = NO_NAMES
        self._has_told_faults = False
        self._name = ""
        """Of the document that is read."""
        self._is_begun = False

    def add(self, source: Source) -> None:
        """Write the documents of a source. Raises DocumentError."""
        label = str(source.path) if isinstance(source, PathSource) else source.name
        is_folder = isinstance(source, CloudSource | GitSource) or (
            isinstance(source, PathSource) and source.path.is_dir()
        )
        self._exclude = (".git/", *getattr(source, "exclude", ()))
        documents, before, is_repeated = self._documents, len(self.problems), False
        self._name = name = label
        try:
            with closing(self._items(source)) as items:
                for name, item in items:
                    try:
                        if isinstance(item, Problem):
                            raise NotRead(item.what, item.remedy, item.kind)
                        item()
                    except NotRead as refusal:
                        if not is_folder:
                            raise
                        if refusal.problem.what == _TWICE:
                            is_repeated = True  # a link to a file that was read: no text is missing
                        else:
                            self._note(name, refusal.problem)
        except TimeOver:
            # Not one byte of it was written. A folder may hold more files than were listed.
            self._note(label, self._late().problem)
            return
        except NotRead as refusal:
            problem = refusal.problem
            if not self._has_several or problem.kind == "other":
                raise DocumentError(f"{label} is {problem.what}: {problem.remedy}") from None
            self._note(name, problem)
            return
        if not is_folder or self._documents > documents:
            return
        left_out = self.problems[before:]
        missing = [problem for problem in left_out if problem.kind == "missing"]
        if is_repeated or (self._has_several and missing):
            return  # other sources may hold text
        why = f"nothing in it could be read ({count_reasons(left_out)})" if left_out else "it is empty"
        remedy = missing[0].remedy if missing else "name a folder or file that does"
        raise DocumentError(f"{label} holds no text: {why}: {remedy}")

    def check_not_empty(self, sources: Sequence[Source]) -> None:
        """Raise DocumentError if there are sources but no document was read."""
        if sources and not self._documents:
            reason = f": skipped {count_reasons(self.problems)}" if self.problems else ""
            remedies = (problem.remedy for problem in self.problems if problem.kind == "missing")
            remedy = next(remedies, "name files that hold text")
            raise DocumentError(f"there is nothing to read{reason}: {remedy}")

    def _items(self, source: Source) -> Generator[_Item]:
        match source:
            case PathSource():
                yield from self._items_of_path(source)
            case TextSource(name, text, kind):
                yield name, partial(self._add_text, name, text, kind)
            case StreamSource(name, stream):
                yield name, partial(self._add_stream, name, stream)
            case FrameSource(name):
                lines = source.lines()
                yield (
                    name,
                    partial(self._write, name, "csv", lines, None, place="table"),
                )
            case _:
                for found in self._fetch(source):
                    if isinstance(found, Problem):
                        yield found.document, found
                    else:
                        with found.file:
                            yield found.name, partial(self._add_fetched, found)

    def _fetch(self, source: UrlSource | CloudSource | GitSource) -> Iterator[Fetched | Problem]:
        """Yield the files of a source elsewhere, or why one is left out. Each is spooled, to be read like a
        local one. The libraries are imported here: they are large."""
        match source:
            case UrlSource(url, allow_hosts):
                from rlm.documents.sources.address_rules import AddressRules
                from rlm.documents.sources.download import download

                rules = AddressRules.parse(allow_hosts)
                yield download(url, rules, self._folder, self._tick, self._detect_kind)
            case CloudSource(url, exclude):
                from rlm.documents.sources.cloud import read_cloud

                yield from read_cloud(url, exclude, self._folder, self._tick, self._detect_kind)
            case GitSource(path, revision):
                from rlm.documents.sources.git_repository import read_revision

                yield from read_revision(path, revision, self._folder, self._tick)

    def _items_of_path(self, source: PathSource) -> Generator[_Item]:
        path = source.path
        name = self._path_names[path]
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            broken = " is a broken link" if path.is_symlink() else " does not exist"
            raise DocumentError(f"{path}{broken}: check the path and the folder you are in") from None
        except OSError as error:
            raise unreadable(path, error) from error
        if stat.S_ISDIR(mode):
            prefix = f"{name.rstrip('/')}/" if self._has_several else ""
            self._user_names = _names_in(path / "users.json")
            for found in files_of(path, source.exclude, self._list_tick):
                inner = prefix + found.name
                yield inner, found.problem or partial(self._add_file, found.path, inner)
        elif stat.S_ISFIFO(mode):
            try:
                stream = open_file(path)
            except OSError as error:
                raise unreadable(path, error) from error
            with stream:
                yield path.name, partial(self._add_stream, path.name, stream)
        elif not stat.S_ISREG(mode):
            raise DocumentError(
                f"{path} is not a file but a device or socket: name a file, a folder or a pipe"
            )
        else:
            yield name, partial(self._add_file, path, name)

    def _add_file(self, path: str | Path, name: str) -> None:
        """Write one regular file. Raises NotRead before any of it is written."""
        if self._deadline.is_over:
            raise self._late()
        try:
            stream = open_file(path)
        except FileNotFoundError:
            raise NotRead("gone since the folder was listed", kind="nothing") from None
        except OSError as error:
            raise NotRead(f"unreadable ({error.strerror})", "check its permissions", "other") from None
        with stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise NotRead("no longer a regular file", kind="nothing")
            identity = before.st_dev, before.st_ino
            if identity in self._seen:
                raise NotRead(_TWICE, kind="nothing")
            self._name = name
            given = file_blocks(stream, path, before, self._tick)
            self._add_blocks(name, given, file=stream, path=path)
            self._seen.add(identity)
            if not self._deadline.is_over:
                next(given, b"")  # check that the file did not change

    def _add_fetched(self, fetched: Fetched) -> None:
        given = blocks(fetched.file, fetched.name, self._tick)
        self._add_blocks(fetched.name, given, file=fetched.file, hint=fetched.kind_name)

    def _add_stream(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        given = blocks(stream, name, self._tick)
        self._add_blocks(name, given, empty="pipe a text into it, or name a file")

    def _add_text(self, name: str, text: str | bytes, kind: str) -> None:
        pieces = (text[at : at + BLOCK] for at in range(0, len(text), BLOCK))
        if isinstance(text, bytes) and text:
            row = format_of(self._detect_kind(name, text))
            if kind == "text" and (row.is_binary or row.magic_beats_text):
                kind = row.kind
        elif not text:
            raise NotRead("empty", "give a text, or no source at all", "nothing")
        self._write(name, kind, pieces, None)

    def _add_blocks(
        self,
        name: str,
        given: Blocks,
        *,
        file: BinaryIO | None = None,
        hint: str = "",
        path: str | Path | None = None,
        empty: str = "name a file that holds text",
        nesting: Nesting | None = None,
    ) -> None:
        """Write a document whose kind its name, or `hint`, and its first block tell. Raises NotRead before
        any of it is written."""
        try:
            first = next(given, b"")
            if not first:
                raise NotRead("empty", empty, "nothing")
            assert isinstance(first, bytes)
            kind = self._detect_kind(hint or name, first, path)
            if nesting is not None and format_of(kind).is_converted:
                nesting.check_depth(format_of(kind))
            self._write(
                name,
                kind,
                itertools.chain((first,), given),
                file,
                nesting=nesting,
            )
        except TimeOver:
            raise self._late() from None

    def _write(
        self,
        name: str,
        kind: str,
        given: Blocks,
        file: BinaryIO | None,
        *,
        nesting: Nesting | None = None,
        place: str = "",
    ) -> None:
        """Write one document, and those that are in its file. Raises NotRead or TimeOver before anything is
        written."""
        self._start(name)
        if format_of(kind).is_converted:
            self._convert(kind, given, file, nesting)
            return
        begin = partial(self._begin, place=place)
        try:
            decoder, fault = write_text(kind, self._counted(given), self._writer, begin, self._user_names)
        except (TimeOver, NotRead) as stop:
            if not self._is_begun:
                raise
            self._note_cut(self._name, stop)
        else:
            if fault:
                self._note(self._name, Problem(fault))
            self._note_encoding(self._name, decoder.replaced, decoder.guessed or "")
        self._end()

    def _convert(self, kind: str, given: Blocks, file: BinaryIO | None, parent: Nesting | None) -> None:
        """Write a document that the worker reads, and those that are in its file."""
        with ExitStack() as stack:
            if file is None:
                file = stack.enter_context(tempfile.TemporaryFile(dir=self._folder))
                for block in self._counted(given):
                    file.write(block.encode("utf-8", "replace") if isinstance(block, str) else block)
                file.flush()
            row, size = format_of(kind), os.fstat(file.fileno()).st_size
            nesting = Nesting(row, size, parent)
            pieces = self._converter.pieces(file.fileno(), size, kind, self._tick, nesting)
            members = stack.enter_context(closing(Members(pieces, nesting)))
            name = self._name
            try:
                self._write_pieces(kind, members)
                if not self._is_begun and not members.has_next:
                    raise NotRead(f"{row.article} without {'any file' if row.is_container else 'any text'}")
                if self._is_begun and row.page_reader:
                    self._keep(file)
            except (TimeOver, NotRead) as stop:
                if not self._is_begun:
                    raise
                self._note_cut(self._name, stop)
            name, is_begun = self._name, self._is_begun
            self._end()
            self._add_members(name, members, is_begun=is_begun)
            self._note_encoding(name, members.ended.replaced, members.ended.guessed)
            self._count(size)

    def _write_pieces(self, kind: str, members: Members, place: str = "") -> None:
        """Write the text up to the next member. Raises NotRead, perhaps after a part of it."""
        problems: list[Problem] = []
        for piece in members.content():
            if isinstance(piece, Text | Heading | Page) and not self._is_begun:
                if isinstance(piece, Text) and not piece.text.strip():
                    continue
                self._begin(kind, place=place)
            match piece:
                case Text(text):
                    self._writer.write(text)
                case Heading(level, title) if title:
                    self._writer.write_heading(level, title)
                case Page():
                    self._writer.begin_page()
                case Problem(what, remedy, "missing"):
                    if not self._is_begun:
                        raise NotRead(what, remedy)
                    self._note_cut(self._name, NotRead(what, remedy))
                case Problem():
                    problems.append(piece)
        if members.refusal is not None:
            raise NotRead(members.refusal.problem.what, members.refusal.problem.remedy)
        for problem in problems:
            self._note(self._name, problem)

    def _add_members(self, name: str, members: Members, *, is_begun: bool) -> None:
        """Write the documents in a file. With `is_begun` the file itself is one. Raises NotRead if there is
        nothing that can be read."""
        documents, before = self._documents, len(self.problems)
        try:
            for member in members:
                self._add_member(name, member, members)
            if members.refusal is not None and (is_begun or self._documents > documents):
                self._note_cut(name, members.refusal)
        except TimeOver as stop:
            if not is_begun and self._documents == documents:
                raise
            self._note_cut(name, stop)
        if is_begun or self._documents > documents:
            return
        if members.refusal is not None:
            raise members.refusal
        left_out = self.problems[before:]
        missing = [problem for problem in left_out if problem.kind == "missing"]
        why = count_reasons(left_out) or "it is empty"
        what = f"{members.nesting.article} in which nothing could be read ({why})"
        if missing:
            raise NotRead(what, missing[0].remedy)
        raise NotRead(what, kind="other")

    def _add_member(self, outer: str, member: Member, members: Members) -> None:
        """Write one document of a file. What cannot be read is listed. Raises NotRead if it is all that the
        file holds."""
        inner = safe_name(member.name) or "unnamed" if member.name else ""
        if inner and patterns_of(self._exclude).match_file(inner):
            return
        name = f"{outer}/{inner}" if inner else outer
        self._start(name)
        try:
            if member.kind:
                try:
                    self._write_pieces(member.kind, members, member.place)
                except NotRead as refusal:
                    if not self._is_begun:
                        raise
                    self._note_cut(self._name, refusal)
                if not self._is_begun:
                    raise NotRead("empty", kind="nothing")
                self._end()
                return
            problems: list[Problem] = []
            hint = "" if inner else members.nesting.without_packing(name)
            given = members.data(BLOCK, problems)
            self._add_blocks(name, given, hint=hint, nesting=members.nesting)
            for problem in problems:
                self._note(name, problem)
        except NotRead as refusal:
            if not inner:
                raise
            self._note(name, refusal.problem)

    def _start(self, name: str) -> None:
        self._name = name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")
        self._is_begun = False

    def _begin(self, kind: str, *, place: str = "") -> None:
        self._is_begun = True
        self._name = self._names.add(self._name)
        indexed = format_of(kind).headings_indexed
        self._writer.begin_document(self._name, kind, headings_indexed=indexed, place=place)

    def _end(self) -> None:
        """End the document, if it has any text."""
        if self._is_begun:
            self._writer.end_document()
            self._documents += 1
            self._is_begun = False

    def _keep(self, file: BinaryIO) -> None:
        """Keep the file of a document whose pages can be looked at."""
        if self._originals is None:
            return
        try:
            self._writer.note_original(self._originals.keep(self._documents, file))
        except OSError as error:
            raise ContextFileError(f"cannot keep the file of {self._name}: {error.strerror}") from error

    def _note(self, name: str, problem: Problem) -> None:
        noted = replace(problem, document=os.fsencode(name).decode("utf-8", "replace"))
        # A file that is only packed has the name of its content.
        if noted not in self.problems[-2:]:
            self.problems.append(noted)

    def _note_cut(self, name: str, stop: TimeOver | NotRead) -> None:
        """Note that a document was read in part."""
        if isinstance(stop, NotRead):
            problem = stop.problem
            why = f", because it is {problem.what}"
        else:
            problem, why = self._late().problem, ""
        self._note(name, Problem(f"only its first part was read{why}", problem.remedy))

    def _note_encoding(self, name: str, replaced: int, guessed: str) -> None:
        self.replaced += replaced
        if guessed:
            self._note(name, Problem(guessed, kind="encoding"))

    def _late(self) -> NotRead:
        return NotRead(self._deadline.reason, self._deadline.remedy)

    def _counted(self, given: Blocks) -> Blocks:
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
        self._deadline.check(grace)

    def _detect_kind(self, name: str, first: bytes, path: str | Path | None = None) -> str:
        kind = readable_kind(name, first, pictures=self._originals is not None)
        if kind == "sqlite" and path is not None:
            log = Path(f"{path}-wal")
            if log.is_file() and log.stat().st_size > 0:
                self._note(name, Problem(_UNREAD_LOG, _CHECKPOINT))
        if kind == "text" and not self._has_told_faults and (faults := reader_faults(name)):
            self._has_told_faults = True
            for fault in faults:
                what, _, remedy = fault.rpartition(": ")
                self._note(name, Problem(f"it was read as text, because {what}", remedy))
        return kind
