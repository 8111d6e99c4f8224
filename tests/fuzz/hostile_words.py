"""Make hostile cells, frames, replies to cells, and replies of models. The same seed makes the same words."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

INF = float("inf")


def hostile_value(rng: random.Random) -> Any:
    """Return a JSON value (json writes 1e999 as Infinity) that a careless reader chokes on."""
    deep: Any = 0
    if rng.random() < 0.1:
        for _ in range(rng.choice([50, 300, 900])):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return rng.choice(
        [
            *(None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 2**31, 2**53, 2**63, 2**64, 10**400, -(10**400)),
            *("", " ", "x", "\x00", "\ud800", "\udfff\ud800", "é" * 1_000, "a" * 50_000, "1e999", "\u202e"),
            *([], {}, [[]], [None], [0, 1], [1, 0], [-1, -1], [0, 2**60], [[0, 1]] * 2_000, ["a"] * 5_000),
            *({"a": "int"}, {"type": "array", "uniqueItems": True}, {"$ref": "#"}, {"pattern": "(a|a)*b"}),
            {"dependentSchemas": {"const": {"patternProperties": {"^(a|a)+$": {}}}}},
            deep,
        ]
    )


def mutated(rng: random.Random, value: Any) -> Any:
    """Return a copy with one to three of its parts replaced, removed or added."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        path = value
        while isinstance(path, dict | list) and path:
            key = rng.choice(sorted(path) if isinstance(path, dict) else range(len(path)))
            if rng.random() < 0.5 and isinstance(path[key], dict | list) and path[key]:
                path = path[key]
                continue
            if rng.random() < 0.15:
                del path[key]
            else:
                path[key] = hostile_value(rng)
            break
    return value


SCHEMA = {"type": "object", "properties": {f"p{n:03}": {"type": "string", "title": "t"} for n in range(380)}}
BATCH = {
    "prompts": ["q"],
    "slices": [[[0, 9]]],
    "sample": 0,
    "numbered": False,
    "schema": None,
    "chunked": False,
}
ACCESS = {"read": [[0, 9]], "scanned": [[0, 99]]}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("children", BATCH),
    ("children", {**BATCH, "prompts": ["q"] * 60_000, "slices": [None] * 60_000, "schema": SCHEMA}),
    ("children", {**BATCH, "prompts": ["q"] * 9_000, "slices": [None] * 9_000}),
    ("children", {**BATCH, "slices": [[[n, n + 1] for n in range(0, 9_000, 2)]]}),
    ("children", {**BATCH, "slices": [[[0, 600_000]]], "prompts": ["q" * 30_000]}),
    ("children", {**BATCH, "schema": {"type": "array", "uniqueItems": True}}),
    ("sub_rlms", {"prompts": ["q"], "sources": [[[0, 3_000_000]] * 300]}),
    ("sub_rlms", {"prompts": ["q"] * 900, "sources": [[[n, 4_000_000], [0, n + 1]] for n in range(900)]}),
    ("finalize", {"value": "x", "confidence": None, "evidence": [[0, 9], "text"], **ACCESS}),
    ("finalize", {"value": '"' + "x" * 3_600_000, "confidence": 0.5, "evidence": [], **ACCESS}),
    (
        "finalize",
        {"value": "x", "confidence": None, "evidence": ["a" * 4_900 + f"Z{n}" for n in range(50)], **ACCESS},
    ),
    ("progress", {}),
    ("rank", {"query": "grass", "k": 10}),
    ("rank", {"query": "grass " * 300, "k": 1_000}),
    ("tool", {"name": "nothing", "args": [1], "kwargs": {"a": 1}}),
    ("view", {}),
    ("cancel", {}),
]


def frame(rng: random.Random, number: int, *, breaks: float = 0.2) -> bytes:
    """Return a frame of the helper channel. With the probability `breaks` it breaks the protocol."""
    method, params = rng.choice(CALLS)
    if rng.random() < 0.5:
        params = mutated(rng, params)
    message: Any = {"id": number, "method": method, "params": params}
    if rng.random() < breaks:
        message = mutated(rng, message)
        if rng.random() < 0.3:
            body = bytes(rng.randrange(256) for _ in range(rng.randint(0, 200)))
            return rng.randrange(2**32).to_bytes(4, "little") + body
    body = json.dumps(message).replace("Infinity", "1e999").encode()
    return len(body).to_bytes(4, "little") + body


REPORT = {**ACCESS, "changed": [["x", "int", "1"]], "rebound": ["peek"], "stdout_chars": 3}
CELL = {"stdout": "x", "stderr": "", "result": None, "report": json.dumps(REPORT)}
REPLIES = [
    {"status": "ok", "cell": CELL},
    {"status": "ok", "cell": {**CELL, "stdout": "😀" * 1_000_000}},
    {"status": "ok", "cell": {**CELL, "report": "[" * 1_000_000}},
    {"status": "ok", "cell": {**CELL, "report": "{}"}},
    {"status": "error", "ename": "E", "evalue": "e", "traceback": ["t"], "cell": CELL},
]


def cell_reply(rng: random.Random) -> bytes:
    """Return the content of a reply to a cell."""
    content = rng.choice(REPLIES)
    if rng.random() < 0.4:
        report = json.dumps(mutated(rng, REPORT)).replace("Infinity", "1e999")
        content = {"status": "ok", "cell": {**CELL, "report": report}}
    return json.dumps(mutated(rng, content) if rng.random() < 0.5 else content).encode()


_REPLY = """
import base64, zlib
kernel = get_ipython().kernel
session, parent = kernel.session, kernel.get_parent()
parts = [session.pack(session.msg_header('execute_reply')), session.pack(parent['header']), b'{{}}',
         zlib.decompress(base64.b85decode({packed!r}))]
kernel.shell_stream.send_multipart([b'<IDS|MSG>', session.sign(parts), *parts] * {times})
"""
_SEND = """
import base64, time, zlib
sent = zlib.decompress(base64.b85decode({packed!r}))
helpers._channel._socket.sendall(sent)
time.sleep({pause})
print(len(sent))
"""
CELLS = [
    "sub_rlm('count', [(0, 3_000_000)] * 300)",
    "print(sub_rlm(['q%d' % n for n in range(50)], [[(0, 2_000_000), (2_500_000, 4_000_000)]] * 50))",
    "r = sub_query('hello', 'x')\nfor n in range(10**6):\n    try: sub_query('again %d' % n, (0, 10))\n"
    "    except Exception: pass",
    "while True:\n    try: sub_query_batch('q', [[(n, n + 1) for n in range(0, 400, 2)]])\n"
    "    except Exception as e: print(str(e)[:50])",
    "while True: evaluate_progress()",
    "for n in range(10**6): rank('grass %d' % n, 1000)",
    "finalize('x' * 900_000 + '\"' * 50)",
    "finalize({'a': ['\"' + 'q ' * 1000] * 400}, evidence=['a' * 4000 + 'Z%d' % n for n in range(50)])",
    "import threading, time\nfor n in range(40):\n"
    "    threading.Thread(target=lambda: sub_query('q', (0, 99)), daemon=True).start()\ntime.sleep(3)",
    "while True: print('x' * 100_000)",
    "x = {('v%d' % n): n for n in range(10**5)}; globals().update(x)",
    "sub_query_map(['q%d' % n for n in range(9_000)], schema={'a': 'str'})",
    "sub_query('q', (0, 9), schema={'type': 'array', 'uniqueItems': True})",
    "s = {'dependentSchemas': {'const': {'patternProperties': {'^(a|a)+$': {}}}}}\n"
    "sub_query('repeat', (0, 9), schema=s)",
    "import os; os._exit(3)",
    "print(count('green'), peek(0, 100))\nfinalize('green', evidence=[(0, 10)])",
]


def cell(rng: random.Random) -> str:
    """Return the code of a hostile cell."""
    if rng.random() < 0.5:
        return rng.choice(CELLS)
    if rng.random() < 0.3:
        packed = base64.b85encode(zlib.compress(cell_reply(rng), 9)).decode()
        return _REPLY.format(packed=packed, times=rng.choice([1, 1, 2]))
    frames = b""
    for number in range(rng.randint(1, 12)):
        more = frames + frame(rng, 10_000 + number, breaks=0.05)
        if len(zlib.compress(more, 9)) > 3_500:
            break
        frames = more
    packed = base64.b85encode(zlib.compress(frames, 9)).decode()
    return _SEND.format(packed=packed, pause=rng.choice([0, 0.3, 1.5]))


MB = 2**20
BODIES: list[Callable[[], bytes]] = [
    lambda: b"data: " + b"x" * (20 * MB),
    lambda: b"data: x\n" * (2 * MB),
    lambda: b": nothing\n\n" * (2 * MB),
    lambda: b'data: {"choices":[' + b"[" * MB + b"\n\n",
    lambda: b'data: {"choices":[' + b"{}," * MB + b"{}]}\n\n",
    lambda: b'data: {"choices":[{"delta":{"content":"' + b"\\ud800" * 300_000 + b'"}}]}\n\n',
    lambda: b'data: {"choices":[{"delta":{"content":"xx"}}]}\n\n' * 300_000,
    lambda: b"[" * (3 * MB),
    lambda: b"",
]


def reply(rng: random.Random, events: Callable[[Any], list[bytes]], raw: Any, honest: Any) -> Any:
    """Return a hostile behaviour of a model server, made by `raw`. `events` makes a stream of `honest`."""
    kind = rng.random()
    content_type = rng.choice(
        ["text/event-stream", "application/json", "text/event-stream; charset=punycode"]
    )
    code = rng.choice([200, 200, 200, 400, 401, 429, 500, 503, 302, 600])
    headers = {}
    if rng.random() < 0.3:
        headers["retry-after"] = rng.choice(
            ["1e999", "9" * 400, "-1", "\xff", "Wed, 99 Foo 0000", "0.01", "nan"]
        )
    if kind < 0.4:
        stream = []
        for one in events(honest):
            text = one.decode().removeprefix("data: ").strip()
            if text.startswith("{") and rng.random() < 0.4:
                text = json.dumps(mutated(rng, json.loads(text))).replace("Infinity", "1e999")
            stream.append(f"data: {text}\n\n".encode())
        return raw(b"".join(stream))
    body = rng.choice(BODIES)()
    if kind < 0.5:
        body = gzip.compress(body * rng.choice([1, 5]), 1)
        headers["content-encoding"] = rng.choice(["gzip", "gzip", "deflate", "br", "identity"])
    elif kind < 0.7:
        error = {"error": mutated(rng, {"type": "x", "code": "y", "message": "z", "details": {"a": 1}})}
        body, code, content_type = json.dumps(error).encode(), rng.choice([400, 429, 500]), "application/json"
    return raw(body, content_type, code, headers)
