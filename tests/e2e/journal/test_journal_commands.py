"""Test the journal's commands: resume, replay, export and prune. No key appears anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

KEY = "sk-planted-4f9c2e7b1a8d"
TEXT = "One line.\nThe magic word is xyzzy.\nAnother line.\n"
QUESTION = "What is the magic word?"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def provider(provider_server):
    """Yield a root that asks a child and then finalizes, and a child that answers. `slow` delays the last
    round.
    """
    slow = {"seconds": 4.0}

    def reply(received) -> str:
        if "repl" not in received.system:
            return "xyzzy"
        rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
        if rounds == 0:
            return "```repl\nsaid = str(sub_query('What is the word?', (0, 30)))\nprint(said)\n```"
        return f"```repl\nimport time\ntime.sleep({slow['seconds']})\nfinalize(said)\n```"

    provider_server.always = reply
    provider_server.slow = slow
    return provider_server


def options(provider) -> list[str]:
    return ["--model", f"openai:m@{provider.url}/v1", "--strategy", "rlm"]


def start_run(rlm_process, provider, text: Path):
    """Start `rlm ask`, wait for its second block, and return the process and the run's name."""
    process = rlm_process("ask", QUESTION, str(text), *options(provider), "-v")
    run_id = ""
    for line in process.stderr:
        if found := re.match(r"run (\S+):", line):
            run_id = found[1]
        if "round 2: import time" in line:
            break
    return process, run_id


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_run_is_resumed(rlm, rlm_process, provider, text, signum) -> None:
    """After kill -9, and after Ctrl-C, which names the command. Nothing is paid twice."""
    process, run_id = start_run(rlm_process, provider, text)
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=20)
    if signum == signal.SIGINT:
        assert process.returncode == 130
        assert f"rlm resume {run_id}" in stderr.splitlines()[-1]
    (listed,) = rlm("runs", "--json").json
    assert (listed["run_id"], listed["state"]) == (run_id, "interrupted")
    asked = len(provider.requests)
    # The input is in the journal.
    text.unlink()
    ran = rlm("resume", run_id, "--json", timeout=100)
    assert ran.code == 0, ran.stderr
    assert (ran.json["run_id"], ran.json["answer"], ran.json["sub_calls"]) == (run_id, "xyzzy", 1)
    assert len(provider.requests) == asked
    assert f"resuming {run_id}: 2 rounds and 1 other reply from the journal" in ran.stderr
    again = rlm("resume", run_id[:-1])
    assert (again.code, again.stdout) == (0, "xyzzy\n")
    assert f"run {run_id}: rlm" in rlm("resume", run_id, "-v").stderr


FACTS = """
summary_model = "openai:notes@{url}/v1"
[models."openai:m@{url}/v1"]
window = 30_000
output = 900
input_price = 2.0
output_price = 8.0
[models."openai:notes@{url}/v1"]
output = 700
"""


def test_a_resumed_run_keeps_its_windows_prices_and_models(
    rlm, rlm_process, provider, text, tmp_path
) -> None:
    """The models of a settings file belong to the run, wherever it is resumed. Otherwise a call would differ
    and be paid again.
    """
    (tmp_path / "its.toml").write_text(FACTS.format(url=provider.url))
    process = rlm_process(
        "ask", QUESTION, str(text), *options(provider), "--config", str(tmp_path / "its.toml"), "-v"
    )
    for line in process.stderr:
        if "round 1: said" in line:
            break
    provider.slow["seconds"] = 0.0
    process.kill()
    process.communicate(timeout=20)
    (listed,) = rlm("runs", "--json").json
    before = rlm("export", listed["run_id"]).stdout
    replies = sum('"reply":' in line for line in before.splitlines())
    asked = len(provider.requests)
    ran = rlm("resume", listed["run_id"], "--json", timeout=100)
    assert ran.json["answer"] == "xyzzy", ran.stderr
    later = provider.requests[asked:]
    assert len(later) == 3 - replies
    assert {one.body.get("max_tokens") or one.body["max_completion_tokens"] for one in later} == {900}
    (usage,) = ran.json["usage"]
    assert usage["cost_usd"] > 0
    first = json.loads(before.splitlines()[0])["data"]["settings"]
    assert first["windows"]["summary_model"]["output"] == 700


@pytest.fixture
def answered_run(rlm, provider, text) -> str:
    """Return the name of a run that has its answer."""
    provider.slow["seconds"] = 0.0
    ran = rlm("ask", QUESTION, str(text), *options(provider), "--json")
    assert ran.code == 0, ran.stderr
    return str(ran.json["run_id"])


def test_a_run_is_replayed_without_its_provider(rlm, provider, answered_run, text) -> None:
    """The replay is offline. A line and exit code 0 say that the answer is the same."""
    asked = len(provider.requests)
    text.unlink()
    ran = rlm("replay", answered_run)
    assert (ran.code, ran.stdout) == (0, "xyzzy\n"), ran.stderr
    assert f"the replay of {answered_run} gives the same answer" in ran.stderr
    assert "resuming" not in ran.stderr
    assert len(provider.requests) == asked
    text.write_text(TEXT)
    ran = rlm("ask", QUESTION, str(text), "--model", f"replay:{answered_run}", "--strategy", "rlm", "--quiet")
    assert (ran.code, ran.stdout) == (0, "xyzzy\n"), ran.stderr
    assert len(provider.requests) == asked


def test_a_run_is_exported(rlm, answered_run, tmp_path) -> None:
    """Each event is one line of JSON, in a private file or on stdout."""
    events = [json.loads(line) for line in rlm("export", answered_run).stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    assert kinds == ["run_started", "model_call", "child", "cell", "model_call", "cell", "finished"]
    out = tmp_path / "run.jsonl"
    ran = rlm("export", answered_run, "--out", str(out))
    for fact in ("7 events", answered_run, str(out)):
        assert fact in ran.one_line
    assert [json.loads(line) for line in out.read_text().splitlines()] == events
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_the_conversations_of_a_run_are_exported(rlm, answered_run) -> None:
    """Without a model and without a key: each conversation with its messages."""
    found = [
        json.loads(line) for line in rlm("export", answered_run, "--format", "messages").stdout.splitlines()
    ]
    assert [(one["role"], one["rounds"]) for one in found] == [("root", [1, 2]), ("child", [0, 0])]
    assert found[1]["messages"][-1] == {"role": "assistant", "content": "xyzzy"}


def test_runs_are_listed_as_json(rlm, answered_run) -> None:
    (listed,) = rlm("runs", "--json").json
    assert list(listed) == [
        "run_id", "task", "state", "stop_reason", "started_at", "rounds", "sub_calls", "cost_usd",
    ]  # fmt: skip
    assert (listed["run_id"], listed["task"], listed["state"]) == (answered_run, QUESTION, "finished")


def test_runs_are_pruned(rlm, answered_run) -> None:
    """Runs are removed by age or by number. One of the options is required."""
    assert "--older-than 30d" in rlm("runs", "rm").one_line
    assert "Write 90m, 12h, 30d or 8w" in rlm("runs", "rm", "--older-than", "soon").one_line
    assert "0 runs" in rlm("runs", "rm", "--older-than", "1h").one_line
    assert "0 runs" in rlm("runs", "rm", "--keep", "1").one_line
    assert "1 run" in rlm("runs", "rm", "--keep", "0").one_line
    assert rlm("runs", "--json").json == []


def test_a_journal_over_its_cap_says_what_it_lost(rlm, provider, answered_run, text) -> None:
    """One line reports that the oldest finished runs were removed."""
    ran = rlm("ask", QUESTION, str(text), *options(provider), "--set", "store_mb=0")
    assert ran.code == 0
    (line,) = [line for line in ran.stderr.splitlines() if "removed" in line]
    assert "the journal exceeded 0 MB (the setting store_mb): removed the oldest run" in line
    assert answered_run not in rlm("runs").stdout


def test_no_key_is_written_anywhere(rlm, rlm_process, provider, tmp_path, environment) -> None:
    """A planted key is in no store, log, output, error or export, although a document, a child and a cell
    contain it.
    """
    text = tmp_path / "text.txt"
    text.write_text(f"{TEXT}OPENAI_API_KEY={KEY}\n")

    def reply(received) -> str:
        assert received.headers["authorization"] == f"Bearer {KEY}"
        if "repl" not in received.system:
            return f"The key is {KEY}."
        rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
        if rounds == 0:
            code = f"# Look.\nsaid = str(sub_query('Where is {KEY}?', (0, 80)))\nprint(said, read_all())"
            return f"```repl\n{code}\n```"
        return "```repl\nimport os\nprint(dict(os.environ))\nfinalize(said, evidence=[(0, 80)])\n```"

    provider.always = reply
    key = {"RLM_OPENAI_COMPATIBLE_KEY": KEY, "RLM_OPENAI_COMPATIBLE_KEY_HOST": provider.url}
    ran = rlm("ask", QUESTION, str(text), *options(provider), "--json", env=key)
    assert ran.code == 0, ran.stderr
    shown = [rlm(*command, env=key) for command in (
        ["show", ran.json["run_id"]], ["export", ran.json["run_id"]], ["runs", "--json"],
    )]  # fmt: skip
    assert all(one.code == 0 for one in shown)
    state = Path(environment["XDG_STATE_HOME"]) / "rlm"
    files = {file.name: file.read_bytes() for file in state.iterdir()}
    assert set(files) >= {"rlm.db"}
    assert b"What is the word" not in b"".join(files.values())
    assert b"magic word is xyzzy" in b"".join(files.values())
    for written in (*files.values(), ran.stderr.encode(), *(one.stdout.encode() for one in shown)):
        assert KEY.encode() not in written
    # Its input holds the key, so it was not stored, and is read again from its path.
    again = rlm("replay", ran.json["run_id"], env=key)
    assert KEY not in again.stderr
    left = [file for file in Path(os.environ["HOME"]).rglob("*") if file.is_file()]
    assert all(KEY.encode() not in file.read_bytes() for file in left)


def test_a_key_is_not_in_the_write_ahead_log_of_a_killed_run(
    rlm_process, provider, text, environment
) -> None:
    environment |= {"RLM_OPENAI_COMPATIBLE_KEY": KEY, "RLM_OPENAI_COMPATIBLE_KEY_HOST": provider.url}
    process, _ = start_run(rlm_process, provider, text)
    process.kill()
    process.communicate()
    state = Path(environment["XDG_STATE_HOME"]) / "rlm"
    assert {file.name for file in state.iterdir()} == {"rlm.db", "rlm.db-wal", "rlm.db-shm"}
    assert all(KEY.encode() not in file.read_bytes() for file in state.iterdir())


def test_a_run_in_postgresql(rlm, provider, text, postgres_url) -> None:
    """Resume, replay and export work with --store URL and RLM_STORE."""
    provider.slow["seconds"] = 0.0
    ran = rlm("ask", QUESTION, str(text), *options(provider), "--store", postgres_url, "--json")
    assert ran.code == 0, ran.stderr
    run_id = ran.json["run_id"]
    store = {"RLM_STORE": postgres_url}
    assert [run["run_id"] for run in rlm("runs", "--json", env=store).json] == [run_id]
    assert rlm("resume", run_id, "--quiet", env=store).stdout == "xyzzy\n"
    assert rlm("replay", run_id, "--quiet", env=store).stdout == "xyzzy\n"
    assert len(rlm("export", run_id, env=store).stdout.splitlines()) == 7
    assert rlm("runs", "--json").json == []
