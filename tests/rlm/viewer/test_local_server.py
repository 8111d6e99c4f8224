"""Test the server of `rlm view`: who may ask it, and what it replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from rlm.errors import UsageError
from rlm.viewer import LocalServer


@pytest.fixture
async def server(views) -> AsyncIterator[LocalServer]:
    async with LocalServer.start(views) as started:
        yield started


async def ask(
    server: LocalServer, path: str, *, method: str = "GET", raw: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of a reply."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    request = f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode("latin-1")
    try:
        writer.write(raw or request)
        reply = await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
    if not reply:
        return 0, {}, b""  # closed without a word
    head, _, body = reply.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


def token_of(server: LocalServer) -> str:
    return urlsplit(server.url).path


async def test_the_page_and_its_headers(server) -> None:
    status, headers, body = await ask(server, token_of(server))
    assert status == 200
    assert body.startswith(b"<!doctype html>")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["Referrer-Policy"], headers["X-Content-Type-Options"]) == ("no-referrer", "nosniff")
    assert "Access-Control-Allow-Origin" not in headers
    status, _, body = await ask(server, token_of(server), method="HEAD")
    assert (status, body) == (200, b"")


async def test_the_data(server, write_children) -> None:
    await write_children("r1", 3)
    status, headers, body = await ask(server, f"{token_of(server)}api/runs")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert [run["run_id"] for run in json.loads(body)["runs"]] == ["r1"]
    status, _, body = await ask(server, f"{token_of(server)}api/runs/r1/events/0")
    assert (status, len(json.loads(body)["events"])) == (200, 5)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
async def test_another_host_gets_nothing(server, host: str) -> None:
    """A name of the attacker that was made to point here (DNS rebinding) is not ours."""
    address = urlsplit(server.url)
    raw = f"GET {address.path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    status, _, body = await ask(server, "", raw=raw)
    assert (status, body) == (421, b"")
    twice = f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nHost: evil.example\r\n\r\n".encode()
    assert (await ask(server, "", raw=twice))[0] == 400


@pytest.mark.parametrize("path", ["/", "/api/runs", "/wrong/", "/wrong/api/runs", "//", "/é/", "/%00/"])
async def test_without_the_token_there_is_nothing(server, path: str) -> None:
    status, _, body = await ask(server, path)
    assert (status, body) == (404, b"") or status == 400


@pytest.mark.parametrize(
    "path",
    ["api", "api/", "api/other", "api/runs/r1", "api/runs/none/overview", "api/runs/none/live", "x", "../",
             "api/runs/..%2f..%2fetc/overview", "api/runs/%0d%0aX: y/overview", "api/runs/r1/event/-1"],
)  # fmt: skip
async def test_what_is_not_there_is_404(server, path: str) -> None:
    status, headers, _ = await ask(server, token_of(server) + path)
    assert status in (400, 404)
    assert "X" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def test_only_get(server, method: str) -> None:
    status, headers, _ = await ask(server, token_of(server), method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_the_opening_address_works_once(server) -> None:
    """It is on the command line of the browser, which other users can read."""
    path = urlsplit(server.opening_url("#/run/r1")).path
    assert token_of(server).strip("/") not in path
    status, headers, _ = await ask(server, path)
    assert (status, headers["Location"]) == (303, token_of(server))
    assert (await ask(server, path))[0] == 404


@pytest.mark.parametrize(
    "raw", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff" * 20_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9_000]
)
async def test_damaged_requests(server, raw: bytes) -> None:
    status, _, _ = await ask(server, "", raw=raw)
    assert status in (0, 400, 421)


async def test_many_silent_clients_do_not_stop_it(server) -> None:
    """More than 64 connections are closed, and those that leave make room."""

    async def status() -> int:
        try:
            return (await ask(server, token_of(server)))[0]
        except ConnectionError:
            return 0  # closed before the request was read

    address = urlsplit(server.url)
    silent = [await asyncio.open_connection(address.hostname, address.port) for _ in range(64)]
    await asyncio.sleep(0.2)
    assert await status() == 0
    for _, writer in silent:
        writer.close()
    for _ in range(100):
        if await status() == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the server stayed full")


async def test_a_run_is_streamed_until_it_ends(server, journal, child_event) -> None:
    address = urlsplit(server.url)
    async with journal.run("r1", "q", {}) as log:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            f"GET {address.path}api/runs/r1/live HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
        )
        assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
        first = await reader.readuntil(b"\n\n")
        await log.append("child", child_event(1))
        second = await asyncio.wait_for(reader.readuntil(b"\n\n"), 5)
    rest = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    changes = [json.loads(line.partition(b"data: ")[2]) for line in (first, second)]
    assert [change["version"] for change in changes] == [1, 2]
    assert b'"interrupted"' in rest
    assert b"event: end\ndata: {}\n\n" in rest


async def test_a_client_that_leaves_ends_its_stream(server, journal) -> None:
    address = urlsplit(server.url)
    async with journal.run("r1", "q", {}):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            f"GET {address.path}api/runs/r1/live HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\n\n")
        writer.close()
        for _ in range(100):
            if not server._server.connections:
                return
            await asyncio.sleep(0.02)
    raise AssertionError("the stream goes on")


async def test_a_port_that_is_taken(views, server) -> None:
    port = urlsplit(server.url).port
    with pytest.raises(UsageError, match=f"port {port} .* Give another --port"):
        async with LocalServer.start(views, port):
            pass
