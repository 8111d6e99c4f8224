"""Test what a person sees in a terminal of 80 columns: colours, figures, folded runs."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import COMMAND

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7])(?:;[0-9]+)*m")


def reply(role: str, text: str) -> str:
    return json.dumps({"role": role, "reply": text})


@pytest.fixture
def terminal(environment: dict[str, str], rlm: Any, tmp_path: Path) -> Callable[..., str]:
    """Return `terminal("ask", …)`: what a command writes to a terminal."""
    work = tmp_path / "work"
    (work / "log.txt").write_text("".join(f"line {number}\n" for number in range(3_000)))
    look = "# look first\nfor number in range(30):\n    print('row', number)"
    ask = "print(sub_query_batch('Which line?', chunk(12_000))[0])"
    end = "finalize('It is line 7.', evidence=[quote('line 7\\n')])"
    blocks = [reply("root", f"```repl\n{code}\n```") for code in (look, ask, end)]
    (work / "s.jsonl").write_text("\n".join([*blocks, *[reply("child", "Not here.")] * 9]))

    def run(*arguments: str, env: dict[str, str] | None = None) -> str:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        given = {**environment, "TERM": "xterm-256color", **(env or {})}
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=work, env=given
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                read = os.read(master, 65_536)
            except OSError:  # the other side is closed
                break
            if not read:
                break
            shown += read
        os.close(master)
        assert process.wait(60) == 0, shown.decode()
        return shown.decode().replace("\r\n", "\n")

    return run


ASK = ("ask", "Which line?", "log.txt", "--model", "scripted:s.jsonl", "--strategy", "rlm")


def test_a_run_is_shown_while_it_goes_and_again_later(terminal: Callable[..., str], tmp_path: Path) -> None:
    seen = terminal(*ASK, "--verbose")
    plain = ESCAPES.sub("", seen)
    assert re.search(r"· \d of \d children · (?:\$[\d.]+ · )?[\d.]+ % covered · \d+ s", plain)
    assert "    # look first" in plain
    assert COLOUR.search(seen)
    answer, sources, account = (
        plain.rindex(text) for text in ("It is line 7.", "\nSources\n", " · 3 rounds, ")
    )
    assert answer < sources < account
    assert all(len(line) <= 80 for line in plain[sources:].splitlines())

    shown = ESCAPES.sub("", terminal("show"))
    assert "… 18 more lines (-v shows all)" in shown
    assert re.search(r"child +tokens +cost +reply", shown)
    assert re.search(r"0-12,000 .* Not here\.", shown)
    assert shown.index("sub_query_batch") < shown.index("Not here.") < shown.index("answered:")
    (listed,) = terminal("runs").splitlines()
    assert re.fullmatch(r"[\w-]+  answered +\$0  Which line\?", listed)

    full = ESCAPES.sub("", terminal("show", "-v"))
    assert "row 29" in full
    assert "more lines" not in full


def test_no_colour_is_shown_where_the_user_wants_none(terminal: Callable[..., str]) -> None:
    for shown in (terminal(*ASK, "-v", env={"NO_COLOR": "1"}), terminal("show", env={"NO_COLOR": "1"})):
        assert not COLOUR.search(shown)


def test_without_a_key_a_person_is_told_what_one_would_change(terminal: Callable[..., str]) -> None:
    hint = "no key is set, so the answer will be extracts of the text"
    assert hint in ESCAPES.sub("", terminal("ask", "What is line 7?", "log.txt"))
    assert hint not in ESCAPES.sub("", terminal("ask", "What is line 7?", "log.txt", "--quiet"))
