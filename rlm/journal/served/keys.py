"""The keys of the server's users. A key is shown once, when it is made; the store holds only its hash."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import asdict
from typing import Literal

from rlm.errors import JournalError, UsageError
from rlm.journal.database import Row, Transaction
from rlm.journal.journal import Journal
from rlm.lazy_dataclass import dataclass

__all__ = ["LOCAL_USER", "KeyStore", "Role", "ServedKey"]

LOCAL_USER = "local"
"""The user of the token that is made at start, and of a server without authentication."""

Role = Literal["user", "metrics"]
_PREFIX = "rlm-"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


@dataclass(frozen=True, slots=True)
class ServedKey:
    """A key without its secret. A `user` may use the server, `metrics` may read /metrics only. `day_usd` and
    `month_usd` limit what all runs of the user cost in a day and in a month (UTC); None is no limit. Times
    are Unix seconds."""

    key_id: str
    user_name: str
    role: Role
    created_at: float
    revoked_at: float | None = None
    day_usd: float | None = None
    month_usd: float | None = None


class KeyStore:
    """The keys in an open journal. Every method raises JournalError if the store fails."""

    def __init__(self, journal: Journal) -> None:
        self._database = journal.database
        self._writes = journal.writes

    async def add(
        self,
        user: str,
        *,
        role: Role = "user",
        day_usd: float | None = None,
        month_usd: float | None = None,
    ) -> tuple[ServedKey, str]:
        """Make a key for a user, and return it with its secret, which is not stored. Raises UsageError for
        LOCAL_USER, a name with other characters than letters, digits and ._@+-, and a budget below 0."""
        if not _USER.fullmatch(user):
            raise UsageError(f"the user {user!r} is no name: use up to 64 letters, digits and . _ @ + -")
        if user == LOCAL_USER:
            raise UsageError(f"the user {user!r} is the one of the token of each start: take another name")
        for name, budget in (("day", day_usd), ("month", month_usd)):
            if budget is not None and not 0 <= budget < float("inf"):
                raise UsageError(f"the budget of a {name} is {budget}: give dollars, 0 or more")
        secret = _PREFIX + secrets.token_urlsafe(32)
        key = ServedKey(f"key-{secrets.token_hex(4)}", user, role, time.time(), None, day_usd, month_usd)
        row = {**asdict(key), "digest": _digest(secret)}

        await self._writes.finish(
            self._database.write(lambda transaction: transaction.insert("served_keys", [row]))
        )
        return key, secret

    async def find(self, secret: str) -> ServedKey | None:
        """Return the key with that secret, unless it is revoked."""
        query = "SELECT * FROM served_keys WHERE digest = :digest AND revoked_at IS NULL"
        rows = await self._database.rows(query, digest=_digest(secret))
        return _key(rows[0]) if rows else None

    async def get(self, key_id: str) -> ServedKey | None:
        """Return a key by its id, also a revoked one."""
        query = "SELECT * FROM served_keys WHERE key_id = :key_id"
        rows = await self._database.rows(query, key_id=key_id)
        return _key(rows[0]) if rows else None

    async def all(self) -> tuple[ServedKey, ...]:
        """Return all keys, revoked ones included, oldest first."""
        return tuple(map(_key, await self._database.rows("SELECT * FROM served_keys ORDER BY created_at")))

    async def revoke(self, key_id: str) -> ServedKey:
        """Revoke a key: it is refused from now on. Raises JournalError if there is no such key."""

        now = {"revoked_at": time.time()}

        def put(transaction: Transaction) -> None:
            transaction.update("served_keys", now, "key_id = :key_id AND revoked_at IS NULL", key_id=key_id)

        await self._writes.finish(self._database.write(put))
        found = await self.get(key_id)
        if found is None:
            raise JournalError(f"there is no key {key_id!r}; list the keys to see their ids")
        return found


def _digest(secret: str) -> str:
    # A secret has 256 random bits, so a plain hash can neither be searched nor looked up.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Row) -> ServedKey:
    return ServedKey(**{name: row[name] for name in ServedKey.__slots__})
