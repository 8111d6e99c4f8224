"""What strangers, pages in a browser, and other users of the server can't do."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import openai
import pytest

from rlm.errors import ConfigurationError
from rlm.server.config import ServerConfig

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
ASKED = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
BODY = {"task": "What does the crane cost?", "context": NOTES}
PROTECTED = (
    ("GET", "/v1/models"),
    ("GET", "/v1/runs"),
    ("POST", "/v1/runs"),
    ("POST", "/v1/search"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/files"),
    ("GET", "/v1/usage"),
    ("GET", "/metrics"),
)


@pytest.mark.parametrize(
    "token", ["", "Bearer ", "Bearer x", "Basic cm06eA==", "bearer rlm-", "Bearer null", "Bearer \u00e9"]
)
async def test_without_a_key_nothing_is_reached(server, token) -> None:
    async with server() as served, served.http("") as http:
        headers = {"Authorization": token} if token else {}
        for method, path in PROTECTED:
            async with http.request(method, path, headers=headers, json=BODY) as reply:
                assert reply.status == 401, (method, path)
                assert (await reply.json())["error"]["code"] in ("missing_api_key", "invalid_api_key")
        for path in ("/v1/../v1/runs", "/v1/runs/", "/V1/runs", "/v1/runs%2f", "/v1/runs?key=x"):
            async with http.get(path, headers=headers, allow_redirects=False) as reply:
                assert reply.status in (401, 404, 307), path


async def test_a_revoked_key_is_refused_at_once(server) -> None:
    from rlm.journal import Journal
    from rlm.journal.served import KeyStore

    async with server(keys=("alice",)) as served, served.http() as http:
        async with http.get("/v1/models") as reply:
            assert reply.status == 200
        async with Journal.open(served.store) as journal:
            (key,) = await KeyStore(journal).all()
            await KeyStore(journal).revoke(key.key_id)
        async with http.get("/v1/models") as reply:
            assert reply.status == 401


async def test_the_store_holds_no_secret(server) -> None:
    async with server(keys=("alice",)) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            await served.ended(http, (await reply.json())["id"])
        folder = Path(served.store).parent
        for file in folder.glob("served.db*"):
            assert served.key.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil/localhost", ""]
)
async def test_another_host_is_refused(server, host) -> None:
    """A name that a stranger lets lead here (DNS rebinding)."""
    async with server() as served:
        reply = await raw(
            served.url,
            f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {served.key}\r\n\r\n",
        )
        assert reply.startswith(b"HTTP/1.1 403") or reply.startswith(b"HTTP/1.1 400")
        twice = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: {host or 'x'}\r\n\r\n"
        assert (await raw(served.url, twice)).split()[1] in (b"400", b"403")


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
    async with server(needs_key=False) as served, served.http("") as http:
        headers = {"Content-Type": "text/plain", "Origin": "https://evil.example"}
        async with http.post("/v1/runs", data=json.dumps(BODY), headers=headers) as reply:
            assert reply.status == 403
        async with http.post(
            "/v1/runs", data=json.dumps(BODY), headers={"Content-Type": "text/plain"}
        ) as reply:
            assert reply.status == 422
        async with http.get("/v1/runs") as reply:
            assert (await reply.json())["data"] == []


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "example.org", "::"])
def test_no_authentication_only_on_this_machine(host) -> None:
    with pytest.raises(ConfigurationError, match="--no-auth"):
        ServerConfig(host=host, needs_key=False)


async def test_elsewhere_a_server_needs_keys(server) -> None:
    with pytest.raises(ConfigurationError, match="keys add"):
        async with server(host="0.0.0.0"):
            pass


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


async def test_one_users_things_are_not_there_for_another(server) -> None:
    async with server(keys=("alice", "bob")) as served, served.http() as alice:
        bobs_key = served.keys[1]
        async with alice.post("/v1/runs", json=BODY) as reply:
            run = (await reply.json())["id"]
        await served.ended(alice, run)
        form = aiohttp.FormData()
        form.add_field("file", NOTES.encode(), filename="notes.txt")
        async with alice.post("/v1/files", data=form) as reply:
            file = (await reply.json())["id"]
        response = await served.openai().responses.create(model="rlm", input=ASKED)
        async with served.http(bobs_key) as bob:
            for method, path in (
                ("GET", f"/v1/runs/{run}"),
                ("GET", f"/v1/runs/{run}/events"),
                ("GET", f"/v1/runs/{run}/citations/1"),
                ("POST", f"/v1/runs/{run}/cancel"),
                ("POST", f"/v1/runs/{run}/resume"),
                ("DELETE", f"/v1/runs/{run}"),
                ("GET", f"/v1/runs/{response.id.removeprefix('resp_')}"),
                ("GET", f"/v1/responses/{response.id}"),
                ("DELETE", f"/v1/responses/{response.id}"),
                ("POST", f"/v1/responses/{response.id}/cancel"),
                ("GET", f"/v1/files/{file}"),
                ("GET", f"/v1/files/{file}/content"),
                ("DELETE", f"/v1/files/{file}"),
                ("GET", f"/v1/documents/{file}/content"),
            ):
                async with bob.request(method, path) as reply:
                    assert reply.status == 404, (method, path)
            for path in ("/v1/runs", "/v1/files", "/v1/documents"):
                async with bob.get(path) as reply:
                    assert (await reply.json())["data"] == []
            body = {**BODY, "context": [{"file_id": file}]}
            for path in ("/v1/runs", "/v1/summaries", "/v1/research"):
                sent = {"context": body["context"]} if path == "/v1/summaries" else body
                async with bob.post(path, json=sent) as reply:
                    assert reply.status == 404
            async with bob.post("/v1/search", json={"query": "crane", "context": body["context"]}) as reply:
                assert reply.status == 404
            with pytest.raises(openai.NotFoundError):
                await served.openai(bobs_key).responses.create(
                    model="rlm", input="And?", previous_response_id=response.id
                )
        async with alice.get(f"/v1/runs/{run}") as reply:
            assert reply.status == 200


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
        async with http.post("/v1/runs", json={**BODY, "context": [{"path": "notes.txt"}]}) as reply:
            assert reply.status == 400
        # A text that names a file is a text.
        async with http.post("/v1/search", json={"query": "passwd", "context": "/etc/passwd"}) as reply:
            assert (await reply.json())["packs"][0]["text"] == "/etc/passwd"


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
