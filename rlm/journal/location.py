"""Turns the path or the URL of a store into the store. The default path is in `rlm.store_file`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

from rlm.errors import JournalError
from rlm.journal.sqlite import SqliteStore
from rlm.journal.store import Store
from rlm.version import install_command

__all__ = ["opened", "store_at"]

_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/NAME"


def store_at(path_or_url: str | Path) -> Store:
    """Return the unopened store of a path or URL. Raises JournalError for one that can't be read."""
    text = os.fspath(path_or_url)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        try:
            from rlm.journal.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise JournalError(
                f"a journal in PostgreSQL needs psycopg; {install_command('postgres')}"
            ) from error
        try:
            return PostgresStore(rest)
        except ValueError as error:
            raise _unreadable() from error
    if not separator:
        return SqliteStore(Path(text).expanduser().absolute())
    if scheme not in ("sqlite", "sqlite+aiosqlite"):
        raise JournalError(f"{scheme[:40]} is not supported for the journal; give {_FORMS}")
    path = unquote(rest[1:])
    if not rest.startswith("/") or "?" in rest or not path or path == ":memory:":
        raise _unreadable()
    return SqliteStore(Path(path))


@asynccontextmanager
async def opened(path_or_url: str | Path) -> AsyncIterator[Store]:
    """Open the store at a path or URL. Raises JournalError."""
    store = store_at(path_or_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _unreadable() -> JournalError:
    return JournalError(f"the journal's URL can't be read; give {_FORMS}")
