"""Meters the calls of a run: each is reserved before it is sent, settled and journalled after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from copy import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlm.accounting.budget import Budget, Reservation
from rlm.errors import ModelError
from rlm.events import ModelAnswered, Observer
from rlm.models.base import Message, Model, Reply, Request, TokenUsage
from rlm.models.cache_key import call_key
from rlm.models.catalog.prices import Prices
from rlm.playback.asked import Asked
from rlm.playback.cursor import NOTHING, ReplayCursor
from rlm.prompts.tokens.calibration import Calibration
from rlm.prompts.tokens.counters import get_counter
from rlm.results import RunTotals, Usage

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["MeteredModel", "MeteredReply", "estimate", "messages_of"]

_COUNTER = get_counter("estimate")


def estimate(text: str) -> int:
    """Estimate the tokens of `text`, never too few. Reservations are made with it."""
    return _COUNTER.count(text)


@dataclass(frozen=True, slots=True)
class MeteredReply:
    """A reply and its cost, None when the price is not known. `cached`: another run paid for it."""

    reply: Reply
    cost_usd: float | None
    cached: bool = False


class MeteredModel:
    """Sends requests within a run's budget, and keeps the run's usage by model.

    A call with a reply in `playback` is not sent; the driver looks up the rounds of the root itself. With
    `remember`, a child whose answer is in the store, from any run, is not sent either. Every reply is
    reported to `observe`.
    """

    def __init__(
        self,
        budget: Budget,
        log: RunLog,
        playback: ReplayCursor,
        observe: Observer,
        prices: Prices,
        *,
        remember: bool = False,
    ) -> None:
        self.prices = prices
        self._budget = budget
        self._log = log
        self._playback = playback
        self._observe = observe
        self._remember = remember
        self._branches: tuple[dict[str, Usage], ...] = ()
        spent = playback.recording.spent
        self._sums = {one.model: one for one in spent.usage}
        self._calibrations: dict[str, Calibration] = dict(spent.calibrations)
        budget.restore(
            calls=spent.calls, tokens=spent.tokens, cost_usd=spent.cost_usd, cost_known=spent.cost_known
        )
        budget.restore_seconds(spent.seconds)

    def branch(self, budget: Budget, log: RunLog, playback: ReplayCursor) -> MeteredModel:
        """Return one for a sub-RLM, whose spending counts here, too."""
        other = copy(self)
        other._budget, other._log, other._playback = budget, log, playback
        other._branches = (*self._branches, {})
        return other

    def part(self, budget: Budget, log: RunLog, playback: ReplayCursor) -> MeteredModel:
        """Return one for a part of a job, with a usage of its own that includes what an earlier process
        paid."""
        other = self.branch(budget, log, playback)
        spent = playback.recording.spent
        other._branches[-1].update((one.model, one) for one in spent.usage)
        budget.restore(
            calls=spent.calls, tokens=spent.tokens, cost_usd=spent.cost_usd, cost_known=spent.cost_known
        )
        return other

    @property
    def branch_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens of this branch and those below it."""
        mine = self._branches[-1].values()
        return sum(one.input_tokens for one in mine), sum(one.output_tokens for one in mine)

    @property
    def tokens(self) -> int:
        """Return the tokens of all calls so far."""
        return sum(one.input_tokens + one.output_tokens for one in self._sums.values())

    @property
    def cost_usd(self) -> float | None:
        """Return the dollars of all calls so far, None once a price was not known."""
        costs = [one.cost_usd for one in self._sums.values()]
        return (
            None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)
        )

    def totals(self, rounds: int, sub_calls: int) -> RunTotals:
        """Return what the list of runs shows. The only place that fills a RunTotals."""
        return RunTotals(rounds, sub_calls, self.cost_usd)

    def usage(self) -> tuple[Usage, ...]:
        """Return the usage of every model, by the whole tree of runs."""
        return tuple(self._sums.values())

    @property
    def branch_usage(self) -> tuple[Usage, ...]:
        """Return the usage of every model in this branch and those below it."""
        return tuple(self._branches[-1].values())

    def calibrated(self, model: Model, estimated: int) -> int:
        """Convert an estimate to the model's own tokens, as far as its usage allows."""
        return self._calibrations.get(model.name, Calibration()).tokens(estimated)

    async def ask(
        self,
        model: Model,
        request: Request,
        *,
        prompt_tokens: int,
        key: str | None = None,
        asked: Asked = NOTHING,
        last_round: bool = False,
        room: AbstractAsyncContextManager[object] | None = None,
        sent: Callable[[], None] = lambda: None,
        facts: dict[str, Any],
    ) -> MeteredReply:
        """One reply. Raises BudgetExhausted before anything is sent, ModelError when the provider fails,
        JournalError before anything is sent when the run has become another process's.

        `facts` go into the journal's event next to the reply (the prompt's report, the slice's spans).
        `key` is the request's `call_key`, where the caller has it already. `asked` identifies the question in
        a run that is resumed or replayed after the words of our prompts have changed.
        `last_round` takes what the budget holds back for it. `room` is held while the call is in flight, and
        released before its reply is journalled, so that the next call can start. `sent` is called when the
        request goes out. A call that is cancelled in flight is charged its prompt, as the provider will.
        `prompt_tokens` is the estimate, which the usage of earlier calls corrects.
        """
        if key is None and request.role != "root":
            key = call_key(model.name, request)
        if asked.digest:
            facts = {**facts, "asked": asked.digest}
        if key is not None and (known := await self._lookup(key, asked, model, request, facts)) is not None:
            sent()
            return known
        await self._log.check_ownership()
        async with room or nullcontext():
            reply, paid, seconds = await self._send(model, request, prompt_tokens, last_round, sent)
        await self._log.append(
            "child" if request.role == "child" else "model_call",
            {
                **facts,
                "key": key,
                "role": request.role,
                "model": model.name,
                "round": request.round or self._playback.round,
                "prompt_tokens": prompt_tokens,
                "max_output_tokens": request.max_output_tokens,
                "reply": reply.text,
                "finish_reason": reply.finish_reason,
                "usage": asdict(reply.usage),
                "cost_usd": paid,
                "seconds": seconds,
            },
        )
        return MeteredReply(reply, paid)

    async def _send(
        self, model: Model, request: Request, estimated: int, last_round: bool, sent: Callable[[], None]
    ) -> tuple[Reply, float | None, float]:
        """Return the model's reply, its cost, and the seconds it took."""
        prompt_tokens = self.calibrated(model, estimated)
        most = prompt_tokens + request.max_output_tokens
        cost = self.prices.at_most(model, prompt_tokens, request.max_output_tokens)
        if last_round:
            reservation = self._budget.take_last_round(tokens=most, cost_usd=cost)
        else:
            calls = 0 if request.role in ("root", "summary") else 1
            reservation = self._budget.reserve(calls=calls, tokens=most, cost_usd=cost)
        began = time.monotonic()
        sent()
        try:
            reply = await model.generate(request)
        except asyncio.CancelledError:
            self._settle(model, reservation, TokenUsage(input_tokens=prompt_tokens))
            raise
        except ModelError as error:
            if error.spent:
                await self._log.append(
                    "charge",
                    {
                        "role": request.role,
                        "model": model.name,
                        "round": request.round or self._playback.round,
                        "usage": asdict(error.spent),
                        "cost_usd": self._settle(model, reservation, error.spent),
                        "error": str(error),
                    },
                )
            else:
                self._budget.release(reservation)
            raise
        paid = self._settle(model, reservation, reply.usage)
        seconds = round(time.monotonic() - began, 3)
        self._observe(
            ModelAnswered(
                role=request.role,
                model=model.name,
                round=request.round,
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cached_tokens=reply.usage.cached_tokens,
                cost_usd=paid,
                finish_reason=reply.finish_reason,
                seconds=seconds,
            )
        )
        calibration = self._calibrations.get(model.name, Calibration())
        self._calibrations[model.name] = calibration.observe(estimated, reply.usage.input_tokens)
        return reply, paid, seconds

    async def _lookup(
        self, key: str, asked: Asked, model: Model, request: Request, facts: dict[str, Any]
    ) -> MeteredReply | None:
        """Return the reply to a call that this run has paid for before, or that the store remembers."""
        past = self._playback.reply(key, asked)
        if past is not None:
            return MeteredReply(past.reply, past.cost_usd, past.cached)
        if not self._remember or request.role != "child":
            return None
        found = await self._log.find_reply(key)
        if found is None:
            return None
        await self._log.append(
            "child",
            {
                **facts,
                "key": key,
                "role": request.role,
                "model": model.name,
                "round": self._playback.round,
                "max_output_tokens": request.max_output_tokens,
                "reply": found["reply"],
                "finish_reason": "stop",
                "usage": asdict(TokenUsage()),
                "cost_usd": 0.0,
                "seconds": 0.0,
                "cached": True,
            },
        )
        return MeteredReply(Reply(found["reply"]), 0.0, cached=True)

    def _settle(self, model: Model, reservation: Reservation, usage: TokenUsage) -> float | None:
        paid = self.prices.of(model, usage)
        self._budget.settle(reservation, tokens=usage.input_tokens + usage.output_tokens, cost_usd=paid)
        for sums in (self._sums, *self._branches):
            sums[model.name] = sums.get(model.name, Usage(model.name)).plus(usage, paid)
        return paid


def messages_of(system: str, user: str) -> tuple[Message, ...]:
    """Return a system message and a user message."""
    return (Message("system", system, stable=True), Message("user", user))
