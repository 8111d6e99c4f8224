"""Fetching of what a source elsewhere names, file by file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

from rlm.documents.loaded import Skip, Skipped, SkipReason, count_reasons
from rlm.documents.sources.fetched import Fetched, NotFetched
from rlm.documents.sources.source import CloudSource, GitSource, RemoteSource, UrlSource
from rlm.errors import DocumentError
from rlm.lazy_dataclass import dataclass

__all__ = ["Fetching"]


@dataclass(frozen=True, slots=True)
class Fetching:
    """What fetching needs of the loading: a folder for files without a name, a tick that is called often and
    may raise to stop, `detect_kind`, which may raise Skip for a name and first bytes before the rest is
    fetched, and `write`, which writes one file and may raise Skip."""

    folder: Path
    tick: Callable[[], None]
    detect_kind: Callable[[str, bytes], object]
    write: Callable[[Fetched], None]

    def add(self, source: RemoteSource, skipped: list[Skipped], *, has_several: bool) -> None:
        """Fetch and write the files that `source` names. What is left out is added to `skipped`. Raises
        DocumentError for a source that cannot be read, and, unless it is one of several, for one without
        text."""
        written, before = 0, len(skipped)
        try:
            with closing(self._fetch(source)) as found:
                for one in found:
                    try:
                        if isinstance(one, NotFetched):
                            reason = SkipReason.BROKEN if one.remedy else SkipReason.NOT_TEXT
                            raise Skip(one.reason, one.remedy, reason)
                        with one.file:
                            self.write(one)
                        written += 1
                    except Skip as skip:
                        if isinstance(source, UrlSource):
                            raise
                        skipped.append(skip.to_skipped(one.name, one.name))
        except Skip as skip:
            # As for a file of this machine: among several, one that is broken is skipped.
            if not has_several or skip.reason is SkipReason.NOT_TEXT:
                raise DocumentError(f"{source.name} is {skip}: {skip.remedy}") from None
            skipped.append(skip.to_skipped(source.name, source.name))
            return
        left_out = skipped[before:]
        if not written and not (has_several and any(one.remedy for one in left_out)):
            why = f"nothing in it could be read ({count_reasons(left_out)})" if left_out else "it is empty"
            remedy = next((one.remedy for one in left_out if one.remedy), "name another that does")
            raise DocumentError(f"{source.name} holds no text: {why}: {remedy}")

    def _fetch(self, source: RemoteSource) -> Generator[Fetched | NotFetched, None, None]:
        """Yield the files of a source. Its libraries are imported here: they are large."""

        def count(size: int) -> None:
            self.tick()

        def check(name: str, first: bytes) -> None:
            self.detect_kind(name, first)

        match source:
            case UrlSource(url, allow_hosts):
                from rlm.documents.sources.address_rules import AddressRules
                from rlm.documents.sources.download import download

                yield download(url, AddressRules.parse(allow_hosts), self.folder, count, check)
            case CloudSource(url, exclude):
                from rlm.documents.sources.cloud import read_cloud

                yield from read_cloud(url, exclude, self.folder, self.tick, check)
            case GitSource(path, revision, exclude):
                from rlm.documents.sources.git_repository import read_revision

                yield from read_revision(path, revision, exclude, self.folder, count)
