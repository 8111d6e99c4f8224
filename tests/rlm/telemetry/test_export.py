"""Traces that a real collector receives from a real run, over OTLP. Extra `otel`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="extra otel is not installed")

PROGRAM = Path(__file__).with_name("traced_run.py")
KEY = "sk-planted-0123456789abcdef"
USAGE = (120, 30, 100)


def block(code: str) -> str:
    return f"```repl\n{code}\n```"


ROOT = block(
    "try:\n    price('plough')\nexcept Exception as error:\n    print(error)\n"
    "print(price('crane'))\n"
    f"notes = sub_query_batch('What does it cost? {KEY}', [(0, 20), (20, 50)])\n"
    "print(sub_rlm('Which yard?', (0, 50)))\n1 / 0"
)
FINAL = block("finalize('41,000 euros', evidence=[(0, 50)])")
SUB = block("print(sub_query('which yard?', peek(0, 30)))\nfinalize('northern', evidence=[(4, 30)])")


@pytest.fixture
def play(provider_server, providers):
    """Answer as the models of the program do."""

    def answer(received: Any) -> Any:
        text = "\n".join(str(message["content"]) for message in received.body["messages"])
        if received.body["model"] == "bad":
            return providers.Status(401, "no such key")
        if "```repl" not in text:
            return providers.Answer("a note: 41,000", usage=USAGE)
        if "Which yard?" in text and "What does it cost?" not in text:
            return providers.Answer(SUB, usage=USAGE)
        turns = [message for message in received.body["messages"] if message["role"] == "assistant"]
        first = "And the mixer?" not in text and not turns
        return providers.Answer(ROOT if first else FINAL, usage=USAGE)

    provider_server.always = answer
    return provider_server


def run_traced(collector, play, tmp_path: Path, sandbox_level: int, **env: str) -> None:
    given = {
        **os.environ,
        "RLM_OPENAI_COMPATIBLE_KEY": KEY,
        "RLM_OPENAI_COMPATIBLE_KEY_HOST": "127.0.0.1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20planted",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "yard",
        **env,
    }
    arguments = [sys.executable, str(PROGRAM), play.url, str(tmp_path / "rlm.db"), str(sandbox_level)]
    done = subprocess.run(arguments, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_collector_gets_the_tree_of_a_session(otlp_collector, play, tmp_path, sandbox_level) -> None:
    with otlp_collector() as collector:
        run_traced(collector, play, tmp_path, sandbox_level)
    assert collector.resource["service.name"] == "yard"
    assert {one["authorization"] for one in collector.headers} == {"Basic planted"}
    runs = [span for span in collector.spans if span.name == "invoke_agent rlm"]
    first, second, failed = runs
    assert {one.kind for one in runs} == {"INTERNAL"}

    # One conversation, two runs.
    conversation = first.attributes["gen_ai.conversation.id"]
    assert conversation == first.attributes["rlm.run_id"] == second.attributes["gen_ai.conversation.id"]
    assert failed.attributes["gen_ai.conversation.id"] == failed.attributes["rlm.run_id"] != conversation

    # What happens in a cell is below it.
    above = ["invoke_agent rlm", "round 1", "execute_tool repl"]
    tools = [span for span in collector.spans if span.name == "execute_tool price"]
    assert [collector.path(span)[:3] for span in tools] == [above, above]
    assert [span.attributes.get("error.type") for span in tools] == ["tool", None]
    assert (tools[0].status is None, tools[1].status) == (False, None)
    assert tools[0].kind == "INTERNAL"
    sub = collector.named("invoke_agent sub-rlm")
    assert collector.path(sub) == [*above, "invoke_agent sub-rlm"]
    assert sub.attributes["gen_ai.conversation.id"] == conversation
    chats = [span for span in collector.spans if span.name == "chat root"]
    paths = sorted(collector.path(span) for span in chats if span.attributes["rlm.role"] == "child")
    assert paths == sorted(
        [
            [*above, "chat root"],
            [*above, "chat root"],
            [*above, "invoke_agent sub-rlm", "round 1", "execute_tool repl", "chat root"],
        ]
    )
    cell = next(span for span in collector.spans if collector.path(span) == above)
    assert (cell.status, cell.attributes["error.type"]) == ("ZeroDivisionError", "ZeroDivisionError")

    # A call by the conventions.
    child = next(span for span in chats if span.attributes["rlm.role"] == "child")
    assert child.kind == "CLIENT"
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "root",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "server.address": "127.0.0.1",
        "server.port": play.port,
    }
    assert {name: child.attributes.get(name) for name in expected} == expected
    assert child.attributes["gen_ai.request.max_tokens"] > 0

    # A failure.
    assert failed.attributes["error.type"] == failed.attributes["rlm.stop_reason"] == "model"
    call = collector.named("chat bad")
    assert (call.status, call.attributes["error.type"]) == ("ModelRejected", "ModelRejected")

    # Metrics, and nothing of what was said.
    tokens = collector.metrics["gen_ai.client.token.usage"]
    assert sum(one["sum"] for one in tokens if one["gen_ai.token.type"] == "input") == 120 * len(chats)
    durations = collector.metrics["gen_ai.client.operation.duration"]
    assert {one.get("error.type") for one in durations} == {None, "ModelRejected"}
    told = json.dumps([[span.name, span.attributes, span.status] for span in collector.spans], default=str)
    for text in ("crane", "What does", "northern", "planted", "sub_query"):
        assert text not in told
    assert not collector.logs


@pytest.mark.parametrize("mode", ["SPAN_ONLY", "EVENT_ONLY"])
def test_content_is_sent_where_it_is_asked_for(otlp_collector, play, tmp_path, sandbox_level, mode) -> None:
    with otlp_collector() as collector:
        run_traced(
            collector,
            play,
            tmp_path,
            sandbox_level,
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=mode,
        )
    events = [one for one in collector.logs if one["event"] == "gen_ai.client.inference.operation.details"]
    holders = [span.attributes for span in collector.spans] if mode == "SPAN_ONLY" else events
    messages = [one for one in holders if "gen_ai.input.messages" in one]
    assert messages
    told = json.dumps(holders)
    assert "What does it cost?" in told
    assert "a note: 41,000" in told
    assert "gen_ai.system_instructions" in told
    assert KEY not in told
    assert "[redacted]" in told
    if mode == "SPAN_ONLY":
        tool = next(span for span in collector.spans if span.name == "execute_tool price")
        assert "plough" in tool.attributes["gen_ai.tool.call.arguments"]
        first = next(span for span in collector.spans if span.name == "invoke_agent rlm")
        assert "41,000 euros" in first.attributes["gen_ai.output.messages"]
        assert not events
