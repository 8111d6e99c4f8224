"""Provide a small HTTP server that answers as a test says, and forget what servers said before."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlm.models.catalog.info import reported_info
from rlm.models.http import model as http_model


@dataclass
class Asked:
    """One request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Pages:
    """A server. `pages` holds an answer by path: a JSON value, or a function of the request that returns a
    status, a content type and the bytes."""

    url: str = ""
    pages: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, str, bytes]:
        page = self.pages.get(asked.path.partition("?")[0])
        if page is None:
            return 404, "application/json", b'{"error": "not found"}'
        if callable(page):
            return page(asked)
        return 200, "application/json", json.dumps(page).encode()


@pytest.fixture
def make_pages() -> Iterator[Callable[..., Pages]]:
    """Yield `make_pages(pages, port=0)`, which starts a server on this machine."""
    servers = []

    def make(pages: dict[str, Any] | None = None, port: int = 0) -> Pages:
        served = Pages(pages=dict(pages or {}))

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                served.asked.append(asked)
                status, kind, data = served.answer(asked)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                with suppress(OSError):  # it has hung up
                    self.wfile.write(data)

            do_GET = do_POST = _serve  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        served.url = f"http://127.0.0.1:{server.server_port}"
        return served

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def pages(make_pages: Callable[..., Pages]) -> Pages:
    return make_pages()


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """Forget what servers said, before and after each test."""
    reported_info.clear()
    http_model._answered.clear()
    yield
    reported_info.clear()
    http_model._answered.clear()
