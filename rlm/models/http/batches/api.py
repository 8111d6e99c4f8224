"""What the batch APIs of all providers have in common: create, find, poll, read, cancel."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Reply, Request
from rlm.models.http.batches.connection import BatchConnection
from rlm.models.http.error_mapping import AttemptFailure
from rlm.models.http.reply_limits import MAX_COUNT, ReplyTooLarge, parse_json
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import field

__all__ = ["BatchApi", "BatchLimits", "BatchStatus", "SentBatch", "is_identifier", "read_count"]

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,128}")


def is_identifier(value: object) -> bool:
    """Return whether `value` may be a part of a path: a provider's id comes from outside."""
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def read_count(value: object) -> int:
    """Return a count of a provider, or 0 where it sends nothing or something else."""
    return min(value, MAX_COUNT) if isinstance(value, int) and value > 0 else 0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How many requests and bytes one batch may have."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch as it was sent, to find it again at the provider. `tag` is our own name of it, and `at` the
    Unix time before it was sent."""

    tag: str
    requests: int
    at: float


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """`done` of `total` requests have a result. `files` name the results once the batch has ended.
    `failure` is set when the provider refused the batch as a whole."""

    done: int
    total: int
    ended: bool
    files: tuple[str, ...] = ()
    failure: AttemptFailure | None = None


class BatchApi(ABC):
    """The batch API of one model's provider.

    `make_body` builds the JSON body of a request, and `accumulate` reads a reply to it. Failures are
    returned, not raised.
    """

    limits: ClassVar[BatchLimits]
    price_share: ClassVar[float] = 0.5
    """The share of the list price that a request of a batch costs."""

    def __init__(
        self,
        connection: BatchConnection,
        make_body: Callable[[Request], dict[str, Any]],
        accumulate: Callable[[dict[str, Any]], StreamAccumulator],
    ) -> None:
        self.connection = connection
        self._make_body = make_body
        self._accumulate = accumulate

    def encode(self, key: str, request: Request) -> bytes:
        """Return a request as a batch holds it, under the custom id `key`."""
        return json.dumps(self.entry(key, self.body(request)), ensure_ascii=False).encode(errors="replace")

    def body(self, request: Request) -> dict[str, Any]:
        """Return the body of a request. A batch has no streams."""
        body = self._make_body(request)
        return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}

    def read(self, line: bytes) -> tuple[str, Any] | None:
        """Return the custom id and the result of a line, or None if it holds none."""
        try:
            record = parse_json(line)
        except (ValueError, ReplyTooLarge, RecursionError):
            return None
        key = field(record, "custom_id")
        return (key, record) if isinstance(key, str) else None

    def reply(self, record: object, request: Request) -> Reply | AttemptFailure:
        """Return the reply that a line holds for `request`, or why it holds none. Never raises."""
        try:
            return self.outcome(record, self._accumulate(self.body(request)))
        except Exception as error:  # the boundary to the provider: it may send anything
            return self.connection.mapper.map_garbled(error)

    @abstractmethod
    def entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of one request of a batch."""

    @abstractmethod
    def outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        """Return the reply or the failure in a line of results."""

    @abstractmethod
    async def create(self, entries: Sequence[bytes], tag: str) -> str | AttemptFailure:
        """Send a batch and return the provider's id of it."""

    @abstractmethod
    async def find(self, sent: SentBatch, known: frozenset[str]) -> str | AttemptFailure | None:
        """Return the provider's id of a batch whose creation was not confirmed. None: it was not created.
        `known` are the ids of other batches."""

    @abstractmethod
    async def status(self, batch_id: str) -> BatchStatus | AttemptFailure:
        """Return how far a batch is."""

    @abstractmethod
    def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        """Yield the lines of the results of a batch that has ended; a failure is the last."""

    @abstractmethod
    async def cancel(self, batch_id: str) -> AttemptFailure | None:
        """Cancel a batch. Requests in progress may still be answered and charged."""
