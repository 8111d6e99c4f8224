"""An environment for verifiers (extra `verifiers`) that runs the real runtime around a policy.

The policy is the root: each of its rounds is one turn of the rollout, with the prompt as it was sent and the
tokens that the client recorded. A new window after folding is a turn whose prompt does not begin with the one
before. Kernels, limits, checks and the journal are those of every other run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from typing import Any

import verifiers as vf
from verifiers.utils.message_utils import normalize_messages

from rlm.documents import Context
from rlm.errors import ModelUnavailable, RLMError
from rlm.integrations.outcome import outcome_of
from rlm.lazy_dataclass import dataclass
from rlm.limits import Limits
from rlm.models.base import Message, ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.windows import window_of
from rlm.replay.golds import Rule, correctness
from rlm.runtime import RLM
from rlm.settings import Settings

__all__ = ["RLMEnv", "rlm_rubric"]


@dataclass(slots=True)
class _Turn:
    """A request of the root, and where its reply is awaited."""

    request: Request
    reply: asyncio.Future[Reply]


@dataclass(slots=True)
class _Rollout:
    """A run in progress. `turn` is the request that the policy is being asked."""

    turns: asyncio.Queue[_Turn] = field(default_factory=asyncio.Queue)
    work: asyncio.Task[dict[str, Any]] | None = None
    turn: _Turn | None = None


class _Policy:
    """The policy as a model of the runtime. The root's requests become turns of the rollout; children are
    asked of the same client at once, and are not part of the rollout."""

    def __init__(self, env: RLMEnv, state: Any, rollout: _Rollout, window: ModelWindow | None) -> None:
        self._env = env
        self._state = state
        self._rollout = rollout
        self._window = window or window_of(str(state["model"]))

    @property
    def name(self) -> str:
        return f"verifiers:{self._state['model']}"

    @property
    def window(self) -> ModelWindow:
        return self._window

    async def generate(self, request: Request) -> Reply:
        """Ask the policy. Its client retries."""
        if request.role == "root" and not request.run.partition("/")[2]:
            turn = _Turn(request, asyncio.get_running_loop().create_future())
            self._rollout.turns.put_nowait(turn)
            return await turn.reply
        try:
            messages = normalize_messages(_prompt(request))
            response = await self._env.get_model_response(self._state, messages)
        except vf.Error as error:
            raise ModelUnavailable(f"the policy did not answer a child ({type(error).__name__})") from error
        return _reply(response)

    async def aclose(self) -> None:
        """Do nothing: the client is the trainer's."""


class RLMEnv(vf.MultiTurnEnv):
    """An environment whose rows have a `question` (or a `prompt`), an `answer`, and the text in
    `info["context"]`.

    context is the key in `info`, or a function of the state that returns any context. sub_model is a name of
    `rlm` for the children; None asks the policy. `state["rlm"]` holds the account of the run: run_id, answer,
    stop_reason, citations, reward, …. The default rubric is `rlm_rubric()`. For a checkpoint that was trained
    in another format: `settings=Settings(strategy="rlm", root=RootSettings(dialect="rlms"))`.
    """

    def __init__(
        self,
        *,
        context: str | Callable[[Any], Context] = "context",
        sub_model: str | None = None,
        limits: Limits | None = None,
        settings: Settings | None = None,
        window: ModelWindow | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("rubric", rlm_rubric())
        super().__init__(**kwargs)
        self._context = context
        self._sub_model = sub_model
        self._limits = limits
        self._settings = settings or Settings(strategy="rlm")
        self._window = window
        self._rollouts: dict[str, _Rollout] = {}

    async def setup_state(self, state: Any) -> Any:
        """Start the run of a rollout."""
        rollout = _Rollout()
        self._rollouts[state["trajectory_id"]] = rollout
        rollout.work = asyncio.create_task(self._run(state, rollout))
        return state

    async def _run(self, state: Any, rollout: _Rollout) -> dict[str, Any]:
        policy = _Policy(self, state, rollout, self._window)
        runtime = RLM(policy, sub_model=self._sub_model, limits=self._limits, settings=self._settings)
        try:
            result = await runtime.run(_question(state), self._context_of(state))
            return await outcome_of(result, self._settings)
        finally:
            await asyncio.shield(runtime.aclose())

    def _context_of(self, state: Any) -> Context:
        if callable(self._context):
            return self._context(state)
        info = state.get("info") or {}
        found: Context = info.get(self._context, ())
        return found

    async def get_prompt_messages(self, state: Any) -> Any:
        """Return the next request of the root, or end the rollout with the run."""
        rollout = self._rollouts[state["trajectory_id"]]
        assert rollout.work is not None
        waiting = asyncio.create_task(rollout.turns.get())
        try:
            await asyncio.wait({waiting, rollout.work}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                rollout.turn = waiting.result()
                return _prompt(rollout.turn.request)
        finally:
            waiting.cancel()
        try:
            state["rlm"] = rollout.work.result()
        except RLMError as error:
            raise vf.InfraError(f"the run failed: {error}") from error
        state["final_env_response"] = []
        return []

    async def add_model_response(self, state: Any, prompt_messages: Any, response: Any) -> None:
        """Record the turn, and give the reply to the run."""
        await super().add_model_response(state, prompt_messages, response)
        turn = self._rollouts[state["trajectory_id"]].turn
        if turn is not None and not turn.reply.done():
            turn.reply.set_result(_reply(response))

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        """Return nothing: the runtime's feedback is part of the next prompt."""
        return []

    async def render_completion(self, state: Any) -> None:
        """Set the completion: what follows the first prompt in the last window."""
        steps = state["trajectory"]
        if not steps:
            state["completion"] = []
            return
        shown = [*steps[-1]["prompt"], *steps[-1]["completion"]]
        state["completion"] = shown[len(steps[0]["prompt"]) :]

    @vf.cleanup
    async def end_run(self, state: Any) -> None:
        """Stop a run that the rollout left, and its kernel."""
        rollout = self._rollouts.pop(state["trajectory_id"], None)
        if rollout is not None and rollout.work is not None and not rollout.work.done():
            rollout.work.cancel()
            with suppress(asyncio.CancelledError, RLMError):
                await rollout.work


def rlm_rubric(rule: Rule = "exact") -> Any:
    """Return a rubric whose reward is the correctness of the answer by a rule (see `rlm export --rule`). Its
    metrics, of weight 0: supported_share, coverage, sub_call_success, finalized, cost_usd."""

    def correct(state: Any, answer: Any = "") -> float:
        given = (state.get("rlm") or {}).get("answer")
        return 0.0 if given is None else correctness(given, answer, rule)

    def metric(name: str) -> Callable[..., float]:
        def read(state: Any) -> float:
            return float(((state.get("rlm") or {}).get("reward") or {}).get(name) or 0.0)

        read.__name__ = name
        return read

    names = ("supported_share", "coverage", "sub_call_success", "finalized", "cost_usd")
    return vf.Rubric(funcs=[correct, *map(metric, names)], weights=[1.0, *[0.0] * len(names)])


def _question(state: Any) -> str:
    users = [one for one in state["prompt"] if one["role"] == "user"]
    return "" if not users else _text(users[-1]["content"])


def _prompt(request: Request) -> list[dict[str, str]]:
    return [_message(one) for one in request.messages]


def _message(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = (one if isinstance(one, dict) else one.model_dump() for one in content or ())
    return "".join(str(one.get("text", "")) for one in parts)


def _reply(response: Any) -> Reply:
    message, usage = response.message, response.usage
    return Reply(
        _text(message.content),
        "length" if message.is_truncated else "stop",
        TokenUsage()
        if usage is None
        else TokenUsage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        ),
        model=str(response.model),
    )
