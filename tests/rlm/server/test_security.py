"""What strangers, pages in a browser, and requests that are too large can't do."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from rlm import RLM
from rlm.errors import ConfigurationError
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.config import ServerConfig
from rlm.settings import Settings

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
BODY = {"task": "What does the crane cost?", "context": NOTES}
PROTECTED = (
    ("GET", "/v1/models"),
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs/20260131-142501-k3f9xz-http"),
    ("GET", "/v1/runs/20260131-142501-k3f9xz-http/events"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/no/such/path"),
)


TOKENS = ("", "Bearer ", "Bearer x", "Basic cm06eA==", "bearer rlm-", "Bearer null", "Bearer \u00e9")


async def test_without_a_token_nothing_is_reached(server) -> None:
    async with server() as served, served.http("") as http:
        for token in TOKENS:
            headers = {"Authorization": token} if token else {}
            for method, path in PROTECTED:
                async with http.request(method, path, headers=headers, json=BODY) as reply:
                    assert reply.status == 401, (token, method, path)
                    assert (await reply.json())["error"]["code"] in ("missing_api_key", "invalid_api_key")
            for path in ("/v1/../v1/runs", "/v1/runs/", "/V1/runs", "/v1/runs%2f", "/v1/runs?key=x"):
                async with http.get(path, headers=headers, allow_redirects=False) as reply:
                    assert reply.status == 401, (token, path)


async def test_several_tokens_may_be_given_and_a_short_one_is_refused(server) -> None:
    tokens = ("the-first-of-two-tokens", "the-second-of-two-tokens")
    async with server(tokens=tokens) as served:
        assert not any("token" in line for line in served.said)
        for token, status in ((tokens[0], 200), (tokens[1], 200), ("the-third-of-two-tokens", 401)):
            async with served.http(token) as http, http.get("/v1/models") as reply:
                assert reply.status == status
    with pytest.raises(ConfigurationError, match="RLM_SERVER_TOKENS has fewer than 16"):
        async with server(tokens=("short",)):
            pass


async def test_the_store_holds_no_token(server) -> None:
    async with server() as served, served.http() as http:
        async with http.post("/v1/runs", json={**BODY, "task": f"What is {served.token}?"}) as reply:
            await served.ended(http, (await reply.json())["id"])
        folder = Path(served.store).parent
        for file in folder.glob("served.db*"):
            assert served.token.encode() not in file.read_bytes()


async def test_runs_of_other_commands_are_not_there(server) -> None:
    """A token is for what was asked over HTTP: the operator's own runs may share the store."""
    async with server() as served, served.http() as http:
        model = ScriptedModel.of(direct="12,400 euros")
        own = RLM(model, settings=Settings(store=served.store, document_cache=False, sandbox=0))
        run = (await own.run("What does the crane cost?", NOTES)).run_id
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/resume")):
            async with http.request(method, f"/v1/runs/{run}{path}") as reply:
                assert reply.status == 404


async def test_another_host_is_refused(server) -> None:
    """A name that a stranger lets lead here (DNS rebinding)."""
    names = ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil/localhost", "")
    async with server() as served:
        for host in names:
            head = f"Host: {host}\r\nAuthorization: Bearer {served.token}"
            once = f"GET /v1/models HTTP/1.1\r\n{head}\r\n\r\n"
            twice = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: {host or 'x'}\r\n\r\n"
            for request in (once, twice):
                assert (await raw(served.url, request)).split()[1] in (b"400", b"403"), request


async def test_pages_of_other_sites_are_refused(server) -> None:
    async with server(origins=("https://app.example.org",)) as served, served.http() as http:
        own = f"http://{urlsplit(served.url).netloc}"
        for origin, status in (
            ("https://evil.example", 403),
            ("null", 403),
            (f"{own}.evil.example", 403),
            ("http://127.0.0.1:1", 403),
            (own, 200),
            ("https://app.example.org", 200),
        ):
            async with http.get("/v1/models", headers={"Origin": origin}) as reply:
                assert reply.status == status, origin
        async with http.get("/v1/models", headers={"Sec-Fetch-Site": "cross-site"}) as reply:
            assert reply.status == 403
        preflight = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST"}
        async with http.options("/v1/runs", headers=preflight) as reply:
            assert reply.headers["access-control-allow-origin"] == "https://app.example.org"


async def test_a_form_of_a_page_starts_no_run_without_authentication(server) -> None:
    """A simple request needs no preflight. Its body is no JSON by type."""
    async with server(needs_token=False) as served, served.http("") as http:
        headers = {"Content-Type": "text/plain", "Origin": "https://evil.example"}
        async with http.post("/v1/runs", data=json.dumps(BODY), headers=headers) as reply:
            assert reply.status == 403
        async with http.post(
            "/v1/runs", data=json.dumps(BODY), headers={"Content-Type": "text/plain"}
        ) as reply:
            assert reply.status == 415


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "example.org", "::"])
def test_no_authentication_only_on_this_machine(host, tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="--no-auth"):
        ServerConfig(files=tmp_path, host=host, needs_token=False)


async def test_too_large_bodies_are_refused_whatever_they_claim(server) -> None:
    async with server(body_mb=1, upload_mb=2) as served, served.http() as http:
        large = io.BytesIO(json.dumps({**BODY, "context": "x" * (2 << 20)}).encode())
        json_type = {"content-type": "application/json"}
        async with http.post("/v1/runs", data=large, headers=json_type) as reply:
            assert (reply.status, (await reply.json())["error"]["code"]) == (413, "body_too_large")

        async def chunks():
            for _ in range(64):
                yield b"x" * (1 << 16)

        async with http.post(
            "/v1/runs", data=chunks(), headers={"content-type": "application/json"}
        ) as reply:
            assert reply.status == 413
        form = aiohttp.FormData()
        form.add_field("file", io.BytesIO(b"x" * (4 << 20)), filename="x")
        async with http.post("/v1/files", data=form) as reply:
            assert reply.status == 413


# Each holds up the parser for seconds, or takes gigabytes as objects.
HEAVY = (
    ({**BODY, "context": [{"text": "x"}] * 900_000}, 413, "body_too_large"),
    ({**BODY, "schema": {"enum": [1] * 3_000_000}}, 413, "body_too_large"),
    ({**BODY, "context": [{"text": "x"}] * 1_001}, 422, None),
    ({**BODY, "schema": {"description": "x" * 300_000}}, 422, None),
)


async def test_a_body_of_many_values_is_refused_before_it_is_parsed(server) -> None:
    async with server() as served, served.http() as http:
        loop = asyncio.get_running_loop()
        slowest, is_done = 0.0, False

        async def watch() -> None:
            nonlocal slowest
            while not is_done:
                began = loop.time()
                await asyncio.sleep(0.01)
                slowest = max(slowest, loop.time() - began)

        bodies = [(io.BytesIO(json.dumps(body).encode()), *expected) for body, *expected in HEAVY]
        watching = asyncio.create_task(watch())
        for data, status, code in bodies:
            sent = http.post("/v1/runs", data=data, headers={"content-type": "application/json"})
            async with sent as reply:
                assert (reply.status, (await reply.json())["error"]["code"]) == (status, code)
        is_done = True
        await watching
        assert slowest < 1.0


async def test_a_text_full_of_commas_and_quotes_is_taken(server) -> None:
    text = NOTES + 'a,b,"c",[d],{e}: ' * 500_000
    async with server() as served, served.http() as http:
        body = io.BytesIO(json.dumps({**BODY, "context": text}).encode())
        sent = http.post("/v1/runs", data=body, headers={"content-type": "application/json"})
        async with sent as reply:
            assert reply.status == 202
            run = (await reply.json())["id"]
        async with http.post(f"/v1/runs/{run}/cancel") as reply:
            assert reply.status == 200


async def test_bodies_in_flight_are_bounded_together(server) -> None:
    async with server(held_mb=1, body_mb=1) as served:
        address = urlsplit(served.url)
        head = (
            f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 700000\r\n\r\n"
        )
        _, slow = await asyncio.open_connection(address.hostname, address.port)
        slow.write(head.encode() + b" " * 600_000)
        await slow.drain()
        await asyncio.sleep(0.3)
        async with served.http() as http:
            large = {**BODY, "context": "x" * 600_000}
            async with http.post("/v1/runs", json=large) as reply:
                assert reply.status == 429
                assert reply.headers["retry-after"]
            slow.transport.abort()
            await asyncio.sleep(0.3)
            async with http.post("/v1/runs", json=large) as reply:
                assert reply.status == 202


async def test_a_broken_body_is_told_in_one_line(server) -> None:
    async with server() as served, served.http() as http:
        for sent, kind, status, said in (
            ("{bad", "application/json", 400, "the body is not JSON"),
            ("{bad", "application/x-www-form-urlencoded", 415, "send `content-type: application/json`"),
        ):
            async with http.post("/v1/runs", data=sent, headers={"content-type": kind}) as reply:
                assert reply.status == status
                assert said in (await reply.json())["error"]["message"]


async def test_paths_are_refused_but_below_a_root(server, tmp_path) -> None:
    root = tmp_path / "shared"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "notes.txt").write_text(NOTES)
    (tmp_path / "secret.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to(tmp_path)
    refused = (
        *("../secret.txt", "link.txt", "up/secret.txt", "up", "/etc/passwd", str(tmp_path / "secret.txt")),
        *("sub/../../secret.txt", "missing.txt", "\0", "~/x", "sub/notes.txt\0"),
    )
    async with server(roots=(root,)) as served, served.http() as http:
        for path in refused:
            async with http.post("/v1/runs", json={**BODY, "context": [{"path": path}]}) as reply:
                assert reply.status == 400, path
                assert (await reply.json())["error"]["code"] == "path_not_allowed", path
        for path in ("sub/notes.txt", "sub", str(root / "sub" / "notes.txt")):
            async with http.post("/v1/runs", json={**BODY, "context": [{"path": path}]}) as reply:
                run = (await reply.json())["id"]
            assert (await served.ended(http, run))["status"] == "finished", path
    async with server() as served, served.http() as http:
        refused = http.post("/v1/runs", json={**BODY, "context": [{"path": "notes.txt"}]})
        async with refused as reply:
            assert reply.status == 400


async def test_urls_are_refused_and_if_allowed_only_public_ones(server) -> None:
    url = {"url": "http://127.0.0.1:1/x"}
    async with server() as served, served.http() as http:
        reply = await http.post("/v1/runs", json={**BODY, "context": [url]})
        assert (await reply.json())["error"]["code"] == "url_not_allowed"
    async with server(allow_urls=True) as served, served.http() as http:
        for given in (
            "http://127.0.0.1:1/x",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://0x7f.1/",
        ):
            async with http.post("/v1/runs", json={**BODY, "context": [{"url": given}]}) as reply:
                run = await reply.json()
            if reply.status == 202:
                assert (await served.ended(http, run["id"]))["status"] == "failed", given
        for given in ("s3://bucket/key", "file:///etc/passwd", "gopher://x"):
            async with http.post("/v1/runs", json={**BODY, "context": [{"url": given}]}) as reply:
                assert reply.status == 400, given


async def test_replies_have_headers_that_keep_browsers_out(server) -> None:
    async with server() as served, served.http() as http, http.get("/v1/models") as reply:
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers


async def raw(url: str, request: str) -> bytes:
    """Send bytes, and return what comes until the server closes or pauses."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(request.encode())
        await writer.drain()
        return await asyncio.wait_for(reader.read(4_096), 5)
    finally:
        writer.close()
        await writer.wait_closed()
