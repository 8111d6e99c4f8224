"""Test which files a client may have read: those below --root, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mcp_clients import Connect, Place, text_of

from rlm.errors import UsageError
from rlm.mcp.permission import Permission


async def test_a_path_outside_of_the_roots_is_refused_in_one_line(connect: Connect, place: Place) -> None:
    (place.root / "leads_out").symlink_to(place.outside / "secret.txt")
    (place.root / "folder_out").symlink_to(place.outside)
    (place.root / "stays").symlink_to(place.root / "offer.md")
    wrong = [
        str(place.outside / "secret.txt"),
        "../outside/secret.txt",
        f"{place.root}/../outside/secret.txt",
        "leads_out",
        "folder_out/secret.txt",
        "folder_out",
        "~/rlm.db",
        "/etc/passwd",
        "/proc/self/environ",
        "https://example.com/",
        f"file://{place.outside}/secret.txt",
    ]
    async with connect("--model", "extractive") as client:
        for path in wrong:
            for tool, arguments in (
                ("peek", {"path": path}),
                ("search", {"query": "password", "paths": [path]}),
                ("ask", {"question": "The password?", "paths": ["offer.md", path]}),
            ):
                result = await client.call_tool(tool, arguments)
                assert result.is_error, (tool, path)
                assert "swordfish" not in text_of(result), text_of(result)
                assert "\n" not in text_of(result), text_of(result)
        # A folder is read without the links that lead out of it.
        found = await client.call_tool("search", {"query": "password swordfish", "paths": ["."]})
        linked = await client.call_tool("peek", {"path": "stays"})
    assert "swordfish" not in text_of(found)
    assert "90,000" in text_of(linked)


async def test_runs_over_other_files_are_as_if_they_did_not_exist(connect: Connect, place: Place) -> None:
    async with connect("--model", "extractive", root=place.outside) as client:
        theirs = await client.call_tool("ask", {"question": "The password?", "paths": ["secret.txt"]})
    run = theirs.structured_content["run_id"]  # type: ignore[index]
    async with connect("--model", "extractive") as client:
        listed = await client.call_tool("runs", {})
        one = await client.call_tool("runs", {"run": run})
        resumed = await client.call_tool("resume", {"run": run})
        for resource in ("answer", "citation/1"):
            with pytest.raises(Exception, match="may be read here"):
                await client.read_resource(f"rlm://run/{run}/{resource}")
    assert listed.structured_content == {"runs": []}
    assert one.is_error
    assert resumed.is_error
    for result in (one, resumed):
        assert "password" not in text_of(result).replace(repr(run), "")


def test_devices_pipes_and_broken_paths_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    permission = Permission.of([tmp_path, tmp_path / "gone"])
    for path in ("pipe", "loop", "a\0b", "x" * 5_000, "gone", "C:\\x"):
        with pytest.raises(UsageError) as caught:
            permission.source(path)
        assert len(str(caught.value)) < 600
    assert permission.source("").path == tmp_path.resolve()
    with pytest.raises(UsageError, match="start it as rlm mcp --root FOLDER"):
        Permission.of([]).source("a.txt")


def test_a_missing_file_outside_looks_like_one_that_is_there(tmp_path: Path) -> None:
    """No one can ask which files exist."""
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "there").write_text("x")
    permission = Permission.of([inside])
    messages = set()
    for name in ("there", "gone"):
        with pytest.raises(UsageError) as caught:
            permission.source(f"../{name}")
        messages.add(str(caught.value).replace(name, "NAME"))
    assert len(messages) == 1
