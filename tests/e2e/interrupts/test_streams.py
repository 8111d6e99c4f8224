"""Test that streams that are closed, full or unread give one line and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def shell(environment, tmp_path):
    """Return `shell("$RLM … >/dev/full")`, which runs in a folder with a.txt."""
    (tmp_path / "a.txt").write_text("The supplier is Acme.\n")

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment, "RLM": f"{sys.executable} -m rlm"},
            timeout=60,
            check=False,
        )

    return run


ASK = "$RLM ask 'Who is the supplier?' a.txt"


@pytest.mark.parametrize("streams", ["<&-", "2>&-", "2>/dev/full", "<&- 2>&-"])
def test_the_answer_needs_no_stream_but_stdout(shell, streams) -> None:
    """Text that stderr cannot take is dropped."""
    done = shell(f"{ASK} {streams}")
    assert done.returncode == 0
    assert done.stdout.startswith("Extracts")
    assert "round" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_closed_stdin_is_an_empty_one(shell) -> None:
    done = shell("$RLM ask What? - <&-")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("rlm: stdin is empty")
    assert "name a file" in line


@pytest.mark.parametrize("command", [f"{ASK} -q", f"{ASK} -q --json", "$RLM runs --json", "$RLM --help"])
def test_a_full_disk_is_one_line(shell, command) -> None:
    """The exit code is 1, because the answer did not arrive."""
    done = shell(f"{command} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("rlm: cannot write the output: No space left on device;")
    assert done.stderr.count("\n") == 1


def test_a_closed_stdout_is_reported(shell) -> None:
    done = shell("$RLM runs --json >&-")
    assert done.returncode == 1
    assert done.stderr.startswith("rlm: cannot write the output: Bad file descriptor;")


def test_a_reader_that_leaves_is_no_error(shell) -> None:
    done = shell("$RLM ask --help | true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("command", ["ask x .", "ask x a.txt", "runs --store here.db"])
def test_a_folder_that_is_gone(shell, command) -> None:
    done = shell(f"mkdir gone; cd gone; rmdir ../gone; $RLM {command}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "give absolute paths" in done.stderr


def test_text_that_no_terminal_can_show(rlm, run_process, tmp_path, provider_server) -> None:
    """A character that an encoding lacks breaks neither the text nor the JSON."""
    (tmp_path / "a.txt").write_text("The supplier is Acme.\n")
    provider_server.always = "```repl\npeek(0, 1)\nfinalize('a\\u2603b 🙂')\n```"
    asked = ["ask", "What?", str(tmp_path / "a.txt"), "--strategy", "rlm", "-q"]
    asked += ["--model", f"openai:m@{provider_server.url}/v1"]
    assert rlm(*asked).stdout.startswith("a☃b 🙂\n")
    assert run_process(*asked, "--json", env={"PYTHONIOENCODING": "latin-1"}).json["answer"] == "a☃b 🙂"
    plain = run_process(*asked, env={"PYTHONIOENCODING": "latin-1"})
    assert (plain.code, plain.stdout) == (0, "a?b ?\n")
    listed = json.loads(rlm("runs", "--json").stdout)
    assert [run["cost_usd"] for run in listed] == [0.0] * 3
    assert "children       $0  What?" in rlm("runs").stdout


def test_a_home_that_cannot_be_written(rlm, sandbox_flag) -> None:
    """The exit code is 2 for the configuration; 3 is for the sandbox alone."""
    ran = rlm("doctor", env={"HOME": os.devnull, "XDG_STATE_HOME": ""})
    assert "fail  journal" in ran.stdout
    assert ran.code == (2 if sandbox_flag == "auto" else 3)


def test_a_bad_environment_is_one_line(rlm, tmp_path) -> None:
    """The exit code is 2, and nothing is spent."""
    (tmp_path / "a.txt").write_text("text\n")
    asked = ["ask", "What?", str(tmp_path / "a.txt"), "--model", "openai:m@https://127.0.0.1:9/v1"]
    ran = rlm(*asked, env={"SSL_CERT_FILE": "/nope"})
    assert ran.code == 2
    assert "SSL_CERT_FILE /nope" in ran.one_line
    assert "check the path" in ran.one_line
