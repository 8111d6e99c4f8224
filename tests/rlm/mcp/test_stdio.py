"""Test the tools and resources of `rlm mcp` with the official client over stdio."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from mcp.shared.exceptions import MCPError
from mcp_clients import MODES, Connect, Place, text_of

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
TOOLS = {"ask", "research", "summarize", "search", "peek", "runs", "resume"}


@pytest.mark.parametrize("mode", MODES)
async def test_answers_with_citations_whose_places_are_resources(connect: Connect, mode: str) -> None:
    lines: list[str] = []

    async def note(_: float, __: float | None, line: str | None) -> None:
        lines.append(line or "")

    async with connect("--model", "extractive", mode=mode) as client:
        result = await client.call_tool(
            "ask", {"question": "What does the crane cost?", "paths": ["."]}, progress_callback=note
        )
        shown = result.structured_content
        assert not result.is_error
        assert shown is not None
        (cited, *_) = shown["citations"]
        assert cited["verified"]
        assert cited["document"] == "offer.md"
        assert cited["resource"] == f"rlm://run/{shown['run_id']}/citation/1"
        place = await client.read_resource(cited["resource"])
        whole = await client.read_resource(shown["resource"])
    assert "90,000 euros" in text_of(result)
    assert "offer.md" in text_of(result)
    assert "90,000 euros" in place.contents[0].text
    assert "offer.md:" in place.contents[0].text
    assert "**Sources**" in whole.contents[0].text  # type: ignore[union-attr]
    assert any(shown["run_id"] in line for line in lines), lines


async def test_every_tool_has_typed_arguments_and_results(connect: Connect) -> None:
    async with connect("--model", "extractive") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == TOOLS
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema
        assert tool.annotations
        assert tool.annotations.read_only_hint
    answer = tools["ask"].output_schema
    assert answer is not None
    assert answer["properties"]["citations"]["items"] == {"$ref": "#/$defs/Cited"}


async def test_search_and_read_show_a_place_without_a_model(connect: Connect) -> None:
    async with connect("--model", "extractive") as client:
        words = await client.call_tool("search", {"query": "liability", "paths": ["."]})
        pattern = await client.call_tool("search", {"query": "9.,0+", "paths": ["."], "regex": True})
        line = await client.call_tool("peek", {"path": "offer.md", "line": 3, "chars": 30})
        rest = await client.call_tool("peek", {"path": "offer.md", "start": 39})
        listed = await client.call_tool("runs", {})
    assert words.structured_content["hits"][0]["line"] == 5  # type: ignore[index]
    assert pattern.structured_content["total"] == 1  # type: ignore[index]
    shown = line.structured_content
    assert shown is not None
    assert (shown["text"], shown["line"], shown["next_start"]) == ("The northern yard offers the c", 3, 39)
    assert rest.structured_content["text"].startswith("rane for 90,000")  # type: ignore[index]
    assert listed.structured_content == {"runs": []}
    # Text of documents is between lines with a code that it cannot hold.
    assert text_of(line).startswith("===== ")
    assert "more: start=39" in text_of(line)


WRONG = [
    ("ask", {"question": "What?"}, "no input is given"),
    ("ask", {"question": " ", "text": "x"}, "question"),
    ("search", {"query": "(", "paths": ["."], "regex": True}, "pattern"),
    ("search", {"query": "x", "paths": ["."], "limit": 9_999}, "limit is 9999"),
    ("peek", {"path": "offer.md", "line": 99}, "the document has 7 lines"),
    ("peek", {"path": "offer.md", "page": 1}, "has no pages"),
    ("peek", {"path": "offer.md", "start": 1, "line": 1}, "give only one of them"),
    ("peek", {"path": "gone.md"}, "not there"),
    ("resume", {"run": "nope"}, "no run 'nope'"),
    ("ask", {"question": 3}, "question"),
]


async def test_a_wrong_call_gets_one_line(connect: Connect) -> None:
    async with connect("--model", "extractive") as client:
        for tool, arguments, said in WRONG:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, (tool, arguments)
            assert said in text_of(result)
            assert "Traceback" not in text_of(result)
        with pytest.raises(MCPError, match="runs lists them"):
            await client.read_resource("rlm://run/20200101-000000-aaaaaa/citation/1")


async def test_a_folder_of_several_documents_names_them(connect: Connect, place: Place) -> None:
    (place.root / "b.txt").write_text("second\n", encoding="utf-8")
    async with connect("--model", "extractive") as client:
        refused = await client.call_tool("peek", {"path": "."})
        chosen = await client.call_tool("peek", {"path": ".", "document": "b.txt"})
    assert "give document as one of b.txt, offer.md" in text_of(refused)
    assert chosen.structured_content["text"] == "second\n"  # type: ignore[index]


async def test_a_long_answer_is_cut_and_its_resource_is_whole(connect: Connect, place: Place) -> None:
    model = place.script({"role": "direct", "reply": "word " * 9_000})
    async with connect("--model", model) as client:
        result = await client.call_tool("ask", {"question": "All of it?", "paths": ["."]})
        shown = result.structured_content
        assert shown is not None
        whole = await client.read_resource(shown["resource"])
    assert len(text_of(result)) < 21_000
    assert len(shown["answer"] or "") <= 20_001
    assert shown["answer"] is None or (shown["is_cut"] and shown["resource"] in text_of(result))
    assert len(whole.contents[0].text) > 40_000 or shown["answer"] is None  # type: ignore[union-attr]


async def test_what_a_document_says_reaches_the_client_without_controls_and_live_links(
    connect: Connect, place: Place
) -> None:
    hostile = "The crane \x1b[31mcosts\x1b[0m \u202e5 euros. ![x](https://evil.example/?q=1) See crane.\n"
    (place.root / "offer.md").write_text(hostile, encoding="utf-8")
    async with connect("--model", "extractive") as client:
        answer = await client.call_tool("ask", {"question": "What does the crane cost?", "paths": ["."]})
        read = await client.call_tool("peek", {"path": "offer.md"})
        found = await client.call_tool("search", {"query": "crane", "paths": ["."]})
    for result in (answer, read, found):
        assert "\x1b" not in text_of(result)
        assert "\u202e" not in text_of(result)
        assert "\\u001b" not in json.dumps(result.structured_content)
    assert "![x]" not in text_of(answer)


def test_stdout_is_protocol_only(place: Place) -> None:
    """A warning of a run, and a client that sends garbage, write to stderr alone."""
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"question": "Is there lightning?", "text": "none"}},
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    server = subprocess.Popen(
        [sys.executable, "-m", "rlm", "mcp", "--model", "extractive"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.env,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    for line in (json.dumps(OPENING), "{garbage", json.dumps(ready), json.dumps(call)):
        server.stdin.write(line + "\n")
    server.stdin.flush()
    answers = []
    for line in server.stdout:
        answers.append(json.loads(line))
        if answers[-1].get("id") == 2:
            break
    rest, _ = server.communicate(timeout=30)
    assert [json.loads(line) for line in rest.splitlines()] == []
    assert all(one["jsonrpc"] == "2.0" for one in answers)
    assert server.returncode == 0


def test_a_missing_extra_is_one_line(place: Place) -> None:
    hidden = "import sys, importlib.util as u; find = u.find_spec\n"
    hidden += "u.find_spec = lambda name, package=None: None if name == 'mcp' else find(name, package)\n"
    hidden += "import rlm.cli.app as app; sys.argv = ['rlm', 'mcp']; sys.exit(app.run())"
    ran = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, env=place.env, check=False, timeout=60
    )
    assert ran.returncode == 2
    assert ran.stderr == "rlm: MCP needs the extra mcp: pip install -e '.[mcp]'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_its_client_is_connected(place: Place, number: int) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "rlm", "mcp", "--model", "extractive", "--root", str(place.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.env,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(OPENING) + "\n")
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["id"] == 1
    server.send_signal(number)
    server.wait(timeout=30)
    assert server.returncode == 0
    assert server.stderr is not None
    assert server.stderr.read() == "rlm: stopped; rlm runs lists what can be resumed\n"
    for stream in (server.stdin, server.stdout, server.stderr):
        stream.close()
