"""The process that checks values against schemas and looks for quotes.

What it reads may be hostile: it has no keys, little memory, no network, and no file but the text whose
descriptor comes with a request. It serves one request after another until its socket closes.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any

from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.answers.quote_search import Budget, Wanted, find_quotes
from rlm.sandbox import confine_parser
from rlm.sandbox.in_kernel import wire

__all__ = ["main", "prepare", "serve"]

_GRACE_SECONDS = 2.0
_MAX_OPEN_FILES = 32
_CPU_SECONDS = 1_200
"""Twice what the pool gives a process before it starts a new one."""


def prepare() -> None:
    """Import and build what a request may need, while files can still be read."""
    with suppress(SchemaError):
        _schema('{"$defs": {"a": {"pattern": "^a"}}, "items": {"$ref": "#/$defs/a"}}').check(["b"])
    text = "“Café”\u0301 １ \\u00e9".encode()
    _find(
        {"quotes": [['"Cafe\u0301', 1], ["x", 1]], "near": [[0, 5]], "computing": 1, "size": len(text)},
        lambda low, high: text[low:high],
    )


def serve(channel: socket.socket) -> None:
    """Answer requests until the other end closes.

    A request is a frame (`wire`), perhaps with the descriptor of a text. It names its `kind` and its
    `seconds`. A process that is still at it some time later ends itself.
    """
    while True:
        header, descriptors, _, _ = socket.recv_fds(channel, wire.HEADER_SIZE, 1)
        if len(header) < wire.HEADER_SIZE:
            return
        try:
            request = wire.decode(_receive(channel, wire.body_size(header)))
            _alarm(request["seconds"] + _GRACE_SECONDS)
            try:
                answer = _answer(request, descriptors)
            except MemoryError:
                answer = {"error": "it takes more memory than allowed"}
            channel.sendall(wire.encode(answer))
            _alarm(0)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _alarm(seconds: float) -> None:
    # Its default action ends the process, even within a regular expression. The driver may be gone by then.
    with suppress(OSError):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _receive(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _answer(request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    if request["kind"] == "schema":
        try:
            _schema(request["schema"]).check(json.loads(request["value"]))
        except SchemaError as error:
            return {"fault": str(error)}
        return {"fault": None}
    (text,) = descriptors
    return _find(request, lambda low, high: os.pread(text, high - low, request["start"] + low))


@lru_cache(maxsize=16)
def _schema(text: str) -> AnswerSchema:
    # The driver has checked the schema.
    return AnswerSchema(json.loads(text), text)


def _find(request: dict[str, Any], read: Any) -> dict[str, Any]:
    found = find_quotes(
        [Wanted(text, most) for text, most in request["quotes"]],
        read,
        request["size"],
        [(start, end) for start, end in request["near"]],
        budget=Budget(seconds=request["computing"]),
    )
    return {"found": [[one.status, one.start, one.end] for one in found]}


def main() -> None:
    """Serve a socket. The arguments are its descriptor, and the limit of memory in bytes."""
    number, memory = (int(argument) for argument in sys.argv[1:3])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
    ):
        _, hard = resource.getrlimit(kind)
        held = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (held, held))
    prepare()
    confine_parser()
    with socket.socket(fileno=number) as channel:
        channel.sendall(wire.encode({"ready": True}))
        with suppress(EOFError, ConnectionError):
            serve(channel)


if __name__ == "__main__":
    main()
