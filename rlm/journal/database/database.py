"""The open database of a journal, whatever its kind, and the translation of its errors."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from rlm.errors import JournalError
from rlm.journal.database.schema import VERSION, OtherVersion
from rlm.journal.database.transaction import Row, Transaction

__all__ = ["Database"]

_T = TypeVar("_T")


class Database(ABC):
    """Connections that raise JournalError: one line with the store's name and a remedy.

    Work is a plain function: it may run in another thread, and may run again if its first attempt was undone.
    """

    _errors: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The store's file, or its URL without a password."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make or check the schema. Raises JournalError."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection. Safe to call twice."""

    @abstractmethod
    async def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` in a transaction, and return its result after the commit.

        Writes are committed in the order of the calls. A write whose work raises an exception changes nothing
        and harms no other. Raises RowConflict, too: the caller knows which row it means.
        """

    @abstractmethod
    async def read(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work`, which only reads. Each statement reads one consistent state."""

    @abstractmethod
    async def shrink(self) -> None:
        """Free the space of removed rows: for the file system (SQLite) or for new rows (PostgreSQL)."""

    @abstractmethod
    async def size(self) -> int:
        """Return the size of the store in bytes, not counting free pages."""

    async def size_on_disk(self) -> int:
        """Return the bytes of the store's files, without a look at its rows: never less than `size`."""
        return await self.size()

    @abstractmethod
    def _remedy(self, reason: str) -> str:
        """Return what to do about an error. `reason` is its message, casefolded."""

    async def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        return await self.read(lambda transaction: transaction.rows(sql, **parameters))

    def _closed(self) -> JournalError:
        return JournalError(f"the journal {self.name} is closed; open it again")

    @contextlib.contextmanager
    def _translate(self, action: str) -> Iterator[None]:
        """Turn errors of the database into JournalError."""
        try:
            yield
        except OtherVersion as error:
            raise JournalError(
                f"the journal {self.name} has schema {error}, this rlm needs {VERSION}: "
                "move the file away, or use another store (--store)"
            ) from error
        except self._errors as error:
            cause = getattr(error, "orig", None) or error
            reason = " ".join(str(getattr(cause, "strerror", None) or cause).split())[:200]
            raise JournalError(
                f"the journal {self.name} can't be {action}: {reason}; {self._remedy(reason.casefold())}"
            ) from error
