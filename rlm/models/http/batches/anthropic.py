"""Anthropic's Message Batches."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import datetime
from typing import Any

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

__all__ = ["AnthropicBatches"]

_PATH = "/v1/messages/batches"
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
_LISTED = 100
_PAGES = 10
_SKEW_SECONDS = 600.0


class AnthropicBatches(BatchApi):
    """Implements BatchApi. The API takes no name for a batch, so a lost one is found by its time and size,
    and by the ids of its results."""

    limits = BatchLimits(100_000, 256_000_000)

    def entry(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"custom_id": key, "params": body}

    def outcome(self, record: object, accumulator: StreamAccumulator) -> Reply | AttemptFailure:
        mapper = self.connection.mapper
        result = field(record, "result")
        match field(result, "type"):
            case "succeeded":
                for event in _as_events(field(result, "message")):
                    accumulator.add(event)
                return accumulator.reply() or mapper.map_dropped()
            case "errored":
                return mapper.map_stream_error(*read_error(field(result, "error")))
            case "canceled":
                return cancelled(mapper)
            case "expired":
                return expired(mapper)
            case _:
                return mapper.map_garbled(ValueError("a result of an unknown type"))

    async def create(self, entries: Sequence[bytes], tag: str) -> str | AttemptFailure:
        content = b'{"requests":[' + b",".join(entries) + b"]}"
        made = await self.connection.post(_PATH, content)
        if isinstance(made, AttemptFailure):
            return made
        found = field(made, "id")
        return found if is_identifier(found) else no_identifier(self.connection.mapper)

    async def find(self, sent: SentBatch, known: frozenset[str]) -> str | AttemptFailure | None:
        after = ""
        for _ in range(_PAGES):
            page = await self.connection.get(f"{_PATH}?limit={_LISTED}{after}")
            if isinstance(page, AttemptFailure):
                return page
            listed = field(page, "data")
            listed = listed if isinstance(listed, list) else []
            for one in listed:
                if _created_at(one) < sent.at - _SKEW_SECONDS:
                    return None  # the newest are listed first
                found = field(one, "id")
                if found not in known and is_identifier(found) and _total(one) == sent.requests:
                    return str(found)
            last = field(page, "last_id")
            if field(page, "has_more") is not True or not is_identifier(last):
                return None
            after = f"&after_id={last}"
        return None

    async def status(self, batch_id: str) -> BatchStatus | AttemptFailure:
        batch = await self.connection.get(f"{_PATH}/{batch_id}")
        if isinstance(batch, AttemptFailure):
            return batch
        state = field(batch, "processing_status")
        if not isinstance(state, str):
            return self.connection.mapper.map_garbled(ValueError("a batch without a state"))
        total = _total(batch)
        waiting = read_count(field(field(batch, "request_counts"), "processing"))
        return BatchStatus(total - waiting, total, state == "ended", (batch_id,))

    async def lines(
        self, batch_id: str, status: BatchStatus, *, max_bytes: int
    ) -> AsyncGenerator[bytes | AttemptFailure, None]:
        # Not the URL that the batch names: it could be another host's, which would get the key.
        async for line in self.connection.read_lines(f"{_PATH}/{batch_id}/results", max_bytes=max_bytes):
            yield line

    async def cancel(self, batch_id: str) -> AttemptFailure | None:
        answer = await self.connection.post(f"{_PATH}/{batch_id}/cancel", b"")
        return answer if isinstance(answer, AttemptFailure) else None


def _total(batch: object) -> int:
    counts = field(batch, "request_counts")
    return sum(read_count(field(counts, name)) for name in _COUNTS)


def _created_at(batch: object) -> float:
    try:
        return datetime.fromisoformat(str(field(batch, "created_at")).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _as_events(message: object) -> Iterator[dict[str, Any]]:
    """Yield a whole message as the events of its stream, which is what the accumulator reads."""
    yield {"type": "message_start", "message": message}
    content = field(message, "content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield {"type": "content_block_start", "index": index, "content_block": _opened(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": field(message, "stop_reason"), "stop_sequence": field(message, "stop_sequence")}
    yield {"type": "message_delta", "delta": delta, "usage": field(message, "usage")}
    yield {"type": "message_stop"}


_STREAMED = {"text": "text_delta", "thinking": "thinking_delta", "signature": "signature_delta"}
"""The fields of a block that a stream sends in pieces."""


def _opened(block: object) -> object:
    """Return a block as a stream opens it: without what follows in deltas."""
    if not isinstance(block, dict):
        return block
    opened = {**block, **{name: "" for name in _STREAMED if name in block}}
    return {**opened, "input": {}} if block.get("type") == "tool_use" else opened


def _deltas(block: object) -> Iterator[dict[str, Any]]:
    for name, kind in _STREAMED.items():
        value = field(block, name)
        if isinstance(value, str) and value:
            yield {"type": kind, name: value}
    if field(block, "type") == "tool_use":
        yield {"type": "input_json_delta", "partial_json": json.dumps(field(block, "input"))}
