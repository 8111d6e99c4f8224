"""What sending a request, or reading its response, raises, whichever client carries it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

__all__ = ["Kind", "StatusFailure", "TransportFailure", "Unsigned", "walk_chain"]

Kind = Literal["unreachable", "silent", "invalid", "dropped"]


class StatusFailure(Exception):
    """The server answered with a status other than success. `body` is its JSON, else its text. The names in
    `headers` are looked up in any case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: object) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class TransportFailure(Exception):
    """No whole response arrived. The connection was not made (unreachable), nothing more came in time
    (silent), no request can be made from the URL and the headers (invalid), or the connection ended too soon
    (dropped). The cause says why."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind


class Unsigned(Exception):
    """The SDK has no credentials for a request. The cause says why."""


def walk_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and its causes, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        # A connection to several addresses fails with a group of errors.
        for inner in getattr(link, "exceptions", ()):
            yield from walk_chain(inner)
        link = link.__cause__ or link.__context__
