"""Test `rlm mcp --http`: the official client over streamable HTTP, and who is turned away."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_clients import Place, text_of

TOKEN = "a-token-of-sixteen-or-more"
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


@contextmanager
def serving(place: Place, model: str) -> Iterator[str]:
    """Start a server that may read the root, and give its URL."""
    command = [sys.executable, "-m", "rlm", "mcp", "--http", "--model", model, "--root", str(place.root)]
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**place.env, "RLM_MCP_TOKEN": TOKEN},
    )
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
        assert found, line
        assert TOKEN not in line
        yield found[0]
    finally:
        server.send_signal(signal.SIGTERM)
        out, errors = server.communicate(timeout=30)
        assert out == ""
        assert "Traceback" not in errors
        assert server.returncode == 0


@pytest.fixture
def url(place: Place) -> Iterator[str]:
    with serving(place, "extractive") as found:
        yield found


@asynccontextmanager
async def connected(url: str, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def test_the_official_client_asks_and_reads(url: str) -> None:
    async with connected(url) as client:
        result = await client.call_tool("ask", {"question": "What does the crane cost?", "paths": ["."]})
        shown = result.structured_content
        assert shown is not None, text_of(result)
        place = await client.read_resource(shown["citations"][0]["resource"])
    assert "90,000 euros" in place.contents[0].text  # type: ignore[union-attr]


async def test_who_is_turned_away(url: str) -> None:
    good = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    port = url.split(":")[2].split("/", maxsplit=1)[0]
    wrong: list[tuple[dict[str, str], int]] = [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": "Bearer ümlaut"}, 401),
        ({"Host": f"evil.example:{port}"}, 421),  # DNS rebinding
        ({"Host": f"127.0.0.1.evil.example:{port}"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),  # what a form of a web page may send
    ]
    async with httpx2.AsyncClient(timeout=30) as http:
        for headers, status in wrong:
            latin = {name: value.encode("latin-1") for name, value in {**good, **headers}.items()}
            answer = await http.post(url, json=OPENING, headers=latin)
            assert answer.status_code == status, (headers, answer.text)
            assert "access-control-allow-origin" not in answer.headers
        for path in ("/", "/mcp", "/.well-known/oauth-protected-resource"):
            assert (await http.get(url.removesuffix("/mcp") + path)).status_code == 401
        big = await http.post(
            url, content=b'"' + b"x" * (9 << 20) + b'"', headers={**good, "Content-Type": "application/json"}
        )
        assert big.status_code == 413
        fine = await http.post(url, json=OPENING, headers=good)
        assert fine.status_code == 200


async def test_several_clients_at_once(url: str) -> None:
    async def once(number: int) -> str:
        async with connected(url) as client:
            result = await client.call_tool(
                "ask",
                {"question": f"What costs item {number}?", "text": f"Item {number} costs {number} euros."},
            )
            return text_of(result)

    answers = await asyncio.gather(*map(once, range(6)))
    assert all(f"costs {number} euros" in answer for number, answer in enumerate(answers))


@pytest.mark.parametrize(
    ("arguments", "token", "said"),
    [
        (["--http"], "short", "RLM_MCP_TOKEN has fewer than 16 characters"),
        (["--port", "80"], TOKEN, "--port belongs to --http"),
        (["--root", "/nowhere/at/all"], TOKEN, "does not exist"),
        (["--model", "openai:gpt-5"], TOKEN, "needs a key"),
    ],
)
def test_a_wrong_start_is_one_line(place: Place, arguments: list[str], token: str, said: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "rlm", "mcp", *arguments],
        capture_output=True,
        text=True,
        env={**place.env, "RLM_MCP_TOKEN": token},
        check=False,
        timeout=60,
    )
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
