"""Database URLs of a segment store."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from rlm.prompts.segments.errors import StoreUnavailable

__all__ = ["store_url"]

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def store_url(path_or_url: str | Path) -> URL:
    """Return the database URL for a file path or a URL.

    The driver named in a URL is replaced by the one this package uses. Raises StoreUnavailable.
    """
    text = os.fspath(path_or_url)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise StoreUnavailable(
            "the store's URL can't be read: give a path, or postgresql://user@host/name"
        ) from error
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise StoreUnavailable(
            f"segments can't be kept in a {backend!r} database: give a path (SQLite) or postgresql://…"
        )
    return url.set(drivername=_DRIVERS[backend])
