"""The inputs of runs, kept so that a run can be gone on with when its sources are gone.

An input is a context folder's files, compressed, under the hash of its manifest (which holds the hash of the
body): runs over the same documents share one. An input that holds a secret is not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from rlm.errors import JournalError
from rlm.journal.database import Database
from rlm.journal.redaction import Redaction
from rlm.journal.tables import inputs, runs
from rlm.sandbox.in_kernel.body.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME

__all__ = ["drop_unused", "identify", "keep", "may_be_kept", "restore"]

_NAMES = (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
_PART = 1 << 20
_BATCH = 16


def identify(folder: Path) -> str:
    """The name of the input in a context folder."""
    return hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()


def may_be_kept(folder: Path, most: int, redaction: Redaction) -> bool:
    """Whether the body is of at most `most` bytes and holds no secret."""
    body = folder / BODY_NAME
    return body.stat().st_size <= most and not redaction.occurs_in(body)


async def keep(database: Database, name: str, folder: Path) -> None:
    """Store the folder's files as the input `name`, unless they are there."""
    known = select(inputs.c.input).where(inputs.c.input == name).limit(1)
    if await database.read(lambda connection: connection.scalar(known)):
        return

    async def put(connection: AsyncConnection) -> None:
        parts = _parts(name, folder)
        while rows := [part for _, part in zip(range(_BATCH), parts, strict=False)]:
            await connection.execute(insert(inputs), rows)

    try:
        await database.write(put)
    except IntegrityError:
        return  # another process has just kept the same


async def restore(database: Database, name: str, folder: Path) -> bool:
    """Make the context folder anew from the input `name`; False when it is not kept. Raises JournalError
    when what is kept is damaged."""
    query = select(inputs.c.part).where(inputs.c.input == name, inputs.c.name == MANIFEST_NAME)

    async def restored(connection: AsyncConnection) -> bool:
        if (await connection.scalar(query.limit(1))) is None:
            return False
        await asyncio.to_thread(folder.mkdir, 0o700, exist_ok=True)
        for file in _NAMES:
            await _restore_file(connection, name, folder / file)
        return True

    if not await database.read(restored):
        return False
    if identify(folder) != name:
        raise JournalError(f"the kept input of this run is damaged in {database.name}; give its files again")
    return True


async def drop_unused(connection: AsyncConnection) -> None:
    """Forget every input that no run is about."""
    await connection.execute(
        delete(inputs).where(~select(runs.c.run_id).where(runs.c.input == inputs.c.input).exists())
    )


def _parts(name: str, folder: Path) -> Iterator[dict[str, object]]:
    for file in _NAMES:
        with (folder / file).open("rb") as stream:
            part = 0
            while (piece := stream.read(_PART)) or part == 0:
                yield {"input": name, "name": file, "part": part, "data": zlib.compress(piece, 1)}
                part += 1


async def _restore_file(connection: AsyncConnection, name: str, path: Path) -> None:
    chosen = (inputs.c.input == name) & (inputs.c.name == path.name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        part = 0
        while data := await connection.scalar(select(inputs.c.data).where(chosen, inputs.c.part == part)):
            stream.write(zlib.decompress(data))
            part += 1
