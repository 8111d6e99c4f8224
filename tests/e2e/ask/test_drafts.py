"""The answer in a terminal while it is written, and after it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "rlm"]
TEXT = "The crane of the northern yard costs 41,000 euros."
ANSWER = f'It costs 41,000 euros,\nas the offer\x1b[2J says.\n\nEvidence:\n- "{TEXT}"'
_STEP = re.compile(r"\x1b\[\??(\d*)[;\d]*([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
WIDTH = 100


class Screen:
    """What a person sees of the bytes of a command: lines, carriage returns and the codes that we write."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for count, code, returned, ended, words in _STEP.findall(text):
            if returned:
                self._column = 0
            elif ended:
                self._row += 1
                self._lines += [""] * (self._row + 1 - len(self._lines))
            elif code == "A":
                self._row = max(0, self._row - int(count or 1))
            elif code == "K":
                self._lines[self._row] = ""
            elif words:
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + words + line[self._column + len(words) :]
                self._column += len(words)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)


@pytest.fixture
def command(provider_server, tmp_path: Path, environment) -> tuple[list[str], Path, dict[str, str]]:
    (tmp_path / "offer.txt").write_text(TEXT)
    model = f"openai:m@{provider_server.url}/v1"
    arguments = [*COMMAND, "ask", "What does it cost?", "offer.txt", "--model", model]
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "40"}
    return arguments, tmp_path, env


def screens(arguments: list[str], cwd: Path, env: dict[str, str]) -> tuple[list[tuple[float, str]], str]:
    """Run a command in a terminal. Return the screens after each output with their times, and all bytes."""
    main, side = pty.openpty()
    process = subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side, cwd=cwd, env=env)
    os.close(side)
    screen, seen, written = Screen(), [], ""
    while True:
        try:
            data = os.read(main, 65_536)
        except OSError:
            break
        written += data.decode(errors="replace")
        screen.feed(data.decode(errors="replace"))
        seen.append((time.monotonic(), screen.text))
    os.close(main)
    assert process.wait(60) == 0, written
    return seen, written


def test_the_draft_is_shown_and_the_checked_answer_replaces_it(command, provider_server, providers) -> None:
    provider_server.always = providers.Answer(ANSWER, piece=3, step=0.1)
    seen, written = screens(*command)
    drafts = [(at, text) for at, text in seen if "not checked yet:" in text]
    assert any("It costs 41,000" in text and "as the" not in text for _, text in drafts)
    assert seen[-1][0] - drafts[0][0] > 1.0
    last = seen[-1][1]
    assert "not checked yet" not in last
    assert last.count("It costs 41,000 euros") == 1
    assert last.index("It costs") < last.index("Sources")
    assert "Evidence:" not in written
    assert "\x1b[2J" not in written


def test_a_pipe_gets_the_answer_only(command, provider_server, providers) -> None:
    provider_server.always = providers.Answer(ANSWER, piece=3, step=0.02)
    arguments, cwd, env = command
    main, side = pty.openpty()
    done = subprocess.run(
        arguments, stdin=side, stdout=subprocess.PIPE, stderr=side, cwd=cwd, env=env, check=False
    )
    os.close(side)
    shown = b""
    while True:
        try:
            shown += os.read(main, 65_536)
        except OSError:
            break
    os.close(main)
    assert done.returncode == 0
    assert done.stdout.decode().startswith("It costs 41,000 euros,")
    assert b"not checked yet" not in shown
