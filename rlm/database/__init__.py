"""A file or a server that keeps rows: journals and prompt segments share it.

`store_at` turns a path or a URL into its store. The default path is in `rlm.store_file`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

from rlm.database.sqlite import SqliteStore
from rlm.database.store import Schema, Store
from rlm.version import install_command

__all__ = ["opened", "store_at"]

_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/NAME"


def store_at(schema: Schema, path_or_url: str | Path) -> Store:
    """Return the unopened store of a path or URL. Raises the schema's error for one that can't be read."""
    text = os.fspath(path_or_url)
    scheme, separator, rest = text.partition("://")
    unreadable = schema.error(f"the store's URL can't be read; give {_FORMS}")
    if separator and scheme in ("postgres", "postgresql"):
        try:
            from rlm.database.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise schema.error(f"a PostgreSQL store needs psycopg; {install_command('postgres')}") from error
        try:
            return PostgresStore(schema, rest)
        except ValueError as error:
            raise unreadable from error
    if not separator:
        return SqliteStore(schema, Path(text).expanduser().absolute())
    if scheme != "sqlite":
        raise schema.error(f"{scheme[:40]} is not supported for a store; give {_FORMS}")
    path = unquote(rest[1:])
    if not rest.startswith("/") or "?" in rest or not path or path == ":memory:":
        raise unreadable
    return SqliteStore(schema, Path(path))


@asynccontextmanager
async def opened(schema: Schema, path_or_url: str | Path) -> AsyncIterator[Store]:
    """Open the store at a path or URL. Raises the schema's error."""
    store = store_at(schema, path_or_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
