"""The page of runs, as the server shows it to users with a key."""

from __future__ import annotations

import aiohttp

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
BODY = {"task": "What does the crane cost?", "context": NOTES}


async def test_a_key_opens_the_page_of_the_users_own_runs(server) -> None:
    async with server(keys=("alice", "bob")) as served:
        async with served.http() as http:
            async with http.post("/v1/runs", json=BODY) as reply:
                run = (await reply.json())["id"]
            await served.ended(http, run)
        jars = [aiohttp.CookieJar(unsafe=True) for _ in range(3)]
        for key, jar in zip(served.keys, jars, strict=False):
            async with aiohttp.ClientSession(base_url=served.url, cookie_jar=jar) as page:
                async with page.get("/view/") as reply:
                    assert 'type="password"' in await reply.text()
                    assert "script-src" not in reply.headers["content-security-policy"]
                async with page.get("/view/api/runs") as reply:
                    assert reply.status == 401
                async with page.post("/view/login", data={"key": "rlm-wrong"}) as reply:
                    assert reply.status == 401
                async with page.post("/view/login", data={"key": key}) as reply:
                    assert (reply.status, reply.url.path) == (200, "/view/")
                    assert "<script" in await reply.text()
                    (cookie,) = jar
                    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (
                        True,
                        "strict",
                        "/view/",
                    )
                is_mine = key == served.key
                async with page.get("/view/api/runs") as reply:
                    assert [one["run_id"] for one in (await reply.json())["runs"]] == [run] * is_mine
                for path in ("overview", "live", "steps/0/0"):
                    async with page.get(f"/view/api/runs/{run}/{path}") as reply:
                        assert reply.status == (200 if is_mine else 404), path
                        await reply.read()
                async with page.get(f"/view/api/runs/{run}/steps/x/y") as reply:
                    assert reply.status == 404
                # The cookie is for the page alone.
                async with page.get("/v1/runs") as reply:
                    assert reply.status == 401


async def test_without_authentication_the_page_is_open_on_this_machine(server) -> None:
    async with server(needs_key=False) as served, served.http("") as http:
        async with http.get("/view/") as reply:
            assert "<script" in await reply.text()
        async with http.get("/view/api/runs", headers={"Origin": "https://evil.example"}) as reply:
            assert reply.status == 403
