"""Turns a path or a URL of a journal into a database URL. The default path is in `rlm.store_file`."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from rlm.errors import JournalError

__all__ = ["store_url"]

_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/NAME"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def store_url(path_or_url: str | Path) -> URL:
    """Return the database URL of a path or URL (`postgresql://…`). Raises JournalError."""
    text = os.fspath(path_or_url)
    if "://" not in text:
        return URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise JournalError(f"the journal's URL can't be read; give {_FORMS}") from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise JournalError(f"{url.drivername} is not supported for the journal; give {_FORMS}")
    return url.set(drivername=driver)
