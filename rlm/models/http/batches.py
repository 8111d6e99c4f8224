"""The batch APIs of Anthropic and OpenAI: many requests in one upload, answered within 24 hours."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from rlm.errors import ModelProtocolError, ModelRejected, ModelUnavailable
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Reply, Request
from rlm.models.http.accumulator import StreamAccumulator, read_count
from rlm.models.http.errors import AttemptFailure, read_error
from rlm.models.http.reply_limits import MAX_EVENT, RESULTS_TYPE, ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import field

if TYPE_CHECKING:
    from rlm.models.http.model import HttpModel

__all__ = ["AnthropicBatches", "BatchApi", "BatchStatus", "OpenAIBatches"]

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,128}")
_BUSY = {"token_limit_exceeded", "request_limit_exceeded", "rate_limit_exceeded"}
"""Errors of a whole batch that pass: other batches of the account fill its queue."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """`done` requests have a result. `files` name the results once the batch has ended. `failure` is set when
    the provider refused the batch as a whole."""

    done: int
    ended: bool
    files: tuple[str, ...] = ()
    failure: AttemptFailure | None = None


class BatchApi(ABC):
    """The batch API of one model's provider. Failures are returned, not raised. What a provider sends is
    bounded."""

    max_requests: ClassVar[int]
    """How many requests one batch may have."""
    price_share: ClassVar[float] = 0.5
    """The share of the list price that a request of a batch costs."""
    _path: ClassVar[str]

    def __init__(self, model: HttpModel) -> None:
        self.mapper = model.mapper
        self._model = model
        self.has_answered = False
        """Whether the endpoint has ever answered."""

    def encode(self, key: str, request: Request) -> bytes:
        """Return the entry of a request in a batch that knows it by the id `key`."""
        return json.dumps(self._entry(key, self._body(request)), ensure_ascii=False).encode(errors="replace")

    def read(self, line: bytes) -> tuple[str, Any] | None:
        """Return the id and the result in a line of results, or None if it holds none."""
        try:
            record = parse_json(line)
        except (ValueError, ReplyTooLarge, RecursionError):
            return None
        key = field(record, "custom_id")
        return (key, record) if isinstance(key, str) else None

    def reply(self, record: object, request: Request) -> Reply | AttemptFailure:
        """Return the reply to `request` in a result, or why there is none."""
        try:
            return self._outcome(record, self._model.accumulator(self._body(request)))
        except Exception as error:  # the boundary to the provider: it may send anything
            return self.mapper.map_exception(error)

    async def status(self, batch_id: str) -> BatchStatus | AttemptFailure:
        """Return how far a batch is."""
        batch = await self._exchange(f"{self._path}/{batch_id}")
        if isinstance(batch, AttemptFailure):
            return batch
        return self._status(batch_id, batch) or self._garbled("a batch without a state")

    async def cancel(self, batch_id: str) -> AttemptFailure | None:
        """Cancel a batch. Requests in progress may still be answered and charged."""
        answer = await self._post(f"{self._path}/{batch_id}/cancel", b"")
        return answer if isinstance(answer, AttemptFailure) else None

    @abstractmethod
    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        """Send a batch and return the provider's id of it."""

    @abstractmethod
    def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        """Yield the lines of the results of a batch that has ended. A failure is the last."""

    @abstractmethod
    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]: ...

    @abstractmethod
    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure: ...

    @abstractmethod
    def _status(self, batch_id: str, batch: object) -> BatchStatus | None: ...

    def unknown(self, batch_id: str) -> AttemptFailure:
        """Return the failure of a batch that the provider does not know."""
        return AttemptFailure(
            ModelRejected,
            f"{self.mapper.name}: the batch {batch_id} is not known to the provider (404)",
            "use the key of the account that sent it, or rlm runs waiting --forget to send its calls again",
        )

    def missing(self) -> AttemptFailure:
        """Return the failure of a request for which a batch that has ended holds no result."""
        what = f"{self.mapper.name}: the batch ended without a result for this request"
        return AttemptFailure(ModelProtocolError, what, "ask again")

    def too_large(self, size: int, limit: int) -> AttemptFailure:
        """Return the failure of a request that is larger than a batch may be."""
        what = f"{self.mapper.name}: a request of {size:,} bytes is larger than a batch may be ({limit:,})"
        return AttemptFailure(ModelProtocolError, what, "send smaller slices")

    def _unanswered(self, verb: str) -> AttemptFailure:
        """Return the failure of a request that the provider did not get to. It costs nothing."""
        what = f"{self.mapper.name}: the batch {verb} before this request was answered"
        return AttemptFailure(ModelUnavailable, what, "ask again later, or without --slow")

    def _garbled(self, what: str) -> AttemptFailure:
        return self.mapper.map_exception(ValueError(what))

    def _body(self, request: Request) -> dict[str, Any]:
        body = self._model.request_body(request)
        return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}

    def _id_in(self, answer: object) -> str | AttemptFailure:
        """Return the id in an answer. Ids become parts of paths, so one of another form is refused."""
        if isinstance(answer, AttemptFailure):
            return answer
        found = field(answer, "id")
        return found if _is_identifier(found) else self._garbled("an answer without an id")

    async def _post(self, path: str, content: bytes) -> Any | AttemptFailure:
        return await self._exchange(path, content=content)

    async def _exchange(self, path: str, **body: Any) -> Any | AttemptFailure:
        """Return the JSON of an answer."""
        try:
            answer = await self._model.exchange(path, {}, **body)
            return parse_json(await answer.read_to_end())
        except Exception as error:  # the boundary to the provider: it may send anything
            failure = self.mapper.map_exception(error)
            self.has_answered = self.has_answered or failure.reason != "unreachable"
            return failure

    async def _lines(self, path: str, max_bytes: int) -> AsyncGenerator[bytes | AttemptFailure, None]:
        """Yield the lines of a file, without those that are empty or longer than any honest one. Ends with
        the failure if the file cannot be read to its end, or has more than `max_bytes`."""
        try:
            async with aclosing(await self._model.exchange(path, {"Accept": RESULTS_TYPE})) as response:
                size, line, is_overlong = 0, bytearray(), False
                async for chunk in response.chunks():
                    size += len(chunk)
                    if size > max_bytes:
                        raise ReplyTooLarge(f"results of more than {max_bytes:,} bytes")
                    *ended, rest = chunk.split(b"\n")
                    for piece in ended:
                        line += piece
                        if line.strip() and not is_overlong and len(line) <= MAX_EVENT:
                            yield bytes(line)
                        line, is_overlong = bytearray(), False
                    is_overlong = is_overlong or len(line) + len(rest) > MAX_EVENT
                    line = bytearray() if is_overlong else line + rest
                if line.strip():
                    yield bytes(line)
        except Exception as error:  # the boundary to the provider: it may send anything
            yield self.mapper.map_exception(error)


class AnthropicBatches(BatchApi):
    """Anthropic's Message Batches."""

    max_requests = 100_000
    _path = "/v1/messages/batches"

    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        return self._id_in(await self._post(self._path, b'{"requests":[' + b",".join(entries) + b"]}"))

    async def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        # Not the URL that the batch names: it could be another host's, which would get the key.
        async for line in self._lines(f"{self._path}/{batch_id}/results", max_bytes):
            yield line

    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "params": body}

    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        result = field(record, "result")
        match field(result, "type"):
            case "succeeded" if accumulator.accept_json(field(result, "message")):
                return accumulator.reply() or self.mapper.map_dropped()
            case "errored":
                return self.mapper.map_stream_error(*read_error(field(result, "error")))
            case "canceled":
                return self._unanswered("was cancelled")
            case "expired":
                return self._unanswered("expired")
            case _:
                return self._garbled("a result of an unknown type")

    def _status(self, batch_id: str, batch: object) -> BatchStatus | None:
        state = field(batch, "processing_status")
        names = ("succeeded", "errored", "canceled", "expired")
        done = sum(read_count(field(field(batch, "request_counts"), name)) for name in names)
        return BatchStatus(done, state == "ended") if isinstance(state, str) else None


class OpenAIBatches(BatchApi):
    """OpenAI's Batch API: a file of requests goes up, a file of replies and one of errors come down. All
    requests of a batch are for one model."""

    max_requests = 50_000
    _path = "/batches"
    _endpoint = "/v1/chat/completions"

    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        lines = b"\n".join(entries) + b"\n"
        sent = ("requests.jsonl", lines, "application/jsonl")
        file = self._id_in(await self._exchange("/files", file=sent))
        if isinstance(file, AttemptFailure):
            return file
        batch = {"input_file_id": file, "endpoint": self._endpoint, "completion_window": "24h"}
        return self._id_in(await self._post(self._path, json.dumps(batch).encode()))

    async def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        for file in status.files:
            async for line in self._lines(f"/files/{file}/content", max_bytes):
                yield line
                if isinstance(line, AttemptFailure):
                    return

    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "method": "POST", "url": self._endpoint, "body": body}

    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        error, response = field(record, "error"), field(record, "response")
        if isinstance(error, dict):
            match field(error, "code"):
                case "batch_expired":
                    return self._unanswered("expired")
                case "batch_cancelled":
                    return self._unanswered("was cancelled")
                case _:
                    return self.mapper.map_stream_error(*read_error(error))
        status, body = field(response, "status_code"), field(response, "body")
        if not isinstance(status, int) or not 200 <= status < 600:
            return self._garbled("a result without a status")
        if status >= 300:
            kinds, detail = read_error(body)
            return self.mapper.map_status(status, kinds=kinds, detail=detail, headers={})
        if not accumulator.accept_json(body):
            return self._garbled("a result that is no completion")
        return accumulator.reply() or self.mapper.map_dropped()

    def _status(self, batch_id: str, batch: object) -> BatchStatus | None:
        state = field(batch, "status")
        if not isinstance(state, str):
            return None
        counts = field(batch, "request_counts")
        done = read_count(field(counts, "completed")) + read_count(field(counts, "failed"))
        names = (field(batch, "output_file_id"), field(batch, "error_file_id"))
        files = tuple(str(name) for name in names if _is_identifier(name))
        failure = self._refusal(batch) if state == "failed" else None
        return BatchStatus(done, state in ("completed", "failed", "expired", "cancelled"), files, failure)

    def _refusal(self, batch: object) -> AttemptFailure:
        """Return why the provider refused a whole batch. Nothing of it was charged."""
        errors = field(field(batch, "errors"), "data")
        kinds, detail = read_error(errors[0]) if isinstance(errors, list) and errors else ((), "")
        if _BUSY.intersection(kinds):
            return self.mapper.map_status(429, kinds=kinds, detail=detail, headers={})
        refused = self.mapper.map_status(400, kinds=kinds, detail=detail, headers={})
        return AttemptFailure(ModelRejected, refused.what, refused.remedy)


def _is_identifier(value: object) -> bool:
    """Return whether `value` may be a part of a path."""
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None
