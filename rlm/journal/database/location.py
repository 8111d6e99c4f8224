"""Turns a path or a URL of a journal into its database. The default path is in `rlm.store_file`."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from rlm.errors import JournalError
from rlm.journal.database.database import Database

__all__ = ["database_at"]

_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/NAME"
_SQLITE = ("sqlite", "sqlite+aiosqlite")
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")


def database_at(path_or_url: str | Path) -> Database:
    """Return the unopened database of a path or URL (`postgresql://…`). Raises JournalError."""
    text = os.fspath(path_or_url)
    scheme, separator, rest = text.partition("://")
    if scheme in _POSTGRES and separator:
        from rlm.journal.database.postgres import PostgresDatabase

        try:
            return PostgresDatabase(rest)
        except ValueError as error:
            raise _unreadable() from error
    from rlm.journal.database.sqlite import SqliteDatabase

    if not separator:
        return SqliteDatabase(Path(text).expanduser().absolute())
    if scheme not in _SQLITE:
        raise JournalError(f"{scheme[:40]} is not supported for the journal; give {_FORMS}")
    path = unquote(rest[1:])
    if not rest.startswith("/") or "?" in rest or not path or path == ":memory:":
        raise _unreadable()
    return SqliteDatabase(Path(path))


def _unreadable() -> JournalError:
    return JournalError(f"the journal's URL can't be read; give {_FORMS}")
