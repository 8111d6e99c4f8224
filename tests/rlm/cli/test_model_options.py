"""Test --option, --sub-option and [models."NAME"], and how a resume gets them, with real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CELL = """```repl
print(sub_query('What does it cost?', (0, 100)))
finalize('7 euros', evidence=['7 euros'])
```"""


@pytest.fixture
def rlm(tmp_path: Path, provider_server):
    """Return `rlm(*arguments, code=…)`, the stdout and stderr of the command in a folder with `a.txt`."""
    (tmp_path / "a.txt").write_text("The crane costs 7 euros.\n" * 300)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RLM_")},
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "RLM_STORE": str(tmp_path / "rlm.db"),
        "RLM_SANDBOX": "0",
        "RLM_OPENAI_COMPATIBLE_KEY": "sk-test-0123456789",
        "RLM_OPENAI_COMPATIBLE_KEY_HOST": "127.0.0.1",
    }

    def run(*arguments: str, code: int = 0) -> str:
        verbose = ["-v"] if arguments[0] == "ask" else []
        command = [sys.executable, "-m", "rlm", *arguments, *verbose]
        ran = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == code, ran.stderr
        return ran.stdout + ran.stderr

    return run


def run_in(told: str) -> str:
    """Return the name of the run that a command has told."""
    return re.findall(r"^run (\S+): ", told, re.MULTILINE)[0]


def asked(server: Any, role: str) -> list[Any]:
    """Return the requests of the root or of the children."""
    return [one for one in server.requests if ("repl" in one.system) == (role == "root")]


def test_options_by_role_and_a_resume(rlm, provider_server, providers, tmp_path) -> None:
    model = f"openai:qwen3:8b@{provider_server.url}/v1"
    (tmp_path / "config" / "rlm").mkdir(parents=True)
    (tmp_path / "config" / "rlm" / "config.toml").write_text(
        f'[models."{model}"]\nseed = 1\ntemperature = 0.5\nheaders = {{X-Team = "law"}}\n'
    )
    provider_server.always = lambda one: (
        providers.Answer(CELL) if "repl" in one.system else providers.Status(400, "stop here")
    )
    options = ("--option", "effort=high", "--option", "output=9000", "--option", "body.top_p=0.9")
    sub_options = ("--sub-option", "seed=2", "--sub-option", "thinking=0")
    provider_server.play(providers.Status(400, "stop here"))
    told = rlm("ask", "Cost?", "a.txt", "--model", model, "--strategy", "rlm", *options, *sub_options, code=4)
    (root,) = provider_server.requests
    fields = ("reasoning_effort", "max_tokens", "top_p", "seed", "temperature")
    assert [root.body[name] for name in fields] == ["high", 41_000, 0.9, 1, 0.5]
    assert root.headers["x-team"] == "law"
    run = run_in(told)

    provider_server.always = lambda one: CELL if "repl" in one.system else "7 euros"
    assert "7 euros" in rlm("resume", run)
    again, child = asked(provider_server, "root")[1], asked(provider_server, "child")[0]
    assert again.body == root.body
    assert again.headers["x-team"] == child.headers["x-team"] == "law"
    assert (child.body["seed"], child.body["temperature"], child.body["max_tokens"]) == (2, 0.5, 8_000)
    assert child.body["reasoning_effort"] == "none"


def test_a_resume_without_a_header_says_so(rlm, provider_server, providers) -> None:
    model = f"openai:llama3@{provider_server.url}/v1"
    provider_server.play(providers.Status(400, "stop here"))
    header = ("--option", "headers.X-Team=law")
    told = rlm("ask", "Cost?", "a.txt", "--model", model, "--strategy", "direct", *header, code=4)
    run = run_in(told)
    said = rlm("resume", run, code=2)
    assert "was begun with the header X-Team" in said
    assert "add --option headers.X-Team=VALUE" in said
    assert len(provider_server.requests) == 1
    provider_server.always = 'It costs 7 euros.\n\nEvidence:\n- "The crane costs 7 euros."'
    assert "7 euros" in rlm("resume", run, *header)
    assert provider_server.requests[-1].headers["x-team"] == "law"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("effrot=high", "--option: 'effrot' is no setting, did you mean effort?"),
        ("temperature=9", "--option temperature is 9: give a number from 0 to 2"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_sent(rlm, provider_server, option, message) -> None:
    model = f"openai:llama3@{provider_server.url}/v1"
    assert message in rlm("ask", "Cost?", "a.txt", "--model", model, "--option", option, code=2)
    assert not provider_server.requests


def test_a_folder_sends_no_header(rlm, provider_server, tmp_path) -> None:
    model = f"openai:llama3@{provider_server.url}/v1"
    (tmp_path / "rlm.toml").write_text(
        f'[models."{model}"]\nbody = {{store = true}}\nheaders = {{X-A = "b"}}\n'
    )
    said = rlm("ask", "Cost?", "a.txt", "--model", model, code=2)
    assert "body of models, headers of models, which a folder may not" in said
    (tmp_path / "rlm.toml").write_text(f'[models."{model}"]\neffort = "low"\n')
    provider_server.always = 'It costs 7 euros.\n\nEvidence:\n- "The crane costs 7 euros."'
    rlm("ask", "Cost?", "a.txt", "--model", model)
    assert provider_server.requests[-1].body["reasoning_effort"] == "low"
