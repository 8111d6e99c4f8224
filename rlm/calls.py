"""One call of a model, accounted for: reserved before, settled and journalled after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prompts.calibration import Calibration
from prompts.tokens import get_counter
from rlm.budget import Budget, Reservation
from rlm.errors import ModelError
from rlm.models.base import Message, Model, Reply, Request, TokenUsage
from rlm.models.facts import ModelFacts
from rlm.models.pricing import price
from rlm.types import Usage

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["Call", "Caller", "estimate", "messages_of"]

_COUNTER = get_counter("estimate")


def estimate(text: str) -> int:
    """Tokens of `text`, never too few: what reserves are made with."""
    return _COUNTER.count(text)


@dataclass(frozen=True, slots=True)
class Call:
    """A reply and what it cost; None when the price is not known."""

    reply: Reply
    cost_usd: float | None


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = 0.0


class Caller:
    """Sends requests within a run's budget, and keeps the run's usage by model."""

    def __init__(
        self, budget: Budget, log: RunLog, facts: Mapping[str, ModelFacts] = MappingProxyType({})
    ) -> None:
        """`facts` are the user's own on models, by name: a price among them is the one that counts."""
        self._budget = budget
        self._log = log
        self._facts = facts
        self._sums: dict[str, _Sum] = {}
        self._calibrations: dict[str, Calibration] = {}

    @property
    def tokens(self) -> int:
        """Tokens of all calls so far."""
        return sum(one.input_tokens + one.output_tokens for one in self._sums.values())

    @property
    def cost_usd(self) -> float | None:
        """Dollars of all calls so far; None once a price was not known."""
        costs = [one.cost_usd for one in self._sums.values()]
        return (
            None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)
        )

    def usage(self) -> tuple[Usage, ...]:
        """What every model was asked for."""
        return tuple(Usage(model=name, **asdict(one)) for name, one in self._sums.items())

    def calibrated(self, model: Model, estimated: int) -> int:
        """An estimate in the model's own tokens, as far as its usage has told."""
        return self._calibrations.get(model.name, Calibration()).tokens(estimated)

    def estimated(self, model: Model, prompt_tokens: int, output_tokens: int) -> float | None:
        """Dollars a call may take at most; None when the price is not known."""
        return self._price(model, TokenUsage(input_tokens=prompt_tokens, output_tokens=output_tokens))

    def _price(self, model: Model, usage: TokenUsage) -> float | None:
        facts = self._facts.get(model.name)
        own = None if facts is None else facts.price(usage)
        return price(model.name, usage) if own is None else own

    async def ask(
        self,
        model: Model,
        request: Request,
        *,
        prompt_tokens: int,
        last_round: bool = False,
        sent: Callable[[], None] = lambda: None,
        facts: dict[str, Any],
    ) -> Call:
        """One reply. Raises BudgetExhausted before anything is sent, ModelError when the provider fails.

        `facts` go into the journal's event beside the reply (the prompt's report, the slice's spans).
        `last_round` takes what the budget holds back for it. `sent` is called once the request goes out.
        A call that is cancelled under way is charged its prompt: the provider will. `prompt_tokens` is the
        estimate; what the model's usage has said of earlier ones corrects it.
        """
        estimated, prompt_tokens = prompt_tokens, self.calibrated(model, prompt_tokens)
        most = prompt_tokens + request.max_output_tokens
        cost = self.estimated(model, prompt_tokens, request.max_output_tokens)
        if last_round:
            reservation = self._budget.take_last_round()
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
        except ModelError:
            self._budget.release(reservation)
            raise
        paid = self._settle(model, reservation, reply.usage)
        known = self._calibrations.get(model.name, Calibration())
        self._calibrations[model.name] = known.observe(estimated, reply.usage.input_tokens)
        await self._log.append(
            "child" if request.role == "child" else "model_call",
            {
                **facts,
                "role": request.role,
                "model": model.name,
                "round": request.round,
                "reply": reply.text,
                "finish_reason": reply.finish_reason,
                "usage": asdict(reply.usage),
                "cost_usd": paid,
                "seconds": round(time.monotonic() - began, 3),
            },
        )
        return Call(reply, paid)

    def _settle(self, model: Model, reservation: Reservation, usage: TokenUsage) -> float | None:
        paid = self._price(model, usage)
        self._budget.settle(reservation, tokens=usage.input_tokens + usage.output_tokens, cost_usd=paid)
        one = self._sums.setdefault(model.name, _Sum())
        one.calls += 1
        one.input_tokens += usage.input_tokens
        one.output_tokens += usage.output_tokens
        one.cached_tokens += usage.cached_tokens
        one.cost_usd = None if one.cost_usd is None or paid is None else one.cost_usd + paid
        return paid


def messages_of(system: str, user: str) -> tuple[Message, ...]:
    """The two messages of a prompt that has a system part."""
    return (Message("system", system, stable=True), Message("user", user))
