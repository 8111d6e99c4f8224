"""Spans, log lines and the trace of a run. Extra `otel`;"""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rlm import RLM, Settings
from rlm.errors import ConfigurationError
from rlm.events import CellRun, ChildrenStarted, Retrying, ToolEnded, Warned
from rlm.models.base import Reply, TokenUsage
from rlm.telemetry import log_event
from rlm.testing import ScriptedModel
from rlm.trace import TraceFile

SECRET = "the body is a secret"
ASK = "answer = sub_query('what?', peek(0, 20))\nfinalize(str(answer))"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """OpenTelemetry takes one provider a process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


@pytest.fixture
def rlm(sandbox_level: int, tmp_path: Path, block) -> RLM:
    usage = TokenUsage(input_tokens=100, output_tokens=7)
    model = ScriptedModel.of(root=["no block", block(ASK)], child=Reply("nothing", usage=usage))
    settings = Settings(strategy="rlm", sandbox=sandbox_level, store=tmp_path / "rlm.db")
    return RLM(model, settings=settings)


def _named(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


async def test_a_run_is_a_tree_of_spans(rlm, spans) -> None:
    """GenAI conventions: the agent's run, in it rounds, in these the chats and the tool."""
    result = await rlm.run("What?", SECRET)
    named = _named(spans)
    run, round_, cell = named["invoke_agent rlm"], named["round 2"], named["execute_tool repl"]
    assert run.attributes is not None
    assert run.attributes["rlm.run_id"] == result.run_id
    assert run.attributes["rlm.stop_reason"] == "finalized"
    assert round_.parent is not None
    assert cell.parent is not None
    assert round_.parent.span_id == run.context.span_id
    assert cell.parent.span_id == round_.context.span_id
    chats = [span for span in spans.get_finished_spans() if span.name.startswith("chat ")]
    roles = [(span.attributes or {})["rlm.role"] for span in chats]
    assert sorted(map(str, roles)) == ["child", "root", "root"]
    child = chats[roles.index("child")]
    assert child.parent is not None
    assert child.attributes is not None
    assert child.parent.span_id == cell.context.span_id
    assert child.attributes["gen_ai.usage.input_tokens"] == 100
    assert child.attributes["gen_ai.usage.output_tokens"] == 7
    violated = named["round 1"].events
    assert [event.name for event in violated] == ["rlm.violation"]


async def test_no_text_is_in_a_span(rlm, spans) -> None:
    await rlm.run("What is the question?", SECRET)
    told = json.dumps([json.loads(span.to_json()) for span in spans.get_finished_spans()])
    for text in (SECRET, "question", "sub_query", "nothing"):
        assert text not in told


async def test_concurrent_runs_have_separate_spans(rlm, spans, block) -> None:
    import asyncio

    rlm.model = ScriptedModel.of(root=lambda request: block("finalize(peek(0, 3))"))
    await asyncio.gather(rlm.run("a?", "one"), rlm.run("b?", "two"))
    runs = [span for span in spans.get_finished_spans() if span.name == "invoke_agent rlm"]
    rounds = [span for span in spans.get_finished_spans() if span.name == "round 1"]
    assert len(runs) == 2
    assert {span.parent.span_id for span in rounds if span.parent} == {run.context.span_id for run in runs}


async def test_a_run_is_written_to_the_standard_log(rlm, caplog) -> None:
    with caplog.at_level(logging.DEBUG, logger="rlm"):
        result = await rlm.run("What?", SECRET)
    lines = [record.getMessage() for record in caplog.records if record.name == "rlm"]
    assert any(result.run_id in line for line in lines)
    assert any("round 1: the reply" in line for line in lines)
    assert not any(SECRET in line for line in lines)


@pytest.mark.parametrize(
    ("event", "level", "line"),
    [
        (ToolEnded("price", True, 0.5), logging.INFO, "tool price gave a value in 0.50 s"),
        (ToolEnded("price", False, 0.5), logging.INFO, "tool price failed in 0.50 s"),
        (
            Retrying(2, 1.5, "timeout"),
            logging.WARNING,
            "provider: timeout; attempt 2 failed, retrying in 1.5 s",
        ),
        (ChildrenStarted(3), logging.INFO, "asking 3 children"),
        (Warned("so it is"), logging.WARNING, "warning: so it is"),
    ],
)
def test_each_event_is_a_line_of_the_log(caplog, event, level, line) -> None:
    with caplog.at_level(logging.DEBUG, logger="rlm"):
        log_event(event)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(level, line)]


async def test_the_trace_holds_every_event_in_order(rlm, tmp_path) -> None:
    """--trace FILE."""
    path = tmp_path / "trace.jsonl"
    with TraceFile(path) as file:
        result = await RLM(rlm.model, settings=rlm.settings, observe=file.on_event).run("What?", SECRET)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    names = [line["event"] for line in lines]
    assert names[:2] == ["ContextLoaded", "RunStarted"]
    assert names[-1] == "RunEnded"
    assert names.index("Violated") < names.index("CellRun") < names.index("ChildEnded")
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert lines[1]["run_id"] == result.run_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_key_is_in_the_trace(tmp_path, monkeypatch) -> None:
    """A model may write a key from a document into its code."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    path = tmp_path / "trace.jsonl"
    with TraceFile(path) as file:
        file.on_event(CellRun(1, "key = 'sk-planted-0123456789'"))
        file.on_event(Warned("refused: sk-planted-0123456789"))
    text = path.read_text()
    assert "planted" not in text
    assert "key = '[redacted]'" in text


def test_a_trace_that_cannot_be_written_says_so(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="can't be written"):
        TraceFile(tmp_path / "missing" / "trace.jsonl")
