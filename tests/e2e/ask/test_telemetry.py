"""Traces of the command line go where OpenTelemetry's variables say. Extra `otel`."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="extra otel is not installed")

TEXT = "The crane of the northern yard costs 41,000 euros."
ANSWER = f'It costs 41,000 euros.\n\nEvidence:\n- "{TEXT}"'


@pytest.fixture
def ask(rlm, provider_server, tmp_path: Path):
    """Return `ask(**env)`, which runs a question and returns what it printed and the seconds it took."""
    (tmp_path / "offer.txt").write_text(TEXT)
    provider_server.always = ANSWER

    def run(*arguments: str, **env: str):
        began = time.monotonic()
        model = f"openai:m@{provider_server.url}/v1"
        offer = str(tmp_path / "offer.txt")
        ran = rlm("ask", "What does it cost?", offer, "--model", model, *arguments, env=env)
        assert ran.code == 0, ran.stderr
        assert ran.stdout.startswith("It costs 41,000 euros.")
        return ran, time.monotonic() - began

    return run


def test_the_usual_variables_are_enough(ask, otlp_collector) -> None:
    with otlp_collector() as collector:
        ran, _ = ask(
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-api-key=planted"
        )
    call, run = collector.named("chat m"), collector.named("invoke_agent rlm")
    assert call.parent == run.id
    assert run.attributes["rlm.run_id"]
    assert collector.resource["service.name"] == "rlm"
    assert collector.headers[0]["x-api-key"] == "planted"
    assert "gen_ai.client.token.usage" in collector.metrics
    assert "rlm: " not in ran.stderr


def test_only_what_has_a_collector_is_sent(ask, otlp_collector) -> None:
    with otlp_collector() as collector:
        ask(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces")
        assert collector.spans
        assert not collector.metrics
        collector.spans.clear()
        ask(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SDK_DISABLED="true")
        assert not collector.spans


def test_a_dead_collector_costs_no_answer_and_little_time(ask, otlp_collector) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        ran, seconds = ask(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{bound.getsockname()[1]}")
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("rlm: ")]
    assert line.startswith("rlm: traces were not sent: ")
    assert "Traceback" not in ran.stderr
    assert seconds < 30
    with otlp_collector(seconds=60) as collector:
        ran, seconds = ask(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert "rlm: traces were not sent: " in ran.stderr
    assert seconds < 30


def test_what_is_not_installed_is_one_line(environment, tmp_path) -> None:
    hidden = tmp_path / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')")
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(hidden.parent)}
    env = {**environment, **given}
    command = [sys.executable, "-m", "rlm", "ask", "fee", "--model", "extractive", "-"]
    ran = subprocess.run(command, input="The fee is 5.", env=env, capture_output=True, text=True, check=True)
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("rlm: ")]
    assert "pip install -e '.[otel]'" in line


def test_what_is_not_known_is_one_line(ask) -> None:
    ran, _ = ask(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_PROTOCOL="http/json")
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("rlm: ")]
    assert line.startswith("rlm: traces are not sent (")
    assert "http/json" in line


def test_a_settings_file_cannot_name_a_collector(rlm, ask, otlp_collector, tmp_path) -> None:
    """A folder could otherwise have the content of runs sent to its author."""
    with otlp_collector() as collector:
        (tmp_path / "work" / "rlm.toml").write_text(
            f'OTEL_EXPORTER_OTLP_ENDPOINT = "{collector.url}"\n[otel]\nendpoint = "{collector.url}"\n'
        )
        ran = rlm("ask", "What does it cost?", str(tmp_path / "offer.txt"), "--model", "extractive")
    assert not collector.spans
    assert "rlm.toml" in ran.stderr
