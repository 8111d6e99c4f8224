"""The job of a confined worker that checks values against schemas and looks for quotes.

What it reads may be hostile: it has no keys, little memory, no network, and no file but the text whose
descriptor comes with a request. It serves one request after another, and ends with its socket.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.quoting.quote_search import Budget, Wanted, find_quotes

__all__ = ["prepare", "serve"]


def prepare(_argument: str) -> None:
    """Import and build what a request may need, while files can still be read."""
    with suppress(SchemaError):
        _schema('{"$defs": {"a": {"pattern": "^a"}}, "items": {"$ref": "#/$defs/a"}}').check(["b"])
    text = "“Café”\u0301 １ \\u00e9".encode()
    _find(
        {"quotes": [['"Cafe\u0301', 1], ["x", 1]], "near": [[0, 5]], "computing": 1, "size": len(text)},
        lambda low, high: text[low:high],
    )


def serve(_argument: str, channel: socket.socket, _files: Sequence[int]) -> None:
    """Answer requests until the other end closes.

    A request is a frame (`wire`), perhaps with the descriptor of a text. It names its `kind`.
    """
    while True:
        header, descriptors, _, _ = socket.recv_fds(channel, wire.HEADER_SIZE, 1)
        if len(header) < wire.HEADER_SIZE:
            return
        try:
            request = wire.decode(_receive(channel, wire.body_size(header)))
            try:
                answer = _answer(request, descriptors)
            except MemoryError:
                answer = {"error": "it takes more memory than allowed"}
            channel.sendall(wire.encode(answer))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


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
