"""Test that the snippets of docs/mcp.md are what clients and rlm read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import typer
from mcp_clients import Connect

from rlm.cli.app import app
from rlm.config_file.mcp_servers import read_mcp_servers

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_client_starts_a_command_that_we_have() -> None:
    tables: list[dict[str, Any]] = [json.loads(one) for one in snippets("json")]
    tables += [tomllib.loads(one) for one in snippets("toml")]
    started = [
        table[key]["rlm"]
        for table in tables
        for key in ("mcpServers", "servers", "mcp_servers")
        if key in table
    ]
    assert len(started) == 1
    command = typer.main.get_command(app).commands["mcp"]  # type: ignore[attr-defined]
    for one in started:
        assert (one["command"], one["args"][0]) == ("rlm", "mcp")
        command.make_parser(typer.Context(command)).parse_args(args=one["args"][1:])


def test_its_settings_file_is_read() -> None:
    (table,) = [tomllib.loads(one)["mcp"] for one in snippets("toml") if "[mcp." in one]
    servers = read_mcp_servers(table)
    assert servers["github"].filled_env({"GITHUB_TOKEN": "t"}) == {"GITHUB_TOKEN": "t"}
    assert servers["docs"].filled_headers({"DOCS_TOKEN": "t"}) == {"Authorization": "Bearer t"}


async def test_its_table_lists_the_tools(connect: Connect) -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    async with connect("--model", "extractive") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == rows
