"""A large UTF-8 file that is indexed where it is, and not copied."""

from __future__ import annotations

import codecs
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from rlm.documents.blocks import BLOCK, Deadline, TimeOver, file_blocks, open_file
from rlm.documents.chat import form_of
from rlm.documents.encoding import Decoder
from rlm.documents.formats.piece import NotRead, Problem
from rlm.documents.formats.registry import format_of
from rlm.documents.kind import readable_kind, reader_faults
from rlm.documents.loaded import Loaded
from rlm.documents.rendering import LINE_WRITERS, MAY_TALK, head_of
from rlm.documents.sources.source import PathSource, Source
from rlm.sandbox.context.source_file import SourceFacts
from rlm.sandbox.context.writer import ContextFileWriter, NotPlain

__all__ = ["PlainFile", "is_plain", "open_plain", "reports_changes"]

LEAST_BYTES = 16 << 20
"""Smaller files are copied: that takes no time, and the journal keeps them."""
SETTLED_SECONDS = 2.0
"""A file that was written this recently is copied, because its writer may not be done."""
_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs", "virtiofs"}
)
"""Another machine may write to these, and the time of the change is known here seconds later, or never."""
_PLAIN_FUSE = frozenset({"fuse.fuse-overlayfs"})
_TICK_SECONDS = 0.1
"""The clock of a file system may be this late. A change within one tick of it would not be seen."""


def is_plain(sources: Sequence[Source]) -> bool:
    """Return whether the sources are one file that is read in place, as far as its begin tells."""
    with open_plain(sources) as plain:
        return plain is not None


@contextmanager
def open_plain(sources: Sequence[Source]) -> Iterator[PlainFile | None]:
    """Open the only source if it is a large local file that may be read in place, else yield None. No error
    is raised: the loader reports it."""
    try:
        plain = _opened(sources)
    except (OSError, NotRead):
        plain = None
    try:
        yield plain
    finally:
        if plain is not None:
            plain.stream.close()


@dataclass(frozen=True, slots=True)
class PlainFile:
    """An open file that begins with `head`. `path` is as given, `real` without links."""

    path: Path
    real: Path
    stream: FileIO
    kind: str
    head: bytes

    def load(
        self, folder: Path, progress: Callable[[str, int], None] | None, deadline: Deadline
    ) -> Loaded | None:
        """Write its index to `folder`. Return None if its text must be copied, because it is not UTF-8 to
        its end, or not all of it could be read in time. `folder` is empty then. `progress` gets the name and
        the bytes read, and may raise. Raises DocumentError if the file changes while it is read."""
        name, descriptor = self.path.name, self.stream.fileno()
        size = 0

        def tick(read: int = 0) -> None:
            nonlocal size
            size += read
            if progress is not None:
                progress(name, size)
            deadline.check()

        try:
            before = os.fstat(descriptor)
            with ContextFileWriter(folder, SourceFacts.of(str(self.real), descriptor)) as writer:
                rest = file_blocks(self.stream, self.path, before, tick, done=len(self.head))
                writer.begin_document(name, self.kind, headings_indexed=format_of(self.kind).headings_indexed)
                self._write(itertools.chain((self.head,), rest), writer, tick)
                faults = reader_faults(name) if self.kind == "text" else ()
                problems = [Problem(f"it was read as text, because {one}", document=name) for one in faults]
                context = writer.finish()
                return Loaded(context, tuple(problems), context.replaced)
        except (NotPlain, TimeOver, OSError):
            return None

    def _write(self, given: Iterator[bytes], writer: ContextFileWriter, tick: Callable[[int], None]) -> None:
        """Write the blocks as they are. Raises NotPlain if they cannot be."""
        decoder = Decoder()
        marking = LINE_WRITERS[self.kind](writer) if self.kind in LINE_WRITERS else None
        write = writer.write if marking is None else marking.feed
        for block in given:
            if decoder.feed(block) is not block:
                raise NotPlain
            write(block)
            tick(len(block))
        if marking is not None:
            marking.finish()


def _opened(sources: Sequence[Source]) -> PlainFile | None:
    """Return the only source, open, or None. Raises OSError or NotRead."""
    if len(sources) != 1 or not isinstance(sources[0], PathSource):
        return None
    path = sources[0].path
    # Opening a pipe would take its data, and opening a device may have effects.
    status = path.stat()
    if not _may_stay(status):
        return None
    real = path.resolve(strict=True)
    with ExitStack() as undo:
        stream = undo.enter_context(open_file(real))
        if not _may_stay(os.fstat(stream.fileno())):
            return None
        head = stream.read(BLOCK)
        kind = readable_kind(path.name, head, pictures=False)
        if (
            format_of(kind).is_converted
            or head.startswith(codecs.BOM_UTF8)
            or (kind in MAY_TALK and form_of(head_of(head), kind) is not None)
        ):
            return None
        undo.pop_all()
        return PlainFile(path, real, stream, kind, head)


def _may_stay(status: os.stat_result) -> bool:
    now = time.time()
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size > LEAST_BYTES
        and status.st_mtime <= now - SETTLED_SECONDS
        and status.st_ctime <= now - _TICK_SECONDS
        and reports_changes(status.st_dev)
    )


def reports_changes(device: int) -> bool:
    """Return whether the file system with the device number `device` of a file is local. Return False if
    that cannot be known."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        fields = mount.split(" ", 3)
        if len(fields) > 2 and fields[2] == wanted:
            kind = system.partition(" ")[0]
            return kind not in _REMOTE and (not kind.startswith("fuse.") or kind in _PLAIN_FUSE)
    # Subvolumes of btrfs have device numbers that no mount shows.
    return True
