"""Fetching of the files that a source elsewhere names. Each is spooled, to be read like a local one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rlm.documents.formats.piece import Problem
from rlm.documents.sources.source import (
    Check,
    CloudSource,
    Fetched,
    GitSource,
    RemoteSource,
    UrlSource,
)

__all__ = ["fetch"]


def fetch(
    source: RemoteSource, folder: Path, tick: Callable[[], None], check: Check
) -> Iterator[Fetched | Problem]:
    """Yield the files of a source, or why one is left out. Their libraries are imported here: they are large.

    `folder` is for files without a name. `tick` is called often and may raise to stop. Raises DocumentError
    for a source that cannot be read, and NotRead for a page that cannot.
    """
    match source:
        case UrlSource(url, allow_hosts):
            from rlm.documents.sources.address_rules import AddressRules
            from rlm.documents.sources.download import download

            yield download(url, AddressRules.parse(allow_hosts), folder, tick, check)
        case CloudSource(url, exclude):
            from rlm.documents.sources.cloud import read_cloud

            yield from read_cloud(url, exclude, folder, tick, check)
        case GitSource(path, revision):
            from rlm.documents.sources.git_repository import read_revision

            yield from read_revision(path, revision, folder, tick)
