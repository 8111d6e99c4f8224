"""Test `rlm models`: providers, which keys are set (never their values), and prices."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

KEY = "sk-test-a-very-secret-key"


def test_keys_are_listed_as_set_and_never_shown(rlm) -> None:
    ran = rlm("models", env={"OPENAI_API_KEY": KEY})
    assert ran.code == 0
    assert "OPENAI_API_KEY is set" in ran.stdout
    assert "ANTHROPIC_API_KEY is not set" in ran.stdout
    assert KEY not in ran.stdout + ran.stderr


def test_the_servers_of_a_key_are_listed(rlm) -> None:
    env = {"RLM_OPENAI_COMPATIBLE_KEY": KEY}
    assert "RLM_OPENAI_COMPATIBLE_KEY is set, for no server" in rlm("models", env=env).stdout
    env["RLM_OPENAI_COMPATIBLE_KEY_HOST"] = "openrouter.ai, 127.0.0.1:8000"
    listed = rlm("models", "--json", env=env)
    hosts = ["127.0.0.1:8000", "https://openrouter.ai:443"]
    assert listed.json["key_hosts"] == {"RLM_OPENAI_COMPATIBLE_KEY": hosts}
    assert KEY not in listed.stdout


def test_windows_and_prices_are_listed(rlm) -> None:
    listed = rlm("models", "--json").json
    by_name = {row["name"]: row for row in listed["models"]}
    assert by_name["openai:gpt-5"] == {
        "name": "openai:gpt-5",
        "window": 400_000,
        "output": 128_000,
        "input_price": 1.25,
        "output_price": 10.0,
    }
    assert listed["default"] == "extractive"
    assert listed["keys"]["OPENAI_API_KEY"] is False


def test_what_the_settings_say_of_a_model_is_shown(rlm, tmp_path) -> None:
    name = "openai:mine@http://localhost:8000/v1"
    config = tmp_path / "rlm.toml"
    config.write_text(f'[models."{name}"]\nwindow = 32768\ninput_price = 0.5\noutput_price = 1.5\n')
    (row,) = [
        row for row in rlm("models", "--json", "--config", str(config)).json["models"] if row["name"] == name
    ]
    assert (row["window"], row["input_price"], row["output_price"]) == (32_768, 0.5, 1.5)


TAGS = {"models": [{"name": "qwen3:8b"}]}


@pytest.fixture
def ollama() -> Iterator[str]:
    """Yield the address of a server that lists its models as Ollama does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(TAGS if self.path == "/api/tags" else {}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_on_this_machine_is_listed_with_the_name_to_type(rlm, ollama: str) -> None:
    env = {"OLLAMA_HOST": ollama}
    shown = rlm("models", env=env).stdout
    assert f"Ollama at {ollama}: ollama:qwen3:8b" in shown
    assert max(map(len, shown.splitlines())) <= 80
    (server,) = [
        one for one in rlm("models", "--json", env=env).json["servers"] if one["provider"] == "ollama"
    ]
    assert server["models"] == ["ollama:qwen3:8b"]
    assert "ollama:qwen3:8b" in rlm("doctor", env=env).stdout


def test_a_run_without_a_key_names_it_and_does_not_use_it(rlm, ollama: str, tmp_path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("The crane of the northern yard costs 900 euros a day.")
    env = {"OLLAMA_HOST": ollama}
    ran = rlm("ask", "What does the crane cost?", str(text), env=env)
    assert "Ollama runs on this machine: --model ollama:qwen3:8b asks it" in ran.stderr
    assert "900 euros" in ran.stdout
    for arguments in (["--quiet"], ["--model", "extractive"]):
        assert "Ollama" not in rlm("ask", "What does the crane cost?", str(text), *arguments, env=env).stderr
