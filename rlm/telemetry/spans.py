"""Report runs as OpenTelemetry spans and metrics, by the conventions for generative AI.

The conventions are still in development, so their names come from OpenTelemetry's own package; the names that
begin with `rlm.` are ours. The spans of what happens within a span are below it: OpenTelemetry's current
context is inherited by tasks. Without OpenTelemetry's SDK, which the application or the command line sets up,
nothing is imported and nothing is done.

No span and no metric contains text of a prompt, a reply, a document or a cell, unless the environment asks
for it (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT). Secrets of the environment are blanked even then.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from rlm.errors import ConfigurationError, RLMError
from rlm.models.base import Model, Reply, Request
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS
from rlm.results import RunResult
from rlm.version import __version__

if TYPE_CHECKING:
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.invocation import GenAIInvocation

__all__ = ["note_event", "span"]

_AGENT, _SUB_AGENT, _CELL_TOOL = "rlm", "sub-rlm", "repl"
_WITHOUT_FAULT = frozenset({"finalized", "not_found", "nearest", "cancelled"})
"""Stop reasons of a run that are no failure."""
_FINISH_REASONS = {"refusal": "content_filter"}
"""Finish reasons of ours that the conventions name differently."""
Note = Callable[..., None]
"""Adds what is known at the end of a span."""


def span(kind: str, **facts: Any) -> AbstractContextManager[Note]:
    """Trace what happens within, as a span of a `kind`: run, job, round, cell, tool or call. Its facts are
    the parameters of the function of this module that begins it, and what it takes at its end is said there.
    """
    handler = _handler()
    return nullcontext(_ignore) if handler is None else _traced(handler, kind, facts)


def note_event(name: str, **facts: Any) -> None:
    """Add what happened to the current span: a broken contract, a failed attempt."""
    if _handler() is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().add_event(name, facts)


def _ignore(*_: object) -> None:
    pass


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
def _traced(handler: TelemetryHandler, kind: str, facts: dict[str, Any]) -> Generator[Note]:
    if kind == "round":
        with _round(**facts):
            yield _ignore
        return
    content = _Content(is_captured=handler.should_capture_content())
    begin: dict[str, Callable[..., _Begun]] = {
        "run": _begin_run,
        "job": _begin_job,
        "cell": _begin_cell,
        "tool": _begin_tool,
        "call": _begin_call,
    }
    invocation, note = begin[kind](handler, content, **facts)
    try:
        yield note
    except BaseException as error:
        # Named by its type, because its words may quote a document.
        _fail(invocation, _type_of(error), content.shown(str(error)) if isinstance(error, RLMError) else None)
        raise
    finally:
        invocation.stop()


_Begun = tuple["GenAIInvocation", Note]


@contextmanager
def _round(number: int, final: bool) -> Generator[None]:
    from opentelemetry.trace import Status, StatusCode, get_tracer

    with get_tracer("rlm", __version__).start_as_current_span(
        f"round {number}",
        attributes={"rlm.round": number, "rlm.round.final": final},
        record_exception=False,
        set_status_on_exception=False,
    ) as begun:
        try:
            yield
        except BaseException as error:
            begun.set_attribute("error.type", _type_of(error))
            begun.set_status(Status(StatusCode.ERROR, _type_of(error)))
            raise


def _begin_run(
    handler: TelemetryHandler,
    content: _Content,
    run_id: str,
    model: str,
    task: str,
    depth: int,
    chars: int,
    session: str | None,
) -> _Begun:
    """Begin a run, or a sub-RLM at `depth`. Note its RunResult. `session` is the first run of the session,
    and None for a run that is a part of what is traced around it."""
    agent = handler.invoke_local_agent(
        agent_name=_SUB_AGENT if depth > 0 else _AGENT, request_model=model, conversation_id=session
    )
    agent.attributes |= {"rlm.run_id": run_id, "rlm.depth": depth, "rlm.context.chars": chars}
    agent.input_messages = content.inputs([("user", task)])

    def note(result: RunResult) -> None:
        agent.attributes |= {
            "rlm.strategy": result.strategy,
            "rlm.stop_reason": result.stop_reason,
            "rlm.rounds": result.rounds,
            "rlm.citations": len(result.citations),
            "rlm.citations.verified": sum(one.verified for one in result.citations),
        }
        if result.answer is not None:
            is_text = isinstance(result.answer, str)
            agent.output_messages = content.outputs(
                result.answer if is_text else json.dumps(result.answer, ensure_ascii=False)
            )
        elif result.stop_reason not in _WITHOUT_FAULT:
            _fail(agent, result.stop_reason, content.shown(result.cause))

    return agent, note


def _begin_job(handler: TelemetryHandler, content: _Content, name: str, run_id: str, task: str) -> _Begun:
    """Begin a job. Note its stop reason."""
    job = handler.workflow(name, conversation_id=run_id)
    job.attributes |= {"rlm.run_id": run_id}
    job.input_messages = content.inputs([("user", task)])

    def note(reason: str) -> None:
        job.attributes |= {"rlm.stop_reason": reason}
        if reason not in _WITHOUT_FAULT:
            _fail(job, reason)

    return job, note


def _begin_cell(handler: TelemetryHandler, content: _Content, code: str) -> _Begun:
    """Begin a cell. Note its status, the name of its error and its output."""
    cell = handler.tool(_CELL_TOOL, tool_type="extension", agent_name=_AGENT)
    cell.arguments = content.shown({"code": code})

    def note(status: str, error: str, output: str) -> None:
        cell.attributes |= {"rlm.cell.status": status}
        cell.tool_result = content.shown(output)
        if status != "ok":
            _fail(cell, error or status)

    return cell, note


def _begin_tool(handler: TelemetryHandler, content: _Content, name: str, arguments: str) -> _Begun:
    """Begin a function of the host. Note its value, and the type of its error or nothing."""
    tool = handler.tool(name, tool_type="function", agent_name=_AGENT)
    tool.arguments = content.shown(arguments)

    def note(value: Any, error: str) -> None:
        tool.tool_result = content.shown(value)
        if error:
            _fail(tool, error)

    return tool, note


def _begin_call(handler: TelemetryHandler, content: _Content, model: Model, request: Request) -> _Begun:
    """Begin a call of a model. Note its Reply and its cost in dollars, None if it is not known."""
    from rlm.models.http.model import HttpModel

    asked = model if isinstance(model, HttpModel) else None
    call = handler.inference(
        _find_provider(model.name),
        request_model=model.name if asked is None else asked.provider_model,
        server_address=None if asked is None else asked.endpoint.host,
        server_port=None if asked is None else asked.endpoint.port,
    )
    call.attributes |= {"rlm.role": request.role}
    call.max_tokens = request.max_output_tokens
    call.output_type = "text" if request.schema is None else "json"
    if asked is not None:
        call.request_stream = True
        call.temperature, call.seed = asked.calls.temperature, asked.calls.seed
        call.reasoning_level = asked.calls.effort
    call.system_instruction = content.texts(one.content for one in request.messages if one.role == "system")
    call.input_messages = content.inputs(
        (one.role, one.content) for one in request.messages if one.role != "system"
    )

    def note(reply: Reply, cost_usd: float | None) -> None:
        usage = reply.usage
        call.input_tokens, call.output_tokens = usage.input_tokens, usage.output_tokens
        call.cache_read_input_tokens = usage.cached_tokens
        call.cache_write_input_tokens = usage.cache_write_tokens
        call.thinking_tokens = usage.reasoning_tokens
        call.finish_reasons = [_FINISH_REASONS.get(reply.finish_reason, reply.finish_reason)]
        call.response_id = reply.response_id or None
        call.response_model_name = reply.model or None
        call.output_messages = content.outputs(reply.text, reply.thinking)
        if cost_usd is not None:
            call.attributes |= {"rlm.cost_usd": cost_usd}

    return call, note


class _Content:
    """Makes the parts of messages as OpenTelemetry's package takes them. Everything is empty unless
    captured. Values of environment variables that look like secrets are blanked."""

    def __init__(self, *, is_captured: bool) -> None:
        self._is_captured = is_captured

    def shown(self, value: Any) -> Any:
        """Return a JSON-like value without secrets, or None."""
        return _redaction().blank(value) if self._is_captured else None

    def texts(self, texts: Iterable[str]) -> list[Any]:
        from opentelemetry.util.genai.types import TextPart

        return [TextPart(self.shown(text)) for text in texts] if self._is_captured else []

    def inputs(self, messages: Iterable[tuple[str, str]]) -> list[Any]:
        from opentelemetry.util.genai.types import InputMessage

        return (
            [InputMessage(role, self.texts([text])) for role, text in messages] if self._is_captured else []
        )

    def outputs(self, text: str, thinking: str = "") -> list[Any]:
        from opentelemetry.util.genai.types import OutputMessage, ReasoningPart

        if not self._is_captured:
            return []
        thought = [ReasoningPart(self.shown(thinking))] if thinking else []
        return [OutputMessage("assistant", [*thought, *self.texts([text])])]


@cache
def _redaction() -> Any:
    # Import it late: with it comes the database library, which takes a third of a second.
    from rlm.journal.redaction import Redaction, secrets_of

    redaction = Redaction()
    redaction.add(secrets_of(os.environ))
    return redaction


def _fail(invocation: GenAIInvocation, type_: str, message: str | None = None) -> None:
    from opentelemetry.util.genai.types import Error

    invocation.fail(Error(message or type_, type_))


def _type_of(error: BaseException) -> str:
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _find_provider(model: str) -> str:
    """Return the name of the provider of `model`, or `rlm` for models that ask no provider."""
    try:
        spec = PROVIDERS.get(parse_name(model).provider)
    except ConfigurationError:  # a caller's own model may have any name
        spec = None
    return "rlm" if spec is None else spec.telemetry_name
