"""A scripted Chat Completions server. It notes when each call arrives, and misbehaves as it is told.

Run as a program, it prints its port and serves until its standard input ends. `PUT /script` sets what the
next run gets (see Script). `GET /calls` returns the calls since then: `[{"at", "role", "tokens"}]`, `at` on
the monotonic clock of the machine. `GET /seen` returns what else it saw (see Seen).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from aiohttp import web

__all__ = ["INNER", "OUTER", "Script", "Seen"]

OUTER = "OUTERTASK"
"""The task of every run holds this word."""

INNER = "INNERTASK"
"""The task of every sub-RLM holds this word."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a run gets. `root` and `inner` are the replies to roots, turn by turn, `child` that to every child
    after `latency` seconds.

    marks: where given, the turn of a root is the last one whose mark is in its prompt, not a count.
    hold: a root's turn that is not answered the first time; -1 is none.
    refuse_seconds: for so long after the first child, children get 429.
    cut: so many first calls of the root are cut off in the middle of the reply.
    poison: children whose prompt holds it get 500.
    watched: words that are looked for in every prompt.
    """

    root: list[str]
    inner: list[str] = field(default_factory=list)
    child: str = "The slice says nothing of note."
    latency: float = 0.0
    marks: list[str] = field(default_factory=list)
    hold: int = -1
    refuse_seconds: float = 0.0
    cut: int = 0
    poison: str = ""
    watched: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Seen:
    """What the server saw since the script was set: the watched words that prompts held, connections by
    cells, children that got a reply, the root's turns, the longest prompt and all prompts of children in
    characters, and whether a turn is held."""

    words: list[str] = field(default_factory=list)
    reached: int = 0
    answered: int = 0
    turns: int = 0
    longest: int = 0
    child_chars: int = 0
    held: bool = False


class ScriptedServer:
    """Answers the calls of one run after another."""

    def __init__(self) -> None:
        self._script = Script([])
        self._seen = Seen()
        self._calls: list[dict[str, Any]] = []
        self._turns = {"root": 0, "inner": 0}
        self._first_child = 0.0
        self._finals = 0

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=1 << 30)
        app.add_routes(
            [
                web.put("/script", self._set_script),
                web.get("/calls", self._get_calls),
                web.get("/seen", self._get_seen),
                web.get("/reached", self._get_reached),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return app

    async def _set_script(self, request: web.Request) -> web.Response:
        self._script, self._seen = Script(**await request.json()), Seen()
        self._calls, self._turns, self._first_child = [], {"root": 0, "inner": 0}, 0.0
        self._finals = 0
        return web.Response()

    async def _get_calls(self, _request: web.Request) -> web.Response:
        return web.json_response(
            [{"at": one["at"], "role": one["role"], "tokens": _tokens(one["text"])} for one in self._calls]
        )

    async def _get_seen(self, _request: web.Request) -> web.Response:
        return web.json_response(asdict(self._seen))

    async def _get_reached(self, _request: web.Request) -> web.Response:
        self._seen.reached += 1
        return web.Response(text="reached")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        at = time.monotonic()
        body = await request.json()
        text = "\n".join(_text(one.get("content")) for one in body["messages"])
        role = _role(body["model"], text)
        # Texts of children are long and many; only the tokens of the roots are told.
        self._calls.append({"at": at, "role": role, "text": "" if role == "child" else text})
        self._seen.child_chars += len(text) if role == "child" else 0
        self._seen.longest = max(self._seen.longest, len(text))
        self._seen.words += [
            one for one in self._script.watched if one in text and one not in self._seen.words
        ]
        reply = await (self._as_child(text) if role == "child" else self._as_root(role, text, request))
        if isinstance(reply, web.Response):
            return reply
        return await _send(request, body, reply)

    async def _as_child(self, text: str) -> str | web.Response:
        script = self._script
        self._first_child = self._first_child or time.monotonic()
        if time.monotonic() - self._first_child < script.refuse_seconds:
            return _error(429, "slow down", {"retry-after": "1"})
        await asyncio.sleep(script.latency)
        if script.poison and script.poison in text:
            return _error(500, "this one always fails")
        self._seen.answered += 1
        return script.child

    async def _as_root(self, role: str, text: str, request: web.Request) -> str | web.Response:
        script, seen = self._script, self._seen
        turn, replies = self._turns[role], script.root if role == "root" else script.inner
        if script.marks and role == "root":
            turn = max(number for number, mark in enumerate(script.marks) if mark in text)
            turn += self._finals if turn == len(script.marks) - 1 else 0
        if turn >= len(replies):
            return _error(400, f"the script has no {role} turn {turn}")
        if role == "root" and turn == script.hold and not seen.held:
            seen.held = True
            await asyncio.sleep(600)
        if role == "root" and seen.turns < script.cut:
            seen.turns += 1
            await _cut_off(request)
        self._turns[role] += 1
        self._finals += bool(script.marks) and turn >= len(script.marks) - 1
        seen.turns += role == "root"
        return replies[turn]


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


async def _cut_off(request: web.Request) -> None:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "content-length": "1000"})
    await response.prepare(request)
    await response.write(b'data: {"id": "c", "choi')
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


async def _send(request: web.Request, body: dict[str, Any], reply: str) -> web.StreamResponse:
    usage = {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 510}
    base = {"id": "c", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
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
    # A turn that is held is not waited for at the end.
    runner = web.AppRunner(ScriptedServer().app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
