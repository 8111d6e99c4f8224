"""Test which command shows the source of a citation, and which files it may show."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rlm import Citation
from rlm.cli.console.opener import choose_citation, open_citation, viewer_command
from rlm.errors import UsageError


def cite(document: str | None, line: int | None = 7, **facts: Any) -> Citation:
    return Citation("[¹]", "a quote", 0, 7, document, facts.pop("page", None), line, True, **facts)


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """Make a folder of programs that write down their arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("vim", "code", "hx", "less", "ed"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/seen\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize(
    ("env", "line", "command"),
    [
        ({"EDITOR": "vim"}, 7, ["vim", "+7", "/a b.txt"]),
        ({"VISUAL": "code --wait", "EDITOR": "vim"}, 7, ["code", "--wait", "--goto", "/a b.txt:7"]),
        ({"EDITOR": "hx"}, 7, ["hx", "/a b.txt:7"]),
        ({"EDITOR": "ed"}, 7, ["ed", "/a b.txt"]),
        ({"EDITOR": "vim"}, None, ["vim", "/a b.txt"]),
        ({"VISUAL": " ", "PAGER": "less -R"}, 7, ["less", "-R", "+7", "/a b.txt"]),
        ({}, 7, ["less", "+7", "/a b.txt"]),
    ],
)
def test_each_program_goes_to_the_line_in_its_own_way(
    bin_folder: Path, env: dict[str, str], line: int | None, command: list[str]
) -> None:
    assert viewer_command(Path("/a b.txt"), line, {**env, "PATH": str(bin_folder)}) == command


def test_a_program_that_is_missing_or_no_command_is_named(bin_folder: Path) -> None:
    with pytest.raises(UsageError, match="cannot find emacs: set VISUAL"):
        viewer_command(Path("/a"), 1, {"EDITOR": "emacs", "PATH": str(bin_folder)})
    with pytest.raises(UsageError, match="is no command"):
        viewer_command(Path("/a"), 1, {"EDITOR": "vim 'x", "PATH": str(bin_folder)})


@pytest.fixture
def opened(bin_folder: Path, tmp_path: Path) -> Any:
    """Return a function that opens a citation, and returns the arguments that the editor got."""

    def open_(citation: Citation, *sources: Path) -> list[str]:
        facts = [{"path": str(source)} for source in sources]
        open_citation(citation, facts, {"EDITOR": str(bin_folder / "vim"), "PATH": os.environ["PATH"]})
        return (tmp_path / "seen").read_text().splitlines()

    return open_


@pytest.mark.parametrize(
    "name", ["a.txt", "-c :!touch x", "$(touch x).txt", "a;touch x", "; rm -rf ~ #", "a'\"b"]
)
def test_a_name_is_one_argument_and_no_command(tmp_path: Path, opened: Any, name: str) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / name).write_text("text")
    assert opened(cite(name), folder / name) == ["+7", str(folder / name)]
    assert opened(cite(name), folder) == ["+7", str(folder / name)]
    assert opened(cite(f"docs/{name}"), folder) == ["+7", str(folder / name)]
    assert opened(cite(name, page=3), folder) == [str(folder / name)]
    assert opened(cite(name, part="slide 3"), folder) == [str(folder / name)]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "name", ["../secret", "gone.txt", "link", "a.zip/b.txt", "a\0b", "/etc/passwd", None]
)
def test_only_files_within_the_sources_are_opened(tmp_path: Path, opened: Any, name: str | None) -> None:
    """A document's name comes from an archive or a stored run: it may say anything."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "a.zip").write_text("")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="cannot be opened"):
        opened(cite(name), folder)
    with pytest.raises(UsageError, match="cannot be opened"):
        opened(cite(name))
    assert not (tmp_path / "seen").exists()


def test_the_citation_is_the_first_that_was_found_or_the_one_that_is_asked_for() -> None:
    missing = Citation("[¹]", "x", None, None, None, None, None, False)
    found = cite("a.txt")
    assert choose_citation([missing, found], None) is found
    assert choose_citation([missing, found], 1) is missing
    for citations, number in (([found], 2), ([found], 0), ([missing], None), ([], None)):
        with pytest.raises(UsageError, match="there is no source"):
            choose_citation(citations, number)
