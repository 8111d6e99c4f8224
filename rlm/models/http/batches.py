"""The batch APIs of Anthropic and OpenAI: many requests in one upload, answered within 24 hours."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar

from rlm.errors import ConfigurationError
from rlm.models.base import Model, Reply, Request
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.errors import AttemptFailure, read_error
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_EVENT, RESULTS_TYPE, ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import count_in, field, list_in, text_in

__all__ = ["BatchApi", "BatchStatus", "batch_api_of"]

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,128}")
_BUSY = {"token_limit_exceeded", "request_limit_exceeded", "rate_limit_exceeded"}
"""Errors of a whole batch that pass: other batches of the account fill its queue."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """`done` requests have a result. `files` are the paths of the results once the batch has ended. `failure`
    is set when the provider refused the batch as a whole."""

    done: int
    ended: bool
    files: tuple[str, ...] = ()
    failure: AttemptFailure | None = None


class BatchApi(ABC):
    """The batch API of one model's provider. Failures are returned, not raised. What a provider sends is
    bounded. `has_answered` becomes True with the first answer of the endpoint."""

    max_requests: ClassVar[int]
    """How many requests one batch may have."""
    price_share: ClassVar[float] = 0.5
    """The share of the list price that a request of a batch costs."""
    _path: ClassVar[str]

    def __init__(self, model: HttpModel) -> None:
        self.mapper = model.mapper
        self._model = model
        self.has_answered = False

    def encode(self, key: str, request: Request) -> bytes:
        """Return the entry of a request in a batch that knows it by the id `key`."""
        return json.dumps(self._entry(key, self._body(request)), ensure_ascii=False).encode(errors="replace")

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
            return self.mapper.describe("no batch", given=batch_id) if batch.status == 404 else batch
        return self._status(batch_id, batch) or self._garbled("a batch without a state")

    async def cancel(self, batch_id: str) -> AttemptFailure | None:
        """Cancel a batch. Requests in progress may still be answered and charged."""
        answer = await self._exchange(f"{self._path}/{batch_id}/cancel", content=b"")
        return answer if isinstance(answer, AttemptFailure) else None

    async def results(
        self, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[tuple[str, object] | AttemptFailure, None]:
        """Yield the results with their ids. A line that is no result, or longer than any honest one, is
        skipped. Ends with the failure if they cannot be read to their end, or have more than `max_bytes`."""
        try:
            for path in status.files:
                async with aclosing(await self._model.exchange(path, {"Accept": RESULTS_TYPE})) as response:
                    size, line = 0, b""
                    async for chunk in response.chunks():
                        size += len(chunk)
                        if size > max_bytes:
                            raise ReplyTooLarge(f"results of more than {max_bytes:,} bytes")
                        *ended, line = (line + chunk).split(b"\n")
                        for one in ended:
                            if (result := _read_result(one)) is not None:
                                yield result
                        line = line if len(line) <= MAX_EVENT else b""
                    if (result := _read_result(line)) is not None:
                        yield result
        except Exception as error:  # the boundary to the provider: it may send anything
            yield self.mapper.map_exception(error)

    @abstractmethod
    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        """Send a batch and return the provider's id of it."""

    @abstractmethod
    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]: ...

    @abstractmethod
    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure: ...

    @abstractmethod
    def _status(self, batch_id: str, batch: object) -> BatchStatus | None: ...

    def _reply_in(self, body: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        if not accumulator.accept_json(body):
            return self._garbled("a result that is no reply")
        return accumulator.reply() or self.mapper.describe("dropped")

    def _garbled(self, what: str) -> AttemptFailure:
        return self.mapper.map_exception(ValueError(what))

    def _body(self, request: Request) -> dict[str, Any]:
        body = self._model.request_body(request)
        return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}

    async def _create(self, path: str, **sent: Any) -> str | AttemptFailure:
        """Return the id of what is created. Ids become parts of paths, so one of another form is refused."""
        answer = await self._exchange(path, **sent)
        if isinstance(answer, AttemptFailure):
            return answer
        made = text_in(answer, "id")
        return made if _IDENTIFIER.fullmatch(made) else self._garbled("an answer without an id")

    async def _exchange(self, path: str, **sent: Any) -> Any | AttemptFailure:
        """Return the JSON of an answer."""
        try:
            answer = await self._model.exchange(path, {}, **sent)
            return parse_json(await answer.read_to_end())
        except Exception as error:  # the boundary to the provider: it may send anything
            failure = self.mapper.map_exception(error)
            self.has_answered = self.has_answered or failure.reason != "unreachable"
            return failure


def _read_result(line: bytes) -> tuple[str, object] | None:
    try:
        record = parse_json(line)
    except (ValueError, ReplyTooLarge, RecursionError):
        return None
    key = field(record, "custom_id")
    return (key, record) if isinstance(key, str) else None


class AnthropicBatches(BatchApi):
    """Anthropic's Message Batches."""

    max_requests = 100_000
    _path = "/v1/messages/batches"

    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        return await self._create(self._path, content=b'{"requests":[' + b",".join(entries) + b"]}")

    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "params": body}

    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        match field(record, "result", "type"):
            case "succeeded":
                return self._reply_in(field(record, "result", "message"), accumulator)
            case "errored":
                return self.mapper.map_stream_error(*read_error(field(record, "result", "error")))
            case "canceled":
                return self.mapper.describe("unanswered", given="was cancelled")
            case "expired":
                return self.mapper.describe("unanswered", given="expired")
        return self._garbled("a result of an unknown type")

    def _status(self, batch_id: str, batch: object) -> BatchStatus | None:
        state = text_in(batch, "processing_status")
        names = ("succeeded", "errored", "canceled", "expired")
        done = sum(count_in(batch, "request_counts", name) for name in names)
        # Not the URL that the batch names: it could be another host's, which would get the key.
        files = (f"{self._path}/{batch_id}/results",)
        return BatchStatus(done, state == "ended", files) if state else None


class OpenAIBatches(BatchApi):
    """OpenAI's Batch API: a file of requests goes up, a file of replies and one of errors come down. All
    requests of a batch are for one model and one API."""

    max_requests = 50_000
    _path = "/batches"

    async def create(self, entries: Sequence[bytes]) -> str | AttemptFailure:
        lines = b"\n".join(entries) + b"\n"
        file = await self._create("/files", file=("requests.jsonl", lines, "application/jsonl"))
        if isinstance(file, AttemptFailure):
            return file
        batch = {"input_file_id": file, "endpoint": self._api, "completion_window": "24h"}
        return await self._create(self._path, content=json.dumps(batch).encode())

    @property
    def _api(self) -> str:
        return f"/v1{self._model.path}"

    def _entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "method": "POST", "url": self._api, "body": body}

    def _outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        error = field(record, "error")
        match field(error, "code"):
            case "batch_expired":
                return self.mapper.describe("unanswered", given="expired")
            case "batch_cancelled":
                return self.mapper.describe("unanswered", given="was cancelled")
        if isinstance(error, dict):
            return self.mapper.map_stream_error(*read_error(error))
        status, body = field(record, "response", "status_code"), field(record, "response", "body")
        if not isinstance(status, int) or not 200 <= status < 600:
            return self._garbled("a result without a status")
        return self._reply_in(body, accumulator) if status < 300 else self._refusal(status, body)

    def _status(self, batch_id: str, batch: object) -> BatchStatus | None:
        state = text_in(batch, "status")
        done = count_in(batch, "request_counts", "completed") + count_in(batch, "request_counts", "failed")
        names = (text_in(batch, "output_file_id"), text_in(batch, "error_file_id"))
        files = tuple(f"/files/{name}/content" for name in names if _IDENTIFIER.fullmatch(name))
        failure = None
        if state == "failed":  # nothing of it was charged
            errors = list_in(batch, "errors", "data")
            is_busy = _BUSY.intersection(read_error(errors[0])[0] if errors else ())
            failure = self._refusal(429 if is_busy else 400, errors[0] if errors else None)
        ended = state in ("completed", "failed", "expired", "cancelled")
        return BatchStatus(done, ended, files, failure) if state else None

    def _refusal(self, status: int, error: object) -> AttemptFailure:
        kinds, detail = read_error(error)
        return self.mapper.map_status(status, kinds=kinds, detail=detail, headers={})


_APIS: dict[str, type[BatchApi]] = {"anthropic": AnthropicBatches, "openai": OpenAIBatches}


def batch_api_of(model: Model) -> BatchApi:
    """Return the batch API of a model's provider. Raises ConfigurationError if there is none, or the server
    is not the provider's: nobody knows what it charges."""
    if isinstance(model, HttpModel) and model.prefix in _APIS and not model.endpoint.private:
        return _APIS[model.prefix](model)
    forms = ", ".join(f"{prefix}:NAME" for prefix in _APIS)
    raise ConfigurationError(
        f"{model.name} has no batch API, which --slow needs: choose {forms} for every model of the run, "
        "or leave --slow out"
    )
