"""Play the batch API of a provider: a real HTTP server that speaks Anthropic's Message Batches and OpenAI's
Files and Batches, and misbehaves on demand. Requests of a batch are answered like those of ProviderServer.

A batch ends after `polls` polls, or with `release()` if it is held. `billed` counts the answers to each
request, by its custom id: a request that is answered twice was paid twice.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from provider_server import Always, Answer, Behaviour, Dropped, ProviderServer, Raw, Received, Silence, Status

from rlm.models.base import Message, Request

Result = dict[str, Any]


@dataclass
class Batch:
    """A batch as the server holds it. `entries` are its requests, by custom id."""

    id: str
    entries: dict[str, dict[str, Any]]
    metadata: dict[str, str]
    created_at: float
    state: str = "in_progress"
    polls: int = 0
    lines: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)


class BatchServer(ProviderServer):
    """Use as a context manager. `url` has no `/v1`.

    `outcome` maps a request to its result: None for an answer by `always`, or one of errored, server_error,
    canceled, expired, absent. `on_lines` may change the lines of results. `lose` lets so many creations
    succeed without an answer; with `stalls` they are never answered. `refuse` answers the next creations,
    `refuse_polls` the next polls. `cut` drops the next downloads in their middle. `fails` makes whole batches
    fail with that code (OpenAI only).
    """

    def __init__(self, always: Always = "ok") -> None:
        super().__init__(always)
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, bytes] = {}
        self.billed: Counter[str] = Counter()
        self.created: list[Batch] = []
        self.outcome: Callable[[Received], str | None] = lambda _: None
        self.on_lines: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.refuse: deque[Behaviour] = deque()
        self.refuse_polls: deque[Behaviour] = deque()
        self.lose = 0
        self.stalls = False
        self.cut = 0
        self.polls = 1
        self.fails = ""
        self.held_after: float = math.inf
        self.got_batch = threading.Event()

    def hold(self, after: int = 0) -> None:
        """Let all batches but the first ones wait until `release`."""
        self.held_after = after

    def release(self) -> None:
        self.held_after = math.inf

    @property
    def calls(self) -> int:
        """Return how many requests were answered in batches."""
        return sum(self.billed.values())

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Behaviour:
        path = path.partition("?")[0]
        parts = path.removeprefix("/v1/").removeprefix("messages/").split("/")
        if parts[0] not in ("batches", "files"):
            return super()._answer(method, path, headers, body)
        is_anthropic = path.startswith("/v1/messages")
        if parts[0] == "files":
            return self._upload(headers, body) if method == "POST" else self._download(self.files[parts[1]])
        if len(parts) == 1 and method == "POST":
            return self._create(is_anthropic, json.loads(body))
        batch = self.batches.get(parts[1])
        if batch is None:
            return Status(404, "no such batch", "not_found_error")
        if parts[2:] == ["cancel"]:
            self._end(batch, is_anthropic, "cancelled")
        elif parts[2:] == ["results"]:
            return self._download(b"\n".join(batch.lines) + b"\n")
        elif self.refuse_polls:
            return self.refuse_polls.popleft()
        else:
            self._poll(batch, is_anthropic)
        return _json(self._show(batch, is_anthropic))

    def _upload(self, headers: dict[str, str], body: bytes) -> Behaviour:
        form = BytesParser(policy=HTTP).parsebytes(
            f"content-type: {headers['content-type']}\r\n\r\n".encode() + body
        )
        fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        assert fields["purpose"].get_payload(decode=True).strip() == b"batch"
        name = f"file-{len(self.files)}"
        self.files[name] = fields["file"].get_payload(decode=True)
        return _json({"id": name, "object": "file"})

    def _create(self, is_anthropic: bool, body: dict[str, Any]) -> Behaviour:
        if self.refuse:
            return self.refuse.popleft()
        if is_anthropic:
            entries = {one["custom_id"]: one["params"] for one in body["requests"]}
            assert len(entries) == len(body["requests"]), "a custom id occurs twice"
        else:
            assert body["endpoint"] == "/v1/chat/completions"
            assert body["completion_window"] == "24h"
            lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            assert all((line["method"], line["url"]) == ("POST", body["endpoint"]) for line in lines)
            entries = {line["custom_id"]: line["body"] for line in lines}
            assert len({entry["model"] for entry in entries.values()}) == 1
        assert all("stream" not in entry for entry in entries.values())
        name = f"{'msgbatch' if is_anthropic else 'batch'}_{len(self.batches)}"
        batch = Batch(name, entries, body.get("metadata", {}), time.time())
        self.batches[name] = batch
        self.created.append(batch)
        self.got_batch.set()
        if self.stalls:
            return Silence("")
        if self.lose:
            self.lose -= 1
            return Dropped("")
        return _json(self._show(batch, is_anthropic))

    def _poll(self, batch: Batch, is_anthropic: bool) -> None:
        batch.polls += 1
        is_held = self.created.index(batch) >= self.held_after
        if batch.state == "in_progress" and not is_held and batch.polls >= self.polls:
            self._end(batch, is_anthropic, "failed" if self.fails and not is_anthropic else "completed")

    def _end(self, batch: Batch, is_anthropic: bool, state: str) -> None:
        if batch.state != "in_progress":
            return
        batch.state = state
        for key, entry in batch.entries.items() if state != "failed" else ():
            received = Received("/batch", {}, entry, time.monotonic())
            self.requests.append(received)
            kind = "canceled" if state == "cancelled" else self.outcome(received)
            if kind == "absent":
                continue
            is_error = kind is not None
            if kind is None:
                self.billed[key] += 1
            make = _anthropic_result if is_anthropic else _openai_result
            line = json.dumps(make(key, kind, self._usual(received), entry)).encode()
            (batch.errors if is_error and not is_anthropic else batch.lines).append(line)
        batch.lines = self.on_lines(batch.lines)

    def _show(self, batch: Batch, is_anthropic: bool) -> dict[str, Any]:
        total, ended = len(batch.entries), batch.state != "in_progress"
        if is_anthropic:
            zero = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch.created_at))
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": {**zero, "succeeded" if ended else "processing": total},
                "created_at": when,
                "results_url": "https://elsewhere.example/results" if ended else None,
            }
        shown: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "status": batch.state,
            "metadata": batch.metadata,
            "created_at": int(batch.created_at),
            "request_counts": {
                "total": total,
                "completed": len(batch.lines),
                "failed": len(batch.errors),
            },
        }
        for kind, lines in (("output", batch.lines), ("error", batch.errors)):
            if ended and lines:
                name = f"{kind}-{batch.id}"
                self.files[name] = b"\n".join(lines) + b"\n"
                shown[f"{kind}_file_id"] = name
        if batch.state == "failed":
            shown["errors"] = {"data": [{"code": self.fails, "message": "the batch is no good"}]}
        return shown

    def _download(self, content: bytes) -> Behaviour:
        if self.cut:
            self.cut -= 1
            half = content[: len(content) // 2]
            return Raw(half, "application/x-jsonl", headers={"content-length": str(len(content))})
        return Raw(content, "application/x-jsonl")


def _json(value: Any) -> Raw:
    return Raw(json.dumps(value).encode(), "application/json")


def _anthropic_result(key: str, kind: str | None, made: Behaviour, entry: dict[str, Any]) -> Result:
    if kind in ("canceled", "expired"):
        return {"custom_id": key, "result": {"type": kind}}
    if kind is not None:
        type_ = "api_error" if kind == "server_error" else "invalid_request_error"
        error = {"type": "error", "error": {"type": type_, "message": "no good"}}
        return {"custom_id": key, "result": {"type": "errored", "error": error}}
    assert isinstance(made, Answer)
    tokens_in, tokens_out, _ = made.usage or (0, 0, 0)
    content = [{"type": "thinking", "thinking": made.reasoning, "signature": "s"}] if made.reasoning else []
    stop = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": entry["model"],
        "content": [*content, {"type": "text", "text": made.text}],
        "stop_reason": stop.get(made.finish, made.finish),
        "stop_sequence": None,
        "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
    }
    return {"custom_id": key, "result": {"type": "succeeded", "message": message}}


def _openai_result(key: str, kind: str | None, made: Behaviour, entry: dict[str, Any]) -> Result:
    if kind in ("canceled", "expired"):
        code = "batch_cancelled" if kind == "canceled" else "batch_expired"
        error = {"code": code, "message": "not executed"}
        return {"id": "r", "custom_id": key, "response": None, "error": error}
    if kind is not None:
        status = 500 if kind == "server_error" else 400
        body: dict[str, Any] = {"error": {"type": "invalid_request_error", "message": "no good"}}
        response = {"status_code": status, "request_id": "q", "body": body}
        return {"id": "r", "custom_id": key, "response": response, "error": None}
    assert isinstance(made, Answer)
    body = {
        "id": "c1",
        "object": "chat.completion",
        "model": entry["model"],
        "choices": [
            {
                "index": 0,
                "finish_reason": made.finish,
                "message": {"role": "assistant", "content": made.text},
            }
        ],
    }
    if made.usage is not None:
        tokens_in, tokens_out, _ = made.usage
        body["usage"] = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    response = {"status_code": 200, "request_id": "q", "body": body}
    return {"id": "r", "custom_id": key, "response": response, "error": None}


def ask(prompt: str, *, run: str = "run/", role: Any = "child", most: int = 100, **fields: Any) -> Request:
    """Return a request of a run."""
    messages = (Message("system", "be brief"), Message("user", prompt))
    return Request(role, messages, most, "task", run=run, **fields)
