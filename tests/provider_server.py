"""Play a provider on this machine: a real HTTP server that speaks Anthropic Messages and OpenAI Chat
Completions, streamed, in the bytes of their protocols, and misbehaves on demand.

It runs on its own thread, so a test may talk to it from its event loop, from a thread or from another
process. Every request is answered by the next behaviour of `play(...)`, else by `always`, which is a
behaviour, a text, or a function of the request that returns one of these.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provider_streams import ollama_lines, responses_events


@dataclass(frozen=True)
class Answer:
    """A whole reply, streamed in pieces of `piece` characters. `usage` is (input, output, cached) tokens,
    input including cached; None for a server that counts none. `calls` are the name and the arguments of
    tools that the reply calls, which come after its text. `finish` is in OpenAI's words. `delay`
    is the seconds before the reply begins, `step` those after each event, and `pause` those between its last
    event and the end of the HTTP answer. Unless `ended`, the connection is cut instead of that end. OpenAI's
    cache wrote `written` tokens, and of those that Anthropic's wrote, `kept_1h` are kept for an hour.
    """

    text: str = "ok"
    finish: str = "stop"
    usage: tuple[int, int, int] | None = (10, 5, 0)
    piece: int = 7
    reasoning: str = ""
    delay: float = 0.0
    step: float = 0.0
    pause: float = 0.0
    ended: bool = True
    calls: tuple[tuple[str, str], ...] = ()
    kept_1h: int = 0
    written: int = 0


@dataclass(frozen=True)
class Status:
    """An error before any stream."""

    code: int
    message: str = "no"
    kind: str = "some_error"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dropped:
    """Cuts the connection after `text`, with `reset` by a TCP reset. With `politely` the stream ends as
    HTTP requires, too soon.
    """

    text: str = "half a re"
    politely: bool = False
    reset: bool = False


@dataclass(frozen=True)
class StreamError:
    """Sends an error event after `text`."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"
    text: str = "half a re"


@dataclass(frozen=True)
class Silence:
    """Sends nothing after `text`, until the other side hangs up."""

    text: str = "half a re"


@dataclass(frozen=True)
class Raw:
    """Any body under any type ("" for none) and status. With `piece`, it is sent in pieces of so many
    bytes."""

    body: bytes
    content_type: str = "text/event-stream"
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    piece: int = 0


Behaviour = Answer | Status | Dropped | StreamError | Silence | Raw
Always = Behaviour | str | Callable[["Received"], Behaviour | str]


@dataclass(frozen=True)
class Received:
    """One request as it was received. `at` is in seconds of the monotonic clock."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @property
    def system(self) -> str:
        """Return the system text, of either protocol."""
        blocks = self.body.get("system") or [m for m in self.body["messages"] if m["role"] == "system"]
        return "\n".join(block.get("text") or block.get("content") for block in blocks)

    @property
    def prompt(self) -> str:
        """Return the text of the last user message, of either protocol."""
        content = [m for m in self.body["messages"] if m["role"] == "user"][-1]["content"]
        return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)

    @property
    def images(self) -> list[tuple[str, bytes]]:
        """Return the media type and bytes of each picture of the last user message."""
        content = [m for m in self.body["messages"] if m["role"] == "user"][-1]["content"]
        found = []
        for block in content if isinstance(content, list) else ():
            if block["type"] == "image":
                source = block["source"]
                assert source["type"] == "base64"
                found.append((source["media_type"], base64.b64decode(source["data"])))
            elif block["type"] == "image_url":
                head, _, data = block["image_url"]["url"].partition(";base64,")
                found.append((head.removeprefix("data:"), base64.b64decode(data)))
        return found


class ProviderServer:
    """Use as a context manager. `url` has no `/v1`; `hung_up` is set when a client leaves a Silence."""

    def __init__(self, always: Always = "ok", *, tls: ssl.SSLContext | None = None) -> None:
        self.always = always
        self.requests: list[Received] = []
        self.connections = 0
        self.hung_up = threading.Event()
        self._tls = tls
        self._playing: deque[Behaviour] = deque()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider-server", daemon=True)

    def __enter__(self) -> ProviderServer:
        self._thread.start()
        serving = asyncio.start_server(self._serve_connection, "127.0.0.1", 0, ssl=self._tls, backlog=1000)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        scheme, host = ("https", "localhost") if self._tls else ("http", "127.0.0.1")
        return f"{scheme}://{host}:{self.port}"

    def play(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so, in order."""
        self._playing.extend(behaviours)

    async def _close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()
            try:
                await asyncio.wait_for(writer.wait_closed(), 0.5)
            except (OSError, TimeoutError, asyncio.CancelledError):
                writer.transport.abort()
                await asyncio.sleep(0)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. False when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split(" ")[1]
        behaviour = self._answer(head[0].split(" ")[0], path, headers, body)
        stream = _stream_of(path)
        try:
            return await self._behave(behaviour, stream, reader, writer)
        except ConnectionError:
            # A client that leaves before the first bytes are sent hangs up, too.
            if isinstance(behaviour, Silence):
                self.hung_up.set()
            raise

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Behaviour:
        if method == "GET" or path.endswith(
            "/api/show"
        ):  # a question about its models, which it does not answer
            return Raw(b"{}", "application/json", 404)
        received = Received(path, headers, json.loads(body or b"{}"), time.monotonic())
        self.requests.append(received)
        return self._playing.popleft() if self._playing else self._usual(received)

    def _usual(self, received: Received) -> Behaviour:
        made = self.always(received) if callable(self.always) else self.always
        return Answer(made) if isinstance(made, str) else made

    async def _behave(
        self,
        behaviour: Behaviour,
        events: Callable[[Answer | Dropped | StreamError | Silence], list[bytes]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        if isinstance(behaviour, Status):
            error = {"type": behaviour.kind, "message": behaviour.message, "code": behaviour.kind}
            body = json.dumps({"type": "error", "error": error}).encode()
            behaviour = Raw(body, "application/json", behaviour.code, behaviour.headers)
        if isinstance(behaviour, Raw):
            return await _send_raw(behaviour, writer)
        if isinstance(behaviour, Answer):
            await asyncio.sleep(behaviour.delay)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n"
            % (b"application/x-ndjson" if events is ollama_lines else b"text/event-stream")
        )
        for event in events(behaviour):
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
            if isinstance(behaviour, Answer) and behaviour.step:
                await asyncio.sleep(behaviour.step)
        if isinstance(behaviour, Silence):
            await reader.read(1)
            self.hung_up.set()
            return False
        if isinstance(behaviour, Dropped) and not behaviour.politely:
            if behaviour.reset:
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
            return False
        if isinstance(behaviour, Answer):
            await asyncio.sleep(behaviour.pause)
            if not behaviour.ended:
                writer.transport.abort()
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _send_raw(raw: Raw, writer: asyncio.StreamWriter) -> bool:
    """Return whether the connection can go on: False if the body is shorter than its header says."""
    headers = {"content-type": raw.content_type} if raw.content_type else {}
    headers |= (
        {"transfer-encoding": "chunked"} if raw.piece else {"content-length": str(len(raw.body))}
    ) | raw.headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {raw.code} X\r\n{lines}\r\n".encode())
    if not raw.piece:
        writer.write(raw.body)
    else:
        for start in range(0, len(raw.body), raw.piece):
            piece = raw.body[start : start + raw.piece]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return headers.get("content-length", str(len(raw.body))) == str(len(raw.body))


def _stream_of(path: str) -> Callable[[Answer | Dropped | StreamError | Silence], list[bytes]]:
    if path.endswith(("/messages", ":streamRawPredict")):
        return anthropic_events
    if path.endswith("/responses"):
        return responses_events
    return ollama_lines if path.endswith("/api/chat") else openai_events


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def anthropic_events(behaviour: Answer | Dropped | StreamError | Silence) -> list[bytes]:
    """The stream of the Messages API."""

    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    answer = behaviour if isinstance(behaviour, Answer) else Answer(behaviour.text)
    tokens_in, tokens_out, cached = answer.usage or (0, 0, 0)
    usage: dict[str, Any] = {
        "input_tokens": tokens_in - cached,
        "cache_read_input_tokens": cached // 2,
        "cache_creation_input_tokens": cached - cached // 2,
        "output_tokens": 1,
    }
    if answer.kept_1h:
        usage["cache_creation"] = {
            "ephemeral_1h_input_tokens": answer.kept_1h,
            "ephemeral_5m_input_tokens": usage["cache_creation_input_tokens"] - answer.kept_1h,
        }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "m",
        "usage": usage,
    }
    events = [event("message_start", message={**message, "stop_reason": None}), event("ping")]
    if answer.reasoning:
        events.append(
            event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})
        )
        delta = {"type": "thinking_delta", "thinking": answer.reasoning}
        events.append(event("content_block_delta", index=0, delta=delta))
        events.append(event("content_block_stop", index=0))
    events.append(event("content_block_start", index=1, content_block={"type": "text", "text": ""}))
    events += [
        event("content_block_delta", index=1, delta={"type": "text_delta", "text": piece})
        for piece in _pieces(answer.text, answer.piece)
    ]
    if isinstance(behaviour, StreamError):
        error = {"type": behaviour.kind, "message": behaviour.message}
        return [*events, event("error", error=error)]
    if not isinstance(behaviour, Answer):
        return events
    events.append(event("content_block_stop", index=1))
    for index, (name, arguments) in enumerate(answer.calls, 2):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        events.append(event("content_block_start", index=index, content_block=block))
        for piece in ["", *_pieces(arguments, answer.piece)]:
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    stop = {
        "stop": "tool_use" if answer.calls else "end_turn",
        "length": "max_tokens",
        "content_filter": "refusal",
    }
    delta = {"stop_reason": stop.get(answer.finish, answer.finish), "stop_sequence": None}
    events.append(event("message_delta", delta=delta, usage={"output_tokens": tokens_out}))
    return [*events, event("message_stop")]


def openai_events(behaviour: Answer | Dropped | StreamError | Silence) -> list[bytes]:
    """The stream of Chat Completions."""

    def chunk(**fields: Any) -> bytes:
        base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**base, **fields})}\n\n".encode()

    def choice(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])

    answer = behaviour if isinstance(behaviour, Answer) else Answer(behaviour.text)
    events = [choice({"role": "assistant", "content": ""})]
    if answer.reasoning:
        events.append(choice({"reasoning_content": answer.reasoning}))
    events += [choice({"content": piece}) for piece in _pieces(answer.text, answer.piece)]
    if isinstance(behaviour, StreamError):
        error = {"type": behaviour.kind, "code": behaviour.kind, "message": behaviour.message}
        return [*events, f"data: {json.dumps({'error': error})}\n\n".encode()]
    if not isinstance(behaviour, Answer):
        return events
    for index, (name, arguments) in enumerate(answer.calls):
        begun = {"index": index, "id": f"call_{index}", "type": "function"}
        events.append(choice({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]}))
        for piece in _pieces(arguments, answer.piece):
            more = {"index": index, "function": {"arguments": piece}}
            events.append(choice({"tool_calls": [more]}))
    finish = "tool_calls" if answer.calls and answer.finish == "stop" else answer.finish
    events.append(choice({}, finish))
    if answer.usage is not None:
        tokens_in, tokens_out, cached = answer.usage
        usage = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": answer.written},
        }
        events.append(chunk(choices=[], usage=usage))
    return [*events, b"data: [DONE]\n\n"]
