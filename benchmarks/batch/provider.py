"""A provider for measuring batches: Chat Completions over HTTP, streamed, each answer after a fixed time.

Run as a program it prints its port and serves until its standard input ends. A root is answered with one
block that looks for what an earlier task left, leaves something itself, asks a child and finalizes.
"""

from __future__ import annotations

import asyncio
import json
import sys

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_BLOCK = """```repl
import builtins, os
left = [name for name in globals() if name.startswith("planted")] + list(vars(builtins).get("seen", []))
left += [name for name in os.listdir(".") if name.startswith("planted")]
planted = builtins.seen = ["planted"]
try:
    open("planted", "w").write("x")
except OSError:
    pass
said = sub_query("What does it say?", (0, min(200, context_meta()["chars"])))
finalize({"left": left, "said": str(said), "first": peek(0, 20)})
```"""


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
    root, child = _stream(_BLOCK), _stream("It says what it says.")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                await asyncio.sleep(latency)
                writer.write(root if b"```repl" in body else child)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
