"""A provider for benchmarks: Chat Completions and Messages over HTTP on this machine, with a fixed latency.

It does almost nothing for a request, so that a benchmark measures the driver. Run as a program, it prints its
port and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["provider"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_TEXT = "The slice says nothing of note."


@contextmanager
def provider(latency: float, root: str = _TEXT) -> Iterator[str]:
    """Start a provider in its own process, and yield its URL. `root` is its reply to prompts that ask for a
    ```repl block; `latency` is in seconds."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(latency), root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()  # its standard input ends it, too, where this process is killed


def _openai(text: str) -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 510}
    chunks: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**base, "choices": [], "usage": usage},
    ]
    return (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    )


def _anthropic(text: str) -> bytes:
    usage = {"input_tokens": 500, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def _answers(text: str) -> tuple[bytes, bytes]:
    """Return the HTTP response with the reply `text` in the request's protocol."""
    completion, message = (
        _HEAD + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        for body in (_openai(text), _anthropic(text))
    )
    return completion, message


async def _serve(latency: float, root: str) -> None:
    to_root, to_child = _answers(root), _answers(_TEXT)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if head.startswith(b"get "):  # a question about the model, as some clients ask
                    writer.write(_NOT_FOUND)
                    continue
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                await asyncio.sleep(latency)
                completion, message = to_root if b"```repl" in body else to_child
                writer.write(message if b"/messages " in head else completion)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), sys.argv[2]))
