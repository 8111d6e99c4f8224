"""Test that a killed or interrupted `rlm summarize` does not pay twice."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

MESSAGES = 1_200
"""About 300,000 tokens: six parts."""


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    draw = random.Random(5)
    path = tmp_path / "chat.log"
    path.write_text(
        "".join(
            f"[2026-05-01 10:00] {'Ann' if n % 2 else 'Ben'}: read {draw.getrandbits(1600):0400x}\n"
            for n in range(MESSAGES)
        )
    )
    return path


def start_summary(talk: Path, server: Any, *more: str) -> subprocess.Popen[str]:
    model = f"openai:m@{server.url}/v1"
    command = [sys.executable, "-m", "rlm", "summarize", str(talk), "--model", model]
    store = str(talk.parent / "rlm.db")
    return subprocess.Popen(
        [*command, "--store", store, "--tokens", "900", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=talk.parent,
        env={**os.environ, "OPENAI_API_KEY": "key-of-nobody"},
    )


def replies(store: Path) -> int:
    if not store.exists():
        return 0
    with closing(sqlite3.connect(store)) as database, database:
        try:
            (count,) = database.execute("SELECT count(*) FROM events WHERE kind = 'model_call'").fetchone()
        except sqlite3.OperationalError:
            return 0  # the store is being made
    return int(count)


def run_of(store: Path) -> str:
    with closing(sqlite3.connect(store)) as database, database:
        (name,) = database.execute("SELECT run_id FROM events ORDER BY seq LIMIT 1").fetchone()
    return str(name)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_an_interrupted_summary_is_resumed_with_the_paid_replies(
    talk: Path, provider_server: Any, providers: Any, way: signal.Signals
) -> None:
    """Two parts are answered, the others never are. `--since` asks for these only."""
    answered: list[str] = []

    def answers(received: Any) -> Any:
        if len(answered) == 2:
            return providers.Silence("")
        answered.append(received.prompt)
        return note(received)

    def note(received: Any) -> str:
        (name,) = re.findall(r"^\[(m\d+)\]", received.prompt, re.MULTILINE)[:1] or ["m1"]
        return f"- Ben read it [{name}]"

    provider_server.always = answers
    store = talk.parent / "rlm.db"
    with start_summary(talk, provider_server) as process:
        end = time.monotonic() + 60
        while replies(store) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(way)
        _, errors = process.communicate(timeout=30)
    assert replies(store) == 2
    if way is signal.SIGINT:
        assert f"the same command with --since {run_of(store)}" in errors
    first = {one.prompt for one in provider_server.requests}
    provider_server.requests.clear()
    provider_server.always = note
    with start_summary(talk, provider_server, "--since", run_of(store)) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Ben read it [m1]" in output
    again = {one.prompt for one in provider_server.requests}
    assert first - set(answered) <= again
    assert again.isdisjoint(answered)
