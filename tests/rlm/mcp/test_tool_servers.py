"""Test MCP servers as tools of a run, against a server that misbehaves in every way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.children.tool_servers import connection, open_toolbox
from rlm.children.tools import Toolbox
from rlm.config_file.mcp_servers import McpServer
from rlm.errors import ConfigurationError, ModelUnavailable, UsageError
from rlm.events import Event, Warned
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ToolCall
from rlm.testing import ScriptedModel

STUB = Path(__file__).parents[2] / "mcp_stub_server.py"


def stub(start: str = "well", *arguments: str, **more: Any) -> McpServer:
    return McpServer("stub", sys.executable, (str(STUB), start, *arguments), **more)


@asynccontextmanager
async def opened(server: McpServer, seconds: float = 20.0) -> AsyncIterator[tuple[Toolbox, list[Event]]]:
    told: list[Event] = []
    async with open_toolbox(Toolbox(seconds=seconds), [server], told.append) as toolbox:
        yield toolbox, told


async def call(toolbox: Toolbox, name: str, *args: Any, **kwargs: Any) -> Any:
    return await toolbox.run(ToolCall(name, args, kwargs))


async def test_tools_are_typed_and_answer_with_json() -> None:
    async with opened(stub("noisy")) as (toolbox, _):
        docs = {one.name: one for one in toolbox.docs}
        assert docs["stub_add"].signature == "(a: int, b: int, note: str | None = None)"
        assert docs["stub_add"].summary == "MCP server stub says: Add two numbers."
        assert docs["stub_choose"].signature == (
            "(color: Literal['red', 'green'], many: list[int] | None = None)"
        )
        assert docs["stub_class"].signature == "(arguments: dict[str, Any])"
        assert await call(toolbox, "stub_add", 1, b=2) == 3
        assert await call(toolbox, "stub_class", {"lambda": "x"}) == '["class", {"lambda": "x"}]'
        assert await call(toolbox, "stub_choose", "red") == '["choose", {"color": "red"}]'
        for wrong in (("x", 1), (1,), ()):
            with pytest.raises(BadCall, match="stub_add"):
                await call(toolbox, "stub_add", *wrong)
        with pytest.raises(BadCall, match="'red' or 'green'"):
            await call(toolbox, "stub_choose", "blue")


async def test_the_words_of_a_server_are_one_short_line_without_hidden_characters() -> None:
    async with opened(stub()) as (toolbox, told):
        for one in toolbox.docs:
            assert one.name.isidentifier()
            assert one.name.startswith("stub_")
            line = f"{one.signature}{one.summary}"
            assert line.isprintable(), line
            assert "`" not in line
            assert len(one.summary) < 200
            assert one.summary.startswith("MCP server stub says: ")
        names = [one.name for one in toolbox.docs]
    assert len(names) == len(set(names)) == 13
    (warned,) = [one.message for one in told if isinstance(one, Warned)]
    assert "two tools named stub_twice: the second is left out" in warned
    assert any(one.startswith("stub_evil") for one in names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stub_fail", "no such thing"),
        ("stub_huge", "has ended: it sent a message above 16 MB"),
        ("stub_crash", r"has ended.*\(it wrote: I crash now\)"),
    ],
)
async def test_a_fault_of_a_server_is_an_error_of_the_call(name: str, said: str) -> None:
    async with opened(stub()) as (toolbox, _):
        with pytest.raises(BadCall, match=said) as caught:
            await call(toolbox, name)
        assert "\x1b" not in str(caught.value)
        if "ended" in said:
            with pytest.raises(BadCall, match="has ended"):
                await call(toolbox, "stub_add", 1, 2)
        else:
            assert await call(toolbox, "stub_add", 1, 2) == 3


async def test_a_server_that_hangs_costs_a_timeout_and_no_more() -> None:
    async with opened(stub(), seconds=0.5) as (toolbox, _):
        with pytest.raises(BadCall, match=r"no result within 0\.5 s"):
            await call(toolbox, "stub_hang")
        assert await call(toolbox, "stub_add", 1, 2) == 3


async def test_results_are_bounded_and_schemas_of_a_server_are_not_run() -> None:
    async with opened(stub()) as (toolbox, _):
        long = await call(toolbox, "stub_long")
        assert long.endswith("ask for less)")
        assert len(long) < 201_000
        assert "\x1b" not in long
        assert await call(toolbox, "stub_lie") == {"n": "not a number"}
        began = time.monotonic()
        assert (await call(toolbox, "stub_slow_schema"))["t"].startswith("aaa")
        assert time.monotonic() - began < 5


async def test_a_server_gets_no_key_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("YARD_TOKEN", "a-token")
    async with opened(stub(env={"TOKEN": "Bearer $YARD_TOKEN", "PLAIN": "x$$y"})) as (toolbox, _):
        found = (await call(toolbox, "stub_env"))["env"]
    assert "sk-secret" not in found.values()
    assert not [name for name in found if name.startswith(("RLM_", "YARD_"))]
    assert (found["TOKEN"], found["PLAIN"]) == ("Bearer a-token", "x$y")
    with pytest.raises(ConfigurationError, match=r"\$NOT_SET, which is not set"):
        async with opened(stub(env={"TOKEN": "$NOT_SET"})):
            pass


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (stub("dies"), r"stub does not answer.*\(it wrote: .*no configuration found\)"),
        (stub("silent"), "no answer within"),
        (McpServer("gone", "/nowhere/server"), "gone cannot be started.*No such file"),
        (McpServer("closed", url="http://127.0.0.1:9/mcp"), "closed does not answer"),
    ],
)
async def test_a_server_that_does_not_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, server: McpServer, said: str
) -> None:
    monkeypatch.setattr(connection, "_START_SECONDS", 2.0)
    with pytest.raises(ConfigurationError, match=said) as caught:
        async with opened(server):
            pass
    assert str(caught.value).isprintable()


async def test_only_named_tools_are_offered() -> None:
    async with opened(stub(tools=("add", "fehlt"))) as (toolbox, told):
        assert [one.name for one in toolbox.docs] == ["stub_add"]
    assert [one.message for one in told if isinstance(one, Warned)] == ["MCP server stub has no tool 'fehlt'"]


async def test_a_server_and_its_children_end_with_the_run(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with opened(stub("forks", str(file))):
        child = int(file.read_text())
        os.kill(child, 0)
    for _ in range(50):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the child of the server lives on")


async def test_an_http_server_is_reached_with_its_headers(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "rlm", "mcp", "--http", "--model", "extractive", "--root", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RLM_MCP_TOKEN": "0123456789abcdef"},
    )
    (tmp_path / "a.txt").write_text("The yard is green.\n")
    try:
        assert server.stderr is not None
        url = server.stderr.readline().split("serving ")[1].split()[0]
        known = McpServer("other", url=url, headers={"Authorization": "Bearer 0123456789abcdef"})
        async with opened(known) as (toolbox, _):
            found = await call(toolbox, "other_peek", "a.txt")
        assert found["text"] == "The yard is green.\n"
        with pytest.raises(ConfigurationError, match="other does not answer"):
            async with opened(McpServer("other", url=url)):
                pass
    finally:
        server.terminate()
        server.communicate(timeout=30)


FIRST = "```repl\nprint(stub_add(40, b=2), peek(0, 3))\n```"
SECOND = """```repl
try:
    stub_fail()
except ToolError as error:
    print("failed:", error)
finalize(str(stub_add(1, 1)))
```"""


async def test_cells_call_the_tools_and_a_run_resumes_with_them(run: Any) -> None:
    servers = {"stub": {"command": sys.executable, "args": [str(STUB), "well"]}}
    model = ScriptedModel.of(root=[FIRST, ModelUnavailable("the provider is down")])
    failed = await run(model, mcp_servers=servers)
    assert failed.stop_reason == "model"
    first, second = (request.messages for request in model.requests)
    prompt = "\n".join(one.content for one in first)
    assert "stub_add(a: int, b: int, note: str | None = None)" in prompt
    # The words of a hostile server stay on the line of its tool.
    assert len([line for line in prompt.splitlines() if "owned" in line]) == 1
    assert "42 one" in second[-1].content

    settings = Settings(store=run.store, sandbox=run.level)
    without = RLM(ScriptedModel.of(root=[SECOND]), settings=settings)
    with pytest.raises(UsageError, match=r"tools that are missing .*stub_add.*--mcp NAME"):
        await without.resume(failed.run_id)
    again = RLM(ScriptedModel.of(root=[SECOND]), settings=settings, mcp_servers=servers)
    assert (await again.resume(failed.run_id)).answer == "2"


async def test_a_session_keeps_its_servers_between_questions(run: Any) -> None:
    servers = {"stub": {"command": sys.executable, "args": [str(STUB), "well"]}}
    replies = [f"```repl\npeek(0, 3)\nfinalize(str(stub_add({number}, 1)))\n```" for number in (1, 2)]
    rlm = RLM(
        ScriptedModel.of(root=replies),
        settings=Settings(strategy="rlm", store=run.store, sandbox=run.level),
        mcp_servers=servers,
    )
    async with rlm.session("one two three") as session:
        assert [(await session.run("How many?")).answer for _ in range(2)] == ["2", "3"]


def test_a_wrong_table_names_its_key() -> None:
    wrong: dict[str, tuple[object, str]] = {
        "a": ({}, "mcp.a needs a command or a url"),
        "b": ({"command": "x", "url": "http://x"}, "only one of them"),
        "c": ({"comand": "x"}, "mcp.c has no key 'comand'"),
        "d": ({"command": ["x"]}, "mcp.d.command"),
        "e": ({"command": "x", "args": "y"}, "mcp.e.args is not a list"),
        "f": ({"command": "x", "env": {"A": 1}}, "mcp.f.env is not a table of texts"),
        "g": ({"url": "ftp://x"}, "mcp.g.url is no http"),
        "h": ({"url": "http://x", "headers": {"A": "b\r\nc: d"}}, "mcp.h.headers"),
        "no-name": ({"command": "x"}, "cannot name an MCP server"),
        "class": ({"command": "x"}, "cannot name an MCP server"),
        "i": ("x", r"write \[mcp.i\]"),
    }
    for name, (table, said) in wrong.items():
        with pytest.raises(ConfigurationError, match=said):
            McpServer.from_table(name, table)
