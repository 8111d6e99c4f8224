"""The lease of a store: one process serves it at a time, because it resumes what another one left."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict

from rlm.errors import JournalError
from rlm.journal.database import Row, RowConflict, Transaction
from rlm.journal.journal import Journal
from rlm.journal.stored_events import encode
from rlm.sandbox import OwnerProcess

__all__ = ["Lease"]

_NAME = "serve"
_HELD = "name = :name AND process = :process"
_STALE_SECONDS = 30.0
RENEW_SECONDS = 8.0


class Lease:
    """Says that this process serves the store. It lapses 30 s after the last renewal, and at once when its
    process has certainly ended."""

    def __init__(self, journal: Journal) -> None:
        self._database = journal.database
        self._writes = journal.writes
        self._store = journal.name
        self._owner = encode({**asdict(OwnerProcess.here()), "claim": secrets.token_hex(8)})

    async def take(self, on_wait: Callable[[str], None], *, wait_seconds: float = _STALE_SECONDS + 5) -> None:
        """Take the lease; wait for one that may have been left by a killed process elsewhere. `on_wait` gets
        a line once. Raises JournalError if another process keeps renewing its own."""
        end = time.monotonic() + wait_seconds
        has_told = False
        while not await self._try():
            if time.monotonic() > end:
                raise JournalError(
                    f"another process serves {self._store}: stop it first, or use another store (--store)"
                )
            if not has_told:
                on_wait("the store is leased to another process; waiting up to 35 s for it to end")
                has_told = True
            await asyncio.sleep(0.5)

    async def renew(self) -> bool:
        """Renew the lease. Return False if another process has taken it."""
        return await self._update({"seen_at": time.time()}, self._owner)

    async def give_up(self) -> None:
        """End the lease."""
        mine = {"name": _NAME, "process": self._owner}

        def put(transaction: Transaction) -> None:
            transaction.execute(f"DELETE FROM served_leases WHERE {_HELD}", **mine)  # noqa: S608 - a constant

        await self._writes.finish(self._database.write(put))

    async def _try(self) -> bool:
        rows = await self._database.rows("SELECT * FROM served_leases WHERE name = :name", name=_NAME)
        now = {"process": self._owner, "seen_at": time.time()}
        if not rows:
            row = {"name": _NAME, **now}
            try:
                await self._writes.finish(
                    self._database.write(lambda transaction: transaction.insert("served_leases", [row]))
                )
            except RowConflict:
                return False
            return True
        present = json.loads(rows[0]["process"])
        present.pop("claim", None)
        if not OwnerProcess(**present).is_gone() and time.time() - rows[0]["seen_at"] < _STALE_SECONDS:
            return False
        return await self._update(now, rows[0]["process"])

    async def _update(self, values: Row, holder: str) -> bool:
        """Change the lease if it is still held by `holder`. Return whether it was."""
        held = {"name": _NAME, "process": holder}

        def put(transaction: Transaction) -> int:
            return transaction.update("served_leases", values, _HELD, **held)

        return await self._writes.finish(self._database.write(put)) == 1
