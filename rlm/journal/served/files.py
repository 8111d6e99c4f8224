"""The files that users of the server have uploaded, in parts. Their names are data and never paths."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from rlm.errors import JournalError
from rlm.journal.database import Row, Transaction
from rlm.journal.journal import Journal
from rlm.journal.stored_events import encode
from rlm.lazy_dataclass import dataclass

__all__ = ["FileStore", "ServedFile"]

_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A stored file. `bytes` is its size, and `sha256` that of its content."""

    file_id: str
    user_name: str
    name: str
    purpose: str
    bytes: int
    sha256: str
    created_at: float


class FileStore:
    """The files in an open journal. Every method raises JournalError if the store fails. A file of another
    user is not there."""

    def __init__(self, journal: Journal) -> None:
        self._database = journal.database
        self._writes = journal.writes

    async def add(self, user: str, name: str, purpose: str, stream: BinaryIO) -> ServedFile:
        """Store what `stream` holds, up to its end."""
        file_id = f"file-{secrets.token_hex(12)}"
        hashed, size, part = hashlib.sha256(), 0, 0
        try:
            # A part a transaction: other writers of the store wait for one part, and not for the whole file.
            while piece := stream.read(_PART):
                hashed.update(piece)
                row = {"file_id": file_id, "part": part, "data": zlib.compress(piece, 1)}
                await self._insert("served_parts", row)
                size, part = size + len(piece), part + 1
            file = ServedFile(file_id, user, name, purpose, size, hashed.hexdigest(), time.time())
            await self._insert("served_files", {**asdict(file), "name": encode(name)})
        except BaseException:
            await self._writes.finish(
                self._database.write(lambda transaction: _drop_parts(transaction, file_id))
            )
            raise
        return file

    async def get(self, file_id: str, user: str) -> ServedFile | None:
        """Return a file of that user."""
        query = "SELECT * FROM served_files WHERE file_id = :file_id AND user_name = :user"
        rows = await self._database.rows(query, file_id=file_id, user=user)
        return _file(rows[0]) if rows else None

    async def list(self, user: str, *, limit: int) -> tuple[ServedFile, ...]:
        """Return the newest files of a user, newest first."""
        query = (
            "SELECT * FROM served_files WHERE user_name = :user "
            "ORDER BY created_at DESC, file_id DESC LIMIT :most"
        )
        return tuple(map(_file, await self._database.rows(query, user=user, most=limit)))

    async def size(self, user: str) -> int:
        """Return the bytes of all files of a user."""
        query = "SELECT sum(bytes) AS bytes FROM served_files WHERE user_name = :user"
        return int((await self._database.rows(query, user=user))[0]["bytes"] or 0)

    async def content(self, file: ServedFile) -> AsyncIterator[bytes]:
        """Yield the content of a file in pieces of at most 1 MiB."""
        query = "SELECT data FROM served_parts WHERE file_id = :file_id AND part = :part"
        part = 0
        while rows := await self._database.rows(query, file_id=file.file_id, part=part):
            yield zlib.decompress(rows[0]["data"])
            part += 1

    async def write_to(self, file: ServedFile, path: Path) -> None:
        """Write the content of a file to a new, private file. Raises JournalError if the stored one is
        damaged."""
        hashed = hashlib.sha256()
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "wb") as stream:
            async for piece in self.content(file):
                hashed.update(piece)
                stream.write(piece)
        if hashed.hexdigest() != file.sha256:
            raise JournalError(f"the stored file {file.file_id} is damaged or was deleted: upload it again")

    async def remove(self, file_id: str, user: str) -> bool:
        """Delete a file of that user. Return whether there was one."""
        if await self.get(file_id, user) is None:
            return False

        def put(transaction: Transaction) -> None:
            _drop_parts(transaction, file_id)
            transaction.execute("DELETE FROM served_files WHERE file_id = :file_id", file_id=file_id)

        await self._writes.finish(self._database.write(put))
        return True

    async def _insert(self, table: str, row: Row) -> None:
        await self._writes.finish(self._database.write(lambda transaction: transaction.insert(table, [row])))


def _drop_parts(transaction: Transaction, file_id: str) -> None:
    transaction.execute("DELETE FROM served_parts WHERE file_id = :file_id", file_id=file_id)


def _file(row: Row) -> ServedFile:
    return ServedFile(**{**row, "name": json.loads(row["name"])})
