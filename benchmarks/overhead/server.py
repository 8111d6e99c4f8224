"""A scripted Chat Completions server. It notes when each call arrives.

Run as a program, it prints its port and serves until its standard input ends. `PUT /script` sets what the
next run gets: `{"root": [text, …], "inner": [text, …], "child": text, "latency": seconds}`. `GET /calls`
returns the calls since then: `[{"at", "role", "tokens"}]`, `at` on the monotonic clock of the machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from aiohttp import web

__all__ = ["INNER", "OUTER"]

OUTER = "OUTERTASK"
"""The task of every run holds this word."""

INNER = "INNERTASK"
"""The task of every sub-RLM holds this word."""


class ScriptedServer:
    """Answers the calls of one run after another."""

    def __init__(self) -> None:
        self._script: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._turns = {"root": 0, "inner": 0}

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=1 << 30)
        app.add_routes(
            [
                web.put("/script", self._set_script),
                web.get("/calls", self._get_calls),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return app

    async def _set_script(self, request: web.Request) -> web.Response:
        self._script = await request.json()
        self._calls, self._turns = [], {"root": 0, "inner": 0}
        return web.Response()

    async def _get_calls(self, request: web.Request) -> web.Response:
        return web.json_response(
            [{"at": one["at"], "role": one["role"], "tokens": _tokens(one["text"])} for one in self._calls]
        )

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        at = time.monotonic()
        body = await request.json()
        text = "\n".join(_text(one.get("content")) for one in body["messages"])
        role = _role(body["model"], text)
        # Texts of children are long and many; only the tokens of the roots are told.
        self._calls.append({"at": at, "role": role, "text": "" if role == "child" else text})
        if role == "child":
            await asyncio.sleep(self._script["latency"])
            reply = self._script["child"]
        else:
            turn, script = self._turns[role], self._script[role]
            if turn >= len(script):
                error = {"message": f"the script has no {role} turn {turn}"}
                return web.json_response({"error": error}, status=400)
            reply = script[turn]
            self._turns[role] += 1
        usage = {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 510}
        base = {"id": "c", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": reply},
                "finish_reason": "stop",
            }
            return web.json_response(
                {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            )
        chunk = {**base, "object": "chat.completion.chunk"}
        choices: list[dict[str, Any]] = [
            {"index": 0, "delta": {"role": "assistant", "content": reply}},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        events = [*({**chunk, "choices": [one]} for one in choices), {**chunk, "choices": [], "usage": usage}]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in events))
        await response.write(b"data: [DONE]\n\n")
        return response


def _role(model: str, text: str) -> str:
    """Tell who calls. The model of a root is `root`; children and sub-RLMs may have either."""
    if model == "root" and OUTER in text:
        return "root"
    return "inner" if INNER in text else "child"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _tokens(text: str) -> int:
    import bpe_openai

    return len(bpe_openai.get_encoding("cl100k_base").encode(text)) if text else 0


async def _serve() -> None:
    runner = web.AppRunner(ScriptedServer().app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
