"""A provider for measuring: Chat Completions over HTTP, streamed, every answer after a fixed time.

Run as a program it prints its port and serves until its standard input ends. It does next to nothing for a
request, so that what is measured is the driver.
"""

from __future__ import annotations

import asyncio
import json
import sys

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _stream(text: str) -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {
            **base,
            "choices": [],
            "usage": {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 510},
        },
    ]
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    body += b"data: [DONE]\n\n"
    return _HEAD + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


async def _serve(latency: float) -> None:
    reply = _stream("The slice says nothing of note.")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(latency)
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
