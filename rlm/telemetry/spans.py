"""Report runs as OpenTelemetry spans and metrics, by the conventions for generative AI.

The conventions are still in development, so their names come from OpenTelemetry's own package; the names that
begin with `rlm.` are ours. Each function gives a context manager, and the spans of what happens within it are
below its own: OpenTelemetry's current context is inherited by tasks. Without OpenTelemetry's SDK, which the
application or the command line sets up, nothing is imported and nothing is done.

No span and no metric contains text of a prompt, a reply, a document or a cell, unless the environment asks
for it (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT). Secrets of the environment are blanked even then.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from rlm.errors import ConfigurationError, RLMError
from rlm.models.base import Model, Reply, Request
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS
from rlm.results import RunResult
from rlm.telemetry.content import Content
from rlm.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.invocation import GenAIInvocation, InferenceInvocation

__all__ = [
    "note_retry",
    "note_violation",
    "trace_call",
    "trace_cell",
    "trace_job",
    "trace_round",
    "trace_run",
    "trace_tool",
]

_AGENT, _SUB_AGENT, _CELL_TOOL = "rlm", "sub-rlm", "repl"
_WITHOUT_FAULT = frozenset({"finalized", "not_found", "nearest", "cancelled"})
"""Stop reasons of a run that are no failure."""

Note = Callable[..., None]
"""Adds what is known at the end of a span."""


def _ignore(*_: object) -> None:
    pass


_OFF: AbstractContextManager[Note] = nullcontext(_ignore)


def trace_run(
    run_id: str, model: str, task: str, *, depth: int, chars: int, session: str | None
) -> AbstractContextManager[Note]:
    """Trace a run, or a sub-RLM at `depth`. Note its RunResult. `session` is the first run of the session,
    and None for a run that is a part of what is traced around it."""
    if (handler := _handler()) is None:
        return _OFF
    return _run(handler, run_id, model, task, depth, chars, session)


def trace_job(kind: str, run_id: str, task: str) -> AbstractContextManager[Note]:
    """Trace a job. Note its stop reason."""
    return _OFF if (handler := _handler()) is None else _job(handler, kind, run_id, task)


def trace_round(number: int, *, final: bool) -> AbstractContextManager[object]:
    """Trace a round of a root."""
    return nullcontext() if _handler() is None else _round(number, final)


def trace_cell(code: str, *, is_replayed: bool) -> AbstractContextManager[Note]:
    """Trace a cell, unless it is replayed. Note its status, the name of its error and its output."""
    return _OFF if (handler := _handler()) is None or is_replayed else _cell(handler, code)


def trace_call(model: Model, request: Request) -> AbstractContextManager[Note]:
    """Trace a call of a model. Note its Reply and its cost in dollars, None if it is not known."""
    return _OFF if (handler := _handler()) is None else _call(handler, model, request)


def trace_tool(name: str, arguments: str) -> AbstractContextManager[Note]:
    """Trace a function of the host. Note its value, and the type of its error or nothing."""
    return _OFF if (handler := _handler()) is None else _tool(handler, name, arguments)


def note_violation(kind: str) -> None:
    """Add a broken contract to the current round."""
    if _handler() is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().add_event("rlm.violation", {"kind": kind})


def note_retry(attempt: int, wait: float, reason: str) -> None:
    """Add a failed attempt to the current call."""
    if _handler() is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().add_event("rlm.retry", {"attempt": attempt, "wait": wait, "reason": reason})


def _handler() -> TelemetryHandler | None:
    return _new_handler() if "opentelemetry.sdk.trace" in sys.modules else None


@cache
def _new_handler() -> TelemetryHandler | None:
    try:
        from opentelemetry.util.genai.handler import TelemetryHandler
    except ImportError:
        # The application has an SDK of its own and not our extra.
        return None
    return TelemetryHandler(instrumentation_scope_name="rlm", instrumentation_scope_version=__version__)


@contextmanager
def _run(
    handler: TelemetryHandler,
    run_id: str,
    model: str,
    task: str,
    depth: int,
    chars: int,
    session: str | None,
) -> Generator[Note]:
    agent = handler.invoke_local_agent(
        agent_name=_SUB_AGENT if depth > 0 else _AGENT,
        request_model=model,
        conversation_id=session,
    )
    agent.attributes |= {"rlm.run_id": run_id, "rlm.depth": depth, "rlm.context.chars": chars}
    content = Content.of(handler)
    agent.input_messages = content.question(task)
    ended: list[RunResult] = []
    with _ending(agent, content):
        yield ended.append
        for result in ended:
            agent.attributes |= {
                "rlm.strategy": result.strategy,
                "rlm.stop_reason": result.stop_reason,
                "rlm.rounds": result.rounds,
                "rlm.citations": len(result.citations),
                "rlm.citations.verified": sum(one.verified for one in result.citations),
            }
            agent.output_messages = content.answer(result.answer)
            if result.answer is None and result.stop_reason not in _WITHOUT_FAULT:
                _fail(agent, result.stop_reason, content.shown(result.cause))


@contextmanager
def _job(handler: TelemetryHandler, kind: str, run_id: str, task: str) -> Generator[Note]:
    job = handler.workflow(kind, conversation_id=run_id)
    job.attributes |= {"rlm.run_id": run_id}
    content = Content.of(handler)
    job.input_messages = content.question(task)
    reasons: list[str] = []
    with _ending(job, content):
        yield reasons.append
        for reason in reasons:
            job.attributes |= {"rlm.stop_reason": reason}
            if reason not in _WITHOUT_FAULT:
                _fail(job, reason)


@contextmanager
def _round(number: int, final: bool) -> Iterator[None]:
    from opentelemetry.trace import get_tracer

    attributes = {"rlm.round": number, "rlm.round.final": final}
    tracer = get_tracer("rlm", __version__)
    with tracer.start_as_current_span(
        f"round {number}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            _set_error(span, error)
            raise


@contextmanager
def _cell(handler: TelemetryHandler, code: str) -> Generator[Note]:
    cell = handler.tool(_CELL_TOOL, tool_type="extension", agent_name=_AGENT)
    content = Content.of(handler)
    cell.arguments = content.shown({"code": code})

    def note(status: str, error: str, output: str) -> None:
        cell.attributes |= {"rlm.cell.status": status}
        cell.tool_result = content.shown(output)
        if status != "ok":
            _fail(cell, error or status)

    with _ending(cell, content):
        yield note


@contextmanager
def _tool(handler: TelemetryHandler, name: str, arguments: str) -> Generator[Note]:
    tool = handler.tool(name, tool_type="function", agent_name=_AGENT)
    content = Content.of(handler)
    tool.arguments = content.shown(arguments)

    def note(value: Any, error: str) -> None:
        tool.tool_result = content.shown(value)
        if error:
            _fail(tool, error)

    with _ending(tool, content):
        yield note


@contextmanager
def _call(handler: TelemetryHandler, model: Model, request: Request) -> Generator[Note]:
    from rlm.models.http.model import HttpModel

    asked = model if isinstance(model, HttpModel) else None
    host, port = (None, None) if asked is None else asked.endpoint.host_and_port
    call = handler.inference(
        find_provider(model.name),
        request_model=model.name if asked is None else asked.provider_model,
        server_address=host,
        server_port=port,
    )
    call.attributes |= {"rlm.role": request.role}
    call.max_tokens = request.max_output_tokens
    call.output_type = "text" if request.schema is None else "json"
    if asked is not None:
        call.request_stream = True
        call.temperature, call.seed = asked.calls.temperature, asked.calls.seed
        call.reasoning_level = asked.calls.effort
    content = Content.of(handler)
    call.system_instruction = content.system(request.messages)
    call.input_messages = content.messages(request.messages)

    def note(reply: Reply, cost_usd: float | None) -> None:
        _set_reply(call, reply)
        call.output_messages = content.reply(reply)
        if cost_usd is not None:
            call.attributes |= {"rlm.cost_usd": cost_usd}

    with _ending(call, content):
        yield note


def _set_reply(call: InferenceInvocation, reply: Reply) -> None:
    usage = reply.usage
    call.input_tokens, call.output_tokens = usage.input_tokens, usage.output_tokens
    call.cache_read_input_tokens = usage.cached_tokens
    call.cache_write_input_tokens = usage.cache_write_tokens
    call.thinking_tokens = usage.reasoning_tokens
    call.finish_reasons = [_FINISH_REASONS.get(reply.finish_reason, reply.finish_reason)]
    call.response_id = reply.response_id or None
    call.response_model_name = reply.model or None


_FINISH_REASONS = {"refusal": "content_filter"}
"""Finish reasons of ours that the conventions name differently."""


@contextmanager
def _ending(invocation: GenAIInvocation, content: Content) -> Iterator[None]:
    """End the span with the block. Its error is named by its type, because its words may quote a document."""
    try:
        yield
    except BaseException as error:
        _fail(invocation, _type_of(error), content.shown(str(error)) if isinstance(error, RLMError) else None)
        raise
    finally:
        invocation.stop()


def _fail(invocation: GenAIInvocation, type_: str, message: str | None = None) -> None:
    from opentelemetry.util.genai.types import Error

    invocation.fail(Error(message or type_, type_))


def _set_error(span: Span, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", _type_of(error))
    span.set_status(Status(StatusCode.ERROR, _type_of(error)))


def _type_of(error: BaseException) -> str:
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def find_provider(model: str) -> str:
    """Return the name of the provider of `model`, or `rlm` for models that ask no provider."""
    try:
        spec = PROVIDERS.get(parse_name(model).provider)
    except ConfigurationError:  # a caller's own model may have any name
        spec = None
    return "rlm" if spec is None else spec.telemetry_name
