"""Report runs as OpenTelemetry spans, by the conventions for generative AI, and in the standard log.

The conventions are still in development, so this module holds all their names. No span and no log line
contains text of a prompt, a reply, a document or a cell.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

from rlm import events
from rlm.errors import ConfigurationError
from rlm.events import Event, Observer
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["log_event", "run_spans"]

_LOG = logging.getLogger("rlm")
# Without any handler, Python prints warnings to stderr. An application that wants the log adds its own.
_LOG.addHandler(logging.NullHandler())
_NANO = 1_000_000_000


def run_spans() -> Observer | None:
    """Return an observer that turns one run's events into spans. None unless the application has set up
    OpenTelemetry's SDK (extra `otel`)."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    return _RunSpans(trace.get_tracer("rlm")).on_event


class _RunSpans:
    """The spans of one run: the run contains rounds, and a round contains model calls and a cell."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._chars = 0
        self._run: Span | None = None
        self._round: Span | None = None
        self._cell: Span | None = None

    def on_event(self, event: Event) -> None:
        match event:
            case events.ContextLoaded(chars=chars):
                self._chars = chars
            case events.RunStarted(run_id, strategy, model):
                if self._run is None:
                    self._run = self._begin("invoke_agent rlm", None)
                    self._set(self._run, "gen_ai.operation.name", "invoke_agent")
                    self._set(self._run, "gen_ai.agent.name", "rlm")
                    self._set(self._run, "gen_ai.request.model", model)
                    self._set(self._run, "rlm.run_id", run_id)
                    self._set(self._run, "rlm.context.chars", self._chars)
                self._set(self._run, "rlm.strategy", strategy)
            case events.RoundStarted(number, _, final):
                self._end_round()
                self._round = self._begin(f"round {number}", self._run)
                self._set(self._round, "rlm.round.final", final)
            case events.ModelAnswered():
                self._add_call(event)
            case events.CellStarted():
                self._cell = self._begin("execute_tool repl", self._round)
                self._set(self._cell, "gen_ai.operation.name", "execute_tool")
                self._set(self._cell, "gen_ai.tool.name", "repl")
            case events.CellEnded(_, status, _) if self._cell is not None:
                self._set(self._cell, "rlm.cell.status", status)
                self._cell.end()
                self._cell = None
            case events.Violated(_, kind) if self._round is not None:
                self._round.add_event("rlm.violation", {"kind": kind})
            case events.RunEnded(stop_reason, _) if self._run is not None:
                self._end_round()
                self._set(self._run, "rlm.stop_reason", stop_reason)
                self._run.end()
            case _:
                pass

    def _add_call(self, call: events.ModelAnswered) -> None:
        """Add the span of a finished call. Its duration gives its start."""
        now = time.time_ns()
        parent = self._cell if call.role == "child" and self._cell is not None else self._round
        span = self._begin(f"chat {call.model}", parent or self._run, at=now - int(call.seconds * _NANO))
        self._set(span, "gen_ai.operation.name", "chat")
        self._set(span, "gen_ai.provider.name", _find_provider(call.model))
        self._set(span, "gen_ai.request.model", call.model)
        self._set(span, "gen_ai.usage.input_tokens", call.input_tokens)
        self._set(span, "gen_ai.usage.output_tokens", call.output_tokens)
        span.set_attribute("gen_ai.response.finish_reasons", [call.finish_reason])
        self._set(span, "rlm.role", call.role)
        if call.cost_usd is not None:
            self._set(span, "rlm.cost_usd", call.cost_usd)
        span.end(now)

    def _begin(self, name: str, parent: Span | None, *, at: int | None = None) -> Span:
        from opentelemetry import trace

        context = None if parent is None else trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context=context, start_time=at)

    def _end_round(self) -> None:
        for span in (self._cell, self._round):
            if span is not None:
                span.end()
        self._cell = self._round = None

    @staticmethod
    def _set(span: Span, name: str, value: str | float | bool) -> None:
        span.set_attribute(name, value)


def _find_provider(model: str) -> str:
    """Return the provider's name by the conventions, or `rlm` for models that ask no provider."""
    try:
        spec = PROVIDERS.get(parse_name(model).provider)
    except ConfigurationError:  # an embedder's own model may have any name
        spec = None
    return "rlm" if spec is None else spec.telemetry_name


def log_event(event: Event) -> None:
    """Write the events of runs to the logger `rlm`, one line each. An observer."""
    match event:
        case events.ContextLoaded(chars, documents, skipped, seconds):
            _LOG.info(
                "loaded %d characters of %d documents (%d skipped) in %.2f s",
                chars,
                documents,
                skipped,
                seconds,
            )
        case events.RunStarted(run_id, strategy, model):
            _LOG.info("run %s: %s, %s", run_id, strategy, model)
        case events.RoundStarted(number, limit, _):
            _LOG.info("round %d of %d", number, limit)
        case events.ModelAnswered(role=role, model=model, input_tokens=sent, output_tokens=received):
            _LOG.debug("%s %s: %d tokens in, %d out, %.2f s", role, model, sent, received, event.seconds)
        case events.CellEnded(number, status, seconds):
            _LOG.info("round %d: cell %s after %.2f s", number, status, seconds)
        case events.ChildrenStarted(count):
            _LOG.info("%d children", count)
        case events.Violated(number, kind):
            _LOG.warning("round %d: %s", number, kind)
        case events.ToolEnded(name, ok, seconds):
            _LOG.info("tool %s %s in %.2f s", name, "gave a value" if ok else "failed", seconds)
        case events.Retrying(attempt, wait, reason):
            _LOG.warning("attempt %d failed (%s), next in %.1f s", attempt, reason, wait)
        case events.Warned(message):
            _LOG.warning("%s", message)
        case events.RunEnded(stop_reason, seconds):
            _LOG.info("ended: %s after %.1f s", stop_reason, seconds)
        case _:
            pass
