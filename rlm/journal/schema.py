"""The tables of a journal, `schema.sql`, and the store that holds them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from rlm.database import opened, store_at
from rlm.database.store import Schema, Store
from rlm.errors import JournalError

__all__ = ["check_location", "open_store"]


class _JournalSchema(Schema):
    noun = "the journal"
    version_table = "journal_version"
    version = "8"
    bulk = ("events", "inputs")
    error = JournalError
    file = Path(__file__).with_name("schema.sql")


_SCHEMA = _JournalSchema()


def open_store(path_or_url: str | Path) -> AbstractAsyncContextManager[Store]:
    """Open the store at a path or URL. Raises JournalError."""
    return opened(_SCHEMA, path_or_url)


def check_location(path_or_url: str | Path) -> None:
    """Raise JournalError for a path or URL that cannot be read."""
    store_at(_SCHEMA, path_or_url)
