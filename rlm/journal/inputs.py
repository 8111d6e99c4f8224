"""The stored inputs of runs. With its input a run can be resumed after its sources are gone.

An input is the compressed files of a context folder, under the hash of its manifest, which holds the hash of
the body. Runs over the same documents share one input. An input that holds a secret is not stored.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from rlm.database.store import RowConflict, Store, Transaction
from rlm.errors import JournalError
from rlm.journal.redaction import Redaction
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME

__all__ = ["drop_unused", "identify", "keep", "may_be_kept", "restore"]

_NAMES = (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
_PART = 1 << 20
_MAX_PARTS = 256
"""Of one file. The journal stores a body of at most 64 MB."""


class _Damaged(Exception):
    """A stored input is not what `keep` wrote."""


def identify(folder: Path) -> str:
    """Return the name of the input in a context folder."""
    return hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()


def may_be_kept(folder: Path, most: int, redaction: Redaction) -> bool:
    """Return whether the body has at most `most` bytes and holds no secret."""
    body = folder / BODY_NAME
    return body.stat().st_size <= most and not redaction.occurs_in(body)


async def keep(store: Store, name: str, folder: Path) -> None:
    """Store the folder's files as the input `name`, unless they are stored already."""
    if await store.rows("SELECT input FROM inputs WHERE input = :name LIMIT 1", name=name):
        return

    def put(transaction: Transaction) -> None:
        for part in _parts(name, folder):
            transaction.insert("inputs", [part])

    try:
        await store.write(put)
    except RowConflict:
        return  # another process has just stored the same input


async def restore(store: Store, name: str, folder: Path) -> bool:
    """Write the input `name` to `folder`, which must not exist. Return False if it is not stored. Raises
    JournalError if it is damaged."""
    query = "SELECT part FROM inputs WHERE input = :input AND name = :name LIMIT 1"

    def write_files(transaction: Transaction) -> bool:
        if not transaction.rows(query, input=name, name=MANIFEST_NAME):
            return False
        folder.mkdir(0o700)
        for file in _NAMES:
            _restore_file(transaction, name, folder / file)
        return True

    try:
        if not await store.read(write_files):
            return False
        if identify(folder) != name:
            raise _Damaged("it is not the text of its name")
    except (_Damaged, zlib.error, TypeError) as error:
        raise JournalError(
            f"the stored input of this run is damaged in {store.name} ({error}); give its files again"
        ) from error
    return True


def drop_unused(transaction: Transaction) -> None:
    """Delete every input that no run refers to."""
    transaction.execute(
        "DELETE FROM inputs WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.input = inputs.input)"
    )


def _parts(name: str, folder: Path) -> Iterator[dict[str, object]]:
    for file in _NAMES:
        with (folder / file).open("rb") as stream:
            part = 0
            while (piece := stream.read(_PART)) or part == 0:
                yield {"input": name, "name": file, "part": part, "data": zlib.compress(piece, 1)}
                part += 1


def _restore_file(transaction: Transaction, name: str, path: Path) -> None:
    query = "SELECT data FROM inputs WHERE input = :input AND name = :name AND part = :part"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        part = 0
        while data := transaction.scalar(query, input=name, name=path.name, part=part):
            if part == _MAX_PARTS:
                raise _Damaged("it has too many parts")
            stream.write(_decompress(data))
            part += 1


def _decompress(data: bytes) -> bytes:
    """Return the bytes of a part. One that would grow beyond its size is not read on."""
    stream = zlib.decompressobj()
    piece = stream.decompress(data, _PART)
    if not stream.eof:
        raise _Damaged("a part of it is cut, or larger than a part may be")
    return piece
