"""Meters the calls of a run. Each call is reserved before it is sent, then settled and journalled."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from rlm.accounting.budget import Budget, Reservation
from rlm.accounting.continuation import MAX_FOLLOW_UPS, follow_up
from rlm.accounting.reply_text import ReplyText, ShownPart
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import ModelAnswered, Observer, ReplyStreaming, Retrying, TextDelta, TextObserver
from rlm.models.base import (
    Message,
    Model,
    Reply,
    ReplyListener,
    Request,
    RetryReason,
    TokenUsage,
    call_key,
    collects_later,
)
from rlm.models.call_settings import settings_of
from rlm.models.catalog.families import image_tokens
from rlm.models.catalog.info import Prices
from rlm.models.structured import as_text
from rlm.playback.recording import RecordedReply, Recording
from rlm.playback.sent_messages import SentMessages
from rlm.prompts.tokens.calibration import Calibration
from rlm.prompts.tokens.counters import get_counter
from rlm.results import RunTotals, Usage
from rlm.telemetry import note_event, span

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["MeteredModel", "MeteredReply", "estimate", "least_thinking", "messages_of"]

_COUNTER = get_counter("estimate")
_LEAST_THINKING_SHARE = 4
_SHORT = 10_000
"""Characters of a text whose tokens are remembered."""


def estimate(text: str) -> int:
    """Estimate the tokens of `text`, never below the real number. Reservations use this estimate."""
    return _estimate_again(text) if len(text) <= _SHORT else _COUNTER.count(text)


@lru_cache(maxsize=256)
def _estimate_again(text: str) -> int:
    """Estimate the tokens of a message. Cached: every round counts all messages of the root again."""
    return _COUNTER.count(text)


@dataclass(frozen=True, slots=True)
class MeteredReply:
    """A reply and its cost; None if the price is unknown. `cached`: another run paid for it. `event` is what
    was journalled with it now."""

    reply: Reply
    cost_usd: float | None
    cached: bool = False
    event: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A reply of the model itself: its cost, the seconds it took, and the estimate of its prompt. All of
    these include its follow-ups."""

    reply: Reply
    cost_usd: float | None
    seconds: float
    prompt_tokens: int
    follow_ups: int = 0


class MeteredModel:
    """Sends requests within a run's budget, and keeps the run's usage by model.

    A call whose reply is in `recording` is not sent, those of a root aside. With `remember`, a child's answer
    is also taken from any run in the store. Every reply is reported to `observe`, and its text to
    `observe_text` while it is written.
    """

    def __init__(
        self,
        budget: Budget,
        log: RunLog,
        recording: Recording,
        observe: Observer,
        prices: Prices,
        *,
        remember: bool = False,
        observe_text: TextObserver | None = None,
    ) -> None:
        self.prices = prices
        self._observe_text = observe_text
        self._numbers = count(1)
        self._has_shown_answer = False
        self._budget = budget
        self._log = log
        self._known = _queues(recording)
        self._observe = observe
        self._use_store = remember
        self._sent = SentMessages(has_spans=True)
        self._branches: tuple[dict[str, Usage], ...] = ()
        spent = recording.spent
        self._sums = {one.model: one for one in spent.usage}
        self._calibrations: dict[str, Calibration] = dict(spent.calibrations)
        self._slice_calibrations: dict[str, Calibration] = {}
        budget.restore(spent)
        budget.restore_seconds(spent.seconds)

    def branch(self, budget: Budget, log: RunLog, recording: Recording) -> MeteredModel:
        """Return a MeteredModel for a sub-RLM. Its spending also counts here."""
        other = copy(self)
        other._budget, other._log, other._known = budget, log, _queues(recording)
        # The spans of a sub-RLM are those of its own source.
        other._sent = SentMessages(has_spans=False)
        other._branches = (*self._branches, {})
        return other

    def part(self, budget: Budget, log: RunLog, recording: Recording) -> MeteredModel:
        """Return a MeteredModel for a part of a job. Its own usage includes what an earlier process spent."""
        other = self.branch(budget, log, recording)
        other._sent = SentMessages(has_spans=True)
        spent = recording.spent
        other._branches[-1].update((one.model, one) for one in spent.usage)
        budget.restore(spent)
        return other

    @property
    def has_replies(self) -> bool:
        """Return whether some recorded replies were not used yet."""
        return any(self._known.values())

    def has_reply(self, asked: str) -> bool:
        """Return whether the call of that identity has a recorded reply that was not used yet."""
        return bool(self._known.get(asked))

    @property
    def tokens(self) -> int:
        """Return the tokens of all calls so far."""
        return sum(one.input_tokens + one.output_tokens for one in self._sums.values())

    @property
    def cost_usd(self) -> float | None:
        """Return the dollars of all calls so far, or None if a price is unknown."""
        costs = [one.cost_usd for one in self._sums.values()]
        return None if None in costs else sum(filter(None, costs))

    def totals(self, rounds: int, sub_calls: int) -> RunTotals:
        """Return what the list of runs shows. The only place that fills a RunTotals."""
        return RunTotals(rounds, sub_calls, self.cost_usd)

    def usage(self) -> tuple[Usage, ...]:
        """Return the usage of every model in the whole tree of runs."""
        return tuple(self._sums.values())

    @property
    def branch_usage(self) -> tuple[Usage, ...]:
        """Return the usage of every model in this branch and the branches below it."""
        return tuple(self._branches[-1].values())

    def calibrated(self, model: Model, estimated: int) -> int:
        """Convert an estimate to the model's own tokens, learned from its usage so far."""
        return self._calibrations.get(model.name, Calibration()).tokens(estimated)

    def slice_calibration(self, model: Model) -> Calibration:
        """Return what the usage of children over this body says of the model's own tokens."""
        return self._slice_calibrations.get(model.name, Calibration())

    async def ask(
        self,
        model: Model,
        request: Request,
        *,
        prompt_tokens: int,
        key: str | None = None,
        asked: str = "",
        last_round: bool = False,
        on_sent: Callable[[], None] = lambda: None,
        answer: ShownPart | None = None,
        event_fields: Mapping[str, Any] | None = None,
    ) -> MeteredReply:
        """Return one reply.

        `prompt_tokens` is an estimate, which the usage of earlier calls corrects. `key` is the request's
        `call_key` if the caller has computed it. `asked` identifies the call by what is asked, without the
        words of our prompt around it: a resumed run finds its reply by it. `last_round` uses the amount held
        for the last round. `on_sent` is called when the request is sent. `answer` says that the reply is that
        of the whole run, and which part of it. `event_fields` go into the journal's event with the reply.

        A call that fits the budget only when calls in flight are settled waits for them. A call that is
        cancelled in flight is charged for its prompt, because the provider bills it. Raises
        ModelError if the provider fails. Before anything is sent, raises BudgetExhausted, and JournalError
        when another process has taken over the run.
        """
        if key is None and request.role != "root":
            key = call_key(model.name, request)
        event_fields = dict(event_fields or {})
        if key is not None:
            event_fields["asked"] = asked = asked or key
            found = await self._lookup(key, asked, model, request, event_fields)
            if found is not None:
                on_sent()
                return found
        await self._log.check_ownership()
        listener, text = self._listener(request, answer)
        request = replace(request, listener=listener, run=f"{self._log.run_id}/{self._log.within}")
        sent = await self._send(model, request, prompt_tokens, last_round, on_sent)
        sent = await self._complete(model, request, sent)
        if text is not None:
            text.end(sent.reply)
        event_fields["prompt_tokens"] = sent.prompt_tokens
        if sent.follow_ups:
            event_fields["follow_ups"] = sent.follow_ups
        event = await self._append_reply(model, request, key, sent, event_fields)
        return MeteredReply(sent.reply, sent.cost_usd, event=event)

    def withdraw_answer(self) -> None:
        """Report that the answer that was reported while it was written is none."""
        if self._has_shown_answer and self._observe_text is not None:
            self._has_shown_answer = False
            self._observe_text(TextDelta("", is_answer=True, restarted=True))

    def _listener(self, request: Request, answer: ShownPart | None) -> tuple[ReplyListener, ReplyText | None]:
        """Return what hears of a reply, and what reports its text if there is an observer of it."""
        text = None
        if self._observe_text is not None:
            # A sub-RLM and a part of a job answer to their parent.
            answer = None if self._branches else answer
            self._has_shown_answer = self._has_shown_answer or answer is not None
            text = ReplyText(self._observe_text, request.role, next(self._numbers), answer)
        return ReplyListener(
            on_tokens=lambda tokens: self._observe(ReplyStreaming(tokens)),
            on_text=None if text is None else text.add,
            on_retry=self._note_retry,
        ), text

    def _note_retry(self, attempt: int, wait: float, reason: RetryReason) -> None:
        note_event("rlm.retry", attempt=attempt, wait=wait, reason=reason)
        self._observe(Retrying(attempt, wait, reason))

    async def _complete(self, model: Model, request: Request, sent: _Sent) -> _Sent:
        """Return a reply that the output limit cut with its rest, as far as the budget and the model give it.
        What is there is never lost: a follow-up that fails leaves it as it is."""
        for _ in range(MAX_FOLLOW_UPS):
            follow = follow_up(model, request, sent.reply)
            if follow is None:
                break
            if not follow.continues and request.listener is not None and request.listener.on_text is not None:
                request.listener.on_text(None)
            added = sum(estimate(one.content) for one in follow.request.messages[len(request.messages) :])
            try:
                more = await self._send(model, follow.request, sent.prompt_tokens + added, is_follow_up=True)
            except (BudgetExhausted, ModelError):
                break
            except BaseException:
                await self._charge(model, request, sent.reply.usage, sent.cost_usd, "a cut reply", calls=0)
                raise
            known = sent.cost_usd is not None and more.cost_usd is not None
            sent = _Sent(
                follow.complete(sent.reply, more.reply),
                (sent.cost_usd or 0.0) + (more.cost_usd or 0.0) if known else None,
                round(sent.seconds + more.seconds, 3),
                sent.prompt_tokens + more.prompt_tokens,
                sent.follow_ups + 1,
            )
        return sent

    async def _charge(
        self,
        model: Model,
        request: Request,
        usage: TokenUsage,
        cost: float | None,
        error: str,
        **calls: int,
    ) -> None:
        """Journal a call that was paid for and has no reply. `calls=0`: a resumed run makes it again, and it
        counts then."""
        await self._log.append(
            "charge",
            {
                "role": request.role,
                "model": model.name,
                "round": request.round or self._budget.rounds,
                "usage": asdict(usage),
                "cost_usd": cost,
                "error": error,
                **calls,
            },
        )

    async def _send(
        self,
        model: Model,
        request: Request,
        estimated: int,
        last_round: bool = False,
        on_sent: Callable[[], None] = lambda: None,
        *,
        is_follow_up: bool = False,
    ) -> _Sent:
        """Send one call. A follow-up is part of a call that was counted.

        A budget that has no room for all of the thinking gets a call that may think less.
        """
        seen = sum(
            image_tokens(model.name, image) for message in request.messages for image in message.images
        )
        prompt_tokens = self.calibrated(model, estimated) + seen
        calls = 0 if is_follow_up or request.role in ("root", "summary", "check") else 1
        thinking = model.window.thinking if request.thinking is None else request.thinking
        while True:
            output_tokens = request.max_output_tokens + thinking
            tokens = prompt_tokens + output_tokens
            cost = self.prices.at_most(model, prompt_tokens, output_tokens)
            try:
                if last_round:
                    reservation = self._budget.take_last_round(tokens=tokens, cost_usd=cost)
                else:
                    reservation = await self._budget.reserve_when_settled(
                        calls=calls, tokens=tokens, cost_usd=cost
                    )
                break
            except BudgetExhausted:
                least = least_thinking(model)
                if thinking <= least:
                    raise
                thinking = least
                request = replace(request, thinking=thinking)
        began = time.monotonic()
        on_sent()
        with span("call", model=model, request=request) as note:
            try:
                reply = as_text(await model.generate(request), request)
            except asyncio.CancelledError:
                sent = TokenUsage(input_tokens=prompt_tokens)
                cost = self._settle(model, reservation, sent)
                if not collects_later(model):
                    await self._charge(model, request, sent, cost, "cancelled", calls=0)
                raise
            except ModelError as error:
                if error.spent:
                    cost = self._settle(model, reservation, error.spent)
                    await self._charge(model, request, error.spent, cost, str(error))
                raise
            else:
                cost = self._settle(model, reservation, reply.usage)
                note(reply, cost)
            finally:
                # Others may wait for this reservation, whatever ended the call.
                self._budget.release(reservation)
        seconds = round(time.monotonic() - began, 3)
        self._observe(
            ModelAnswered(
                role=request.role,
                model=model.name,
                round=request.round,
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cached_tokens=reply.usage.cached_tokens,
                reasoning_tokens=reply.usage.reasoning_tokens,
                cost_usd=cost,
                finish_reason=reply.finish_reason,
                seconds=seconds,
            )
        )
        known = [self._calibrations, *([self._slice_calibrations] if request.role == "child" else [])]
        for calibrations in known if not seen else ():  # pictures are not counted like words
            calibration = calibrations.get(model.name, Calibration())
            calibrations[model.name] = calibration.observe(estimated, reply.usage.input_tokens)
        return _Sent(reply, cost, seconds, estimated)

    async def _lookup(
        self, key: str, asked: str, model: Model, request: Request, event_fields: dict[str, Any]
    ) -> MeteredReply | None:
        """Return the recorded reply to a call: from this run, or from any run in the store (`remember`)."""
        for name in (asked, key):
            if known := self._known.get(name):
                past = known.popleft()
                return MeteredReply(past.reply, past.cost_usd, past.cached)
        if not self._use_store or request.role != "child":
            return None
        found = await self._log.find_reply(key, settings_of(model))
        if found is None:
            return None
        sent = _Sent(Reply(found["reply"]), 0.0, 0.0, 0)
        await self._append_reply(model, request, key, sent, {**event_fields, "cached": True})
        return MeteredReply(sent.reply, 0.0, cached=True)

    async def _append_reply(
        self, model: Model, request: Request, key: str | None, sent: _Sent, fields: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Journal a reply, with more `fields` of its event. Return the event's data."""
        reply, is_root, is_child = sent.reply, request.role == "root", request.role == "child"
        some = {
            "batch": reply.batch,
            "settings": settings_of(model) if is_child else None,
            # A resumed run sends these back.
            "thinking": reply.thinking if is_root else "",
            "carry": [dict(one) for one in reply.carry] if is_root else [],
        }
        event = {
            **fields,
            "key": key,
            "role": request.role,
            "model": model.name,
            "round": request.round or self._budget.rounds,
            "max_output_tokens": request.max_output_tokens,
            **self._sent.fields(request),
            "reply": reply.text,
            "finish_reason": reply.finish_reason,
            "usage": asdict(reply.usage),
            "cost_usd": sent.cost_usd,
            "seconds": sent.seconds,
            **{name: value for name, value in some.items() if value},
        }
        await self._log.append("child" if is_child else "model_call", event)
        return event

    def _settle(self, model: Model, reservation: Reservation, usage: TokenUsage) -> float | None:
        cost = self.prices.of(model, usage)
        self._budget.settle(reservation, tokens=usage.input_tokens + usage.output_tokens, cost_usd=cost)
        for sums in (self._sums, *self._branches):
            sums[model.name] = sums.get(model.name, Usage(model.name)).plus(usage, cost)
        return cost


def _queues(recording: Recording) -> dict[str, deque[RecordedReply]]:
    """Return the recorded replies by their names: each is used once."""
    return {name: deque(replies) for name, replies in recording.replies.items()}


def least_thinking(model: Model) -> int:
    """Return the tokens of thinking that a call of `model` gets when the budget is nearly used up."""
    return model.window.thinking // _LEAST_THINKING_SHARE


def messages_of(system: str, user: str) -> tuple[Message, ...]:
    """Return a system message and a user message."""
    return (Message("system", system, stable=True), Message("user", user))
