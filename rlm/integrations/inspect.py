"""A solver for Inspect (the package `inspect-ai`, extra `inspect`) that runs the real runtime.

The root and its children are asked of the model that Inspect evaluates, or of any provider that `rlm` knows.
Every run is in the journal, so `rlm show`, `rlm replay` and `rlm export` work on what was evaluated.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from rlm.documents import Context
from rlm.errors import ModelRejected, UsageError
from rlm.limits import Limits
from rlm.models.base import FinishReason, ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.info import window_of
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.settings import Settings

__all__ = ["InspectModel", "rlm_solver"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_MAX_ERROR = 300


class InspectModel:
    """A model of Inspect as a model of the runtime. Inspect retries, caches, counts and logs its calls.

    `window` overrides what is known of the model's name.
    """

    def __init__(self, model: Any, window: ModelWindow | None = None) -> None:
        self._model = model
        self._window = window or window_of(str(model.name))
        self._limit: LimitExceededError | None = None

    @property
    def name(self) -> str:
        return f"inspect:{self._model}"

    @property
    def window(self) -> ModelWindow:
        return self._window

    async def generate(self, request: Request) -> Reply:
        """Ask Inspect's model. A limit of Inspect is kept for `raise_limit`, and refuses every later call."""
        self.raise_limit()
        try:
            output: ModelOutput = await self._model.generate(
                [_MESSAGES[one.role](content=one.content) for one in request.messages],
                config=GenerateConfig(max_tokens=request.max_output_tokens),
            )
        except LimitExceededError as error:
            self._limit = error
            raise ModelRejected(f"a limit of Inspect was reached: {error.type}") from error
        except Exception as error:
            # The boundary to the providers of Inspect, whose errors have no common base.
            shown = " ".join(str(error).split())[:_MAX_ERROR]
            raise ModelRejected(f"Inspect's model failed ({type(error).__name__}): {shown}") from error
        usage = output.usage
        return Reply(
            output.completion,
            _FINISH.get(str(output.stop_reason), "other"),
            TokenUsage() if usage is None else _usage(usage),
            model=str(output.model),
        )

    def raise_limit(self) -> None:
        """Raise the limit of Inspect that a call has reached, if one has."""
        if self._limit is not None:
            raise self._limit

    async def aclose(self) -> None:
        """Do nothing: the model is Inspect's."""


@solver
def rlm_solver(
    model: str | None = None,
    *,
    sub_model: str | None = None,
    context: str | Callable[[TaskState], Context] | None = "context",
    limits: Limits | None = None,
    settings: Settings | None = None,
    window: ModelWindow | None = None,
) -> Solver:
    """Return a solver that answers each sample by a run, over the text in its metadata.

    model, sub_model: names of `rlm` (`openai:gpt-5`). None is the model of the evaluation, for `sub_model`
    the root's. context: the key of the sample's metadata with the text, a function of the state that returns
    any context, or None for none. The answer becomes the output, as text or JSON, and
    `state.metadata["rlm"]` holds the account of the run: run_id, answer, stop_reason, citations, ….
    A run without an answer has an empty output.
    """
    chosen = settings or Settings()

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        own = InspectModel(get_model(), window)
        runtime = RLM(model or own, sub_model=sub_model, limits=limits, settings=chosen)
        try:
            result = await runtime.run(state.input_text, _context_of(state, context))
        finally:
            await asyncio.shield(runtime.aclose())
        own.raise_limit()
        answer = result.answer
        shown = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
        state.metadata["rlm"] = _account(result)
        state.output = ModelOutput.from_content(model=runtime.model.name, content=shown)
        state.messages.append(state.output.message)
        state.completed = True
        return state

    return solve


def _context_of(state: TaskState, context: str | Callable[[TaskState], Context] | None) -> Context:
    if context is None:
        return ()
    if callable(context):
        return context(state)
    if context not in state.metadata:
        raise UsageError(f"sample {state.sample_id} has no {context!r} in its metadata. Name its key")
    found: Context = state.metadata[context]
    return found


def _account(result: RunResult) -> dict[str, Any]:
    """Return the answer of an ended run with its name in the journal and its figures."""
    return {
        "run_id": result.run_id,
        "answer": result.answer,
        "stop_reason": result.stop_reason,
        "rounds": result.rounds,
        "sub_calls": result.sub_calls,
        "seconds": round(result.seconds, 3),
        "citations": [
            {"place": one.place, "quote": one.quote, "verified": one.verified} for one in result.citations
        ],
        "warnings": list(result.warnings),
    }


def _usage(usage: Any) -> TokenUsage:
    cached, written = usage.input_tokens_cache_read or 0, usage.input_tokens_cache_write or 0
    return TokenUsage(
        input_tokens=usage.input_tokens + cached + written,
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=usage.reasoning_tokens or 0,
    )
