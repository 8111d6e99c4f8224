"""A file that was fetched from elsewhere, spooled so that it can be read like one of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from rlm.lazy_dataclass import dataclass

__all__ = ["Check", "Fetched", "NotFetched"]

Check = Callable[[str, bytes], None]
"""Gets the name that tells the kind of a file and its first bytes, before the rest is fetched. It raises for
a file that could not be read."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file without a name on the disk, at its start. `name` is the name of its document. `kind_name` is a
    file name whose suffix tells its kind."""

    name: str
    kind_name: str
    file: BinaryIO


@dataclass(frozen=True, slots=True)
class NotFetched:
    """A file of a source that was left out, and why (it follows "is"). Without a remedy no document is
    missing: a link, a submodule."""

    name: str
    reason: str
    remedy: str = ""
