"""OpenAI's Batch API: a file of requests goes up, a file of replies and one of errors come down."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from rlm.errors import ModelRejected
from rlm.models.base import Reply
from rlm.models.http.batches.api import (
    BatchApi,
    BatchLimits,
    BatchStatus,
    SentBatch,
    is_identifier,
    read_count,
)
from rlm.models.http.batches.outcomes import cancelled, expired, no_identifier
from rlm.models.http.error_mapping import AttemptFailure
from rlm.models.http.streaming import StreamAccumulator, read_error
from rlm.models.http.wire_messages import field

__all__ = ["OpenAIBatches"]

_ENDPOINT = "/v1/chat/completions"
_TAG = "rlm_batch"
_ENDED = ("completed", "failed", "expired", "cancelled")
_LISTED = 100
_PAGES = 10
_SKEW_SECONDS = 600.0
_BUSY = ("token_limit_exceeded", "request_limit_exceeded", "rate_limit_exceeded")
"""Errors of a whole batch that pass: other batches of the account fill its queue."""


class OpenAIBatches(BatchApi):
    """Implements BatchApi. All requests of a batch are for one model. The batch's metadata holds our tag."""

    limits = BatchLimits(50_000, 200_000_000)

    def entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}

    def outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        mapper = self.connection.mapper
        error, response = field(record, "error"), field(record, "response")
        if isinstance(error, dict):
            match field(error, "code"):
                case "batch_expired":
                    return expired(mapper)
                case "batch_cancelled":
                    return cancelled(mapper)
                case _:
                    return mapper.map_stream_error(*read_error(error))
        status, body = field(response, "status_code"), field(response, "body")
        if not isinstance(status, int) or not 200 <= status < 600:
            return mapper.map_garbled(ValueError("a result without a status"))
        if status >= 300:
            kinds, detail = read_error(body)
            return mapper.map_status(status, kinds=kinds, detail=detail, headers={})
        if not accumulator.accept_json(body):
            return mapper.map_garbled(ValueError("a result that is no completion"))
        return accumulator.reply() or mapper.map_dropped()

    async def create(self, entries: Sequence[bytes], tag: str) -> str | AttemptFailure:
        lines = b"\n".join(entries) + b"\n"
        uploaded = await self.connection.upload("/files", {"purpose": "batch"}, f"{tag}.jsonl", lines)
        if isinstance(uploaded, AttemptFailure):
            return uploaded
        file = field(uploaded, "id")
        if not is_identifier(file):
            return no_identifier(self.connection.mapper)
        batch = {
            "input_file_id": file,
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {_TAG: tag},
        }
        made = await self.connection.post("/batches", json.dumps(batch).encode())
        if isinstance(made, AttemptFailure):
            return made
        found = field(made, "id")
        return found if is_identifier(found) else no_identifier(self.connection.mapper)

    async def find(self, sent: SentBatch, known: frozenset[str]) -> str | AttemptFailure | None:
        after = ""
        for _ in range(_PAGES):
            page = await self.connection.get(f"/batches?limit={_LISTED}{after}")
            if isinstance(page, AttemptFailure):
                return page
            listed = field(page, "data")
            listed = listed if isinstance(listed, list) else []
            for one in listed:
                found = field(one, "id")
                if field(field(one, "metadata"), _TAG) == sent.tag and is_identifier(found):
                    return str(found)
                created = field(one, "created_at")
                if not isinstance(created, int) or created < sent.at - _SKEW_SECONDS:
                    return None  # the newest are listed first
            last = field(listed[-1], "id") if listed else None
            if field(page, "has_more") is not True or not is_identifier(last):
                return None
            after = f"&after={last}"
        return None

    async def status(self, batch_id: str) -> BatchStatus | AttemptFailure:
        batch = await self.connection.get(f"/batches/{batch_id}")
        if isinstance(batch, AttemptFailure):
            return batch
        state = field(batch, "status")
        if not isinstance(state, str):
            return self.connection.mapper.map_garbled(ValueError("a batch without a state"))
        counts = field(batch, "request_counts")
        done = read_count(field(counts, "completed")) + read_count(field(counts, "failed"))
        names = (field(batch, "output_file_id"), field(batch, "error_file_id"))
        files = tuple(str(name) for name in names if is_identifier(name))
        failure = self._describe_failure(batch) if state == "failed" else None
        return BatchStatus(done, read_count(field(counts, "total")), state in _ENDED, files, failure)

    async def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        for file in status.files:
            async for line in self.connection.read_lines(f"/files/{file}/content", max_bytes=max_bytes):
                yield line
                if isinstance(line, AttemptFailure):
                    return

    async def cancel(self, batch_id: str) -> AttemptFailure | None:
        answer = await self.connection.post(f"/batches/{batch_id}/cancel", b"")
        return answer if isinstance(answer, AttemptFailure) else None

    def _describe_failure(self, batch: object) -> AttemptFailure:
        """Return why the provider refused a whole batch. Nothing of it was charged."""
        mapper = self.connection.mapper
        errors = field(field(batch, "errors"), "data")
        kinds, detail = read_error(errors[0]) if isinstance(errors, list) and errors else ((), "")
        if set(kinds) & set(_BUSY):
            return mapper.map_status(429, kinds=kinds, detail=detail, headers={})
        refused = mapper.map_status(400, kinds=kinds, detail=detail, headers={})
        return AttemptFailure(ModelRejected, refused.what, refused.remedy)
