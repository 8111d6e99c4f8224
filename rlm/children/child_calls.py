"""Asks the children of a run: refuses what cannot be asked, sends, reads and records their calls.

Answers come in any order. Identical calls of a run are sent once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.forecast import Forecaster
from rlm.accounting.run_context import RunContext, Slots
from rlm.children.child_answers import ChildTally, failure, read_answer, with_cost
from rlm.children.child_prompts import ChildPrompts, ChildSpec, PreparedChild, batch_specs
from rlm.children.page_looks import LookFailed, PageLooks
from rlm.children.sub_models import ChildModel, SubModels
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import ChildEnded, ChildrenStarted
from rlm.models.base import Model
from rlm.prompts.templates import table
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildAnswer, ChildBatch
from rlm.settings import ChildSettings

__all__ = ["ChildCalls", "SharedAnswers", "as_known", "share_answer"]

_MAX_CHARS_PER_TOKEN = 20
"""Upper bound: characters in one token."""
_MAX_TOKENS_PER_CHAR = 4
"""Upper bound: tokens in one character. An ASCII character has at most one."""
_PROMPT_CHARS, _PIECE_CHARS = 1_500, 80
"""Upper bounds: characters of a child's prompt besides its task and slice, and around each piece of the
slice. Names of documents may take more, which is rare."""
_MAX_FAILURES = 10_000
"""Children of one run that may fail. A child that is not sent is not counted as a call, but is journalled."""
_MAX_FAILED_SPANS = 100
"""Spans of a failed child that the journal keeps."""

SharedAnswers = dict[str, asyncio.Future[ChildAnswer | None]]
"""Answers by the key of their call. The future of a call in flight is not done; that of a call that failed
has None and is forgotten."""


async def share_answer(
    known: SharedAnswers, key: str, ask: Callable[[], Awaitable[ChildAnswer]]
) -> ChildAnswer:
    """Return the answer to `key`: a known one, that of the same call in flight, or the one of `ask`.

    A call that failed for another caller, or was cancelled with it, is made again.
    """
    # No await stands between the last look and the line that stores the new future: of several callers that
    # wake together, exactly one asks again and the others wait for it.
    while (pending := known.get(key)) is not None:
        answer = await asyncio.shield(pending)
        if answer is not None:
            return as_known(answer)
    pending = known[key] = asyncio.get_running_loop().create_future()
    answer = None
    try:
        answer = await ask()
        return answer
    finally:
        is_kept = answer is not None and answer.error is None
        if not is_kept and known.get(key) is pending:
            del known[key]
        pending.set_result(answer if is_kept else None)


def as_known(answer: ChildAnswer) -> ChildAnswer:
    """Return an answer that was paid for before."""
    return replace(answer, cached=True, input_tokens=0, output_tokens=0, calls=0, cost_usd=0.0)


async def _tell_nobody(position: int, answer: ChildAnswer) -> None: ...


class ChildCalls:
    """Asks the children of one run."""

    def __init__(
        self,
        models: SubModels,
        body: Body,
        *,
        run_context: RunContext,
        settings: ChildSettings,
        looks: PageLooks | None = None,
    ) -> None:
        self.models = models
        self._looks = looks
        self._body = body
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._observe = run_context.observe
        self._settings = settings
        self._slots = run_context.concurrency.children
        self._prompts = ChildPrompts(body, self._factor)
        self._forecasters = {
            one.name: self._new_forecaster(one, self._planned_factor(one.model)) for one in models
        }
        self._answers: SharedAnswers = {}
        self._expected = 0
        self._failures = 0
        self._done = 0
        self._tally = ChildTally()
        self.exhausted: BudgetExhausted | None = None
        """The last BudgetExhausted that a child got, if any."""

    @property
    def prompt_tokens(self) -> int:
        """Return the most tokens that the prompt of a child of the default model may hold."""
        return self.models.default.prompt_tokens

    @cached_property
    def chunk_chars(self) -> int:
        """Return the characters of a chunk where a cell names no size: as much as fits a child. It does not
        follow what is learned during the run, so that a cell that is re-run makes the same chunks."""
        own = self._settings.chunk_chars
        return self._new_forecaster(self.models.default, lambda: 1.0).fitting_chars if own is None else own

    @property
    def calls(self) -> int:
        """Return how many children were sent so far."""
        return int(self._budget.used()["sub_calls"]["used"])

    def plan(self) -> dict[str, float | None]:
        """Estimate a full pass: `recommended_chunk` (characters per chunk), calls, cost_usd."""
        chunk, children = self._forecasters[self.models.default.name].full_pass()
        cost = None if children.cost_usd is None else round(children.cost_usd, 4)
        return {"recommended_chunk": chunk, "calls": children.calls, "cost_usd": cost}

    def take_tally(self) -> ChildTally:
        """Return the counts of the children since the last call of this method."""
        tally, self._tally = self._tally, ChildTally()
        return tally

    async def ask_all(self, batch: ChildBatch, answered: AnswerSink = _tell_nobody) -> list[ChildAnswer]:
        """Ask every child of `batch`. Pass on each answer as it comes, and return all of them in order.

        Raises BadCall before any call if one of them cannot be asked."""
        child = self.models.looking if batch.look else self.models.named(batch.model)
        forecaster = self._forecasters[child.name]
        specs = await self._askable(batch, child)
        if batch.chunked:
            self._coverage.note_chunks(spec.hull for spec in specs if spec.source is not None)
        cost = forecaster.batch([spec.size for spec in specs]).cost_usd
        self._observe(ChildrenStarted(len(specs), cost))

        def ask(position: int) -> Awaitable[ChildAnswer]:
            spec = specs[position]
            return share_answer(self._answers, spec.key, partial(self._ask, spec))

        return await self.collect(len(specs), ask, answered, self._slots)

    async def collect(
        self,
        count: int,
        ask: Callable[[int], Awaitable[ChildAnswer]],
        answered: AnswerSink,
        slots: Slots,
    ) -> list[ChildAnswer]:
        """Ask `count` children or sub-RLMs, each by its position. Count each answer and pass it on as it
        comes. Return all of them in order. Each is asked while it holds one of `slots`, which the tree
        shares. A batch has no more tasks than there are slots, so that memory stays bounded."""
        answers: dict[int, ChildAnswer] = {}
        own = asyncio.Semaphore(slots.count)

        async def one(position: int) -> None:
            with waiting():
                await slots.acquire()
            try:
                answer = await ask(position)
            finally:
                # Before the answer is passed on: a kernel that does not read must not hold up others.
                slots.release()
            answers[position] = answer
            self._record(answer)
            await answered(position, answer)

        self._expected += count
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for position in range(count):
                    await own.acquire()
                    group.create_task(one(position)).add_done_callback(lambda _: own.release())
                    # Send the first request before the last one is assembled.
                    await asyncio.sleep(0)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self._tally = replace(self._tally, seconds=self._tally.seconds + time.monotonic() - began)
        return [answers[position] for position in range(count)]

    def _new_forecaster(self, child: ChildModel, factor: Callable[[], float]) -> Forecaster:
        return Forecaster(
            child.model,
            self._body,
            budget=self._budget,
            prices=self._metered.prices,
            prompt_tokens=child.prompt_tokens,
            output_tokens=child.output_tokens,
            factor=factor,
        )

    def _planned_factor(self, model: Model) -> Callable[[], float]:
        return lambda: self._metered.slice_calibration(model).planned_factor

    def _factor(self, model: Model) -> float:
        """Return the model's own tokens for each estimated one, as its children's usage shows."""
        return self._metered.slice_calibration(model).accepted_factor

    async def _askable(self, batch: ChildBatch, child: ChildModel) -> list[ChildSpec]:
        """Return the children of a batch. Reads only slices that could be too large.

        Raises BadCall if one of them cannot be asked, or if the limits left do not carry all of them."""
        words = table("feedback.toml")["forecast"]
        forecaster, max_chars = self._forecasters[child.name], child.prompt_tokens * _MAX_CHARS_PER_TOKEN
        if self._failures >= _MAX_FAILURES:
            raise BadCall("value", words["failed"].format(count=self._failures))
        specs = await batch_specs(batch, child, self._looks)
        for position, spec in enumerate(specs):
            if spec.size > max_chars:
                fits = f"{forecaster.fitting_chars:,}"
                tokens, size = f"{child.prompt_tokens:,}", f"{spec.size:,}"
                message = words["too_large"].format(
                    position=position, size=size, tokens=tokens, fits=fits, max_chars=fits
                )
                raise BadCall("slice_too_large", message)
        refusal = forecaster.refusal([spec.size for spec in specs])
        if refusal is not None:  # known answers cost nothing
            new = [spec for spec in specs if not self._is_known(spec.key)]
            refusal = forecaster.refusal([spec.size for spec in new])
        if refusal is not None:
            raise BadCall("value", refusal)
        for position, spec in enumerate(specs):
            most = spec.size + _PROMPT_CHARS + _PIECE_CHARS * len(spec.pieces)
            if most * (1 if self._body.ascii else _MAX_TOKENS_PER_CHAR) > child.prompt_tokens:
                try:
                    self._prompts.prepare(spec)
                except BadCall as error:
                    raise BadCall(error.type, f"child {position}: {error}") from error
                await asyncio.sleep(0)
        return specs

    def _is_known(self, key: str) -> bool:
        return key in self._answers or self._metered.has_reply(key)

    async def _ask(self, spec: ChildSpec) -> ChildAnswer:
        try:
            child = self._prompts.prepare(spec)
        except BadCall as error:
            return failure("slice_too_large", str(error))
        answer = paid = ChildAnswer("", found=False)
        try:
            answer = paid = await self._send(child)
            if answer.error_type == "schema" and not spec.refusal:
                answer = await self._send(self._prompts.prepare(spec, answer.error))
        except BudgetExhausted as error:
            self.exhausted = error
            reason = table("feedback.toml")["forecast"]["limit"].format(cause=error.cause)
            answer = failure("limit", reason)
        except LookFailed as error:
            answer = failure("page", str(error))
        except ModelError as error:
            answer = failure("model", str(error))
            if (spent := error.spent) is not None:
                cost = self._metered.prices.of(spec.model.model, spent)
                answer = with_cost(answer, spent.input_tokens, spent.output_tokens, cost)
        except BadCall as error:
            answer = failure("slice_too_large", str(error))
        if answer is not paid:
            answer = with_cost(answer, paid.input_tokens, paid.output_tokens, paid.cost_usd)
        await self._note_end(child, answer)
        return answer

    async def _note_end(self, child: PreparedChild, answer: ChildAnswer) -> None:
        """Note what a child covered, and journal its failure."""
        spec = child.spec
        if answer.error is None:
            self._coverage.note("answered", spec.spans)
            self._coverage.note("looked", [page.span for page in spec.pages], answer.text)
            return
        self._coverage.note("failed", spec.spans)
        self._failures += 1
        fields = {
            "round": self._budget.rounds,
            "asked": child.asked,
            "spans": spec.spans[:_MAX_FAILED_SPANS],
            "error": answer.error,
            "error_type": answer.error_type,
            **({"chunked": True} if spec.part else {}),
        }
        await self._log.append("child", fields)

    async def _send(self, child: PreparedChild) -> ChildAnswer:
        spec, request = child.spec, child.request
        fields: dict[str, Any] = {"prompt": spec.prompt, "spans": spec.spans}
        if spec.part:
            fields["chunked"] = True
        if spec.pages:
            fields["pages"] = [page.reference for page in spec.pages]
        with waiting():
            is_sent = not self._metered.has_reply(child.asked)
            if self._looks is not None and spec.pages and is_sent:
                request = await self._looks.with_pictures(request, spec.pages)
            async with seconds_left(self._budget):
                call = await self._metered.ask(
                    spec.model.model,
                    request,
                    key=child.key,
                    asked=child.asked,
                    on_sent=lambda: self._coverage.note("sent", spec.spans),
                    prompt_tokens=child.tokens,
                    event_fields=fields,
                )
        answer = replace(await read_answer(call.reply, spec.form), cached=call.cached)
        usage = call.reply.usage
        return with_cost(answer, usage.input_tokens, usage.output_tokens, call.cost_usd)

    def _record(self, answer: ChildAnswer) -> None:
        """Count one more answer, of a child or of a sub-RLM, and report it."""
        self._done += 1
        self._tally = self._tally.plus(answer)
        self._observe(
            ChildEnded(
                ok=answer.error is None,
                cached=answer.cached,
                done=self._done,
                asked=self._expected,
                tokens=self._metered.tokens,
                cost_usd=self._metered.cost_usd,
                covered_chars=self._coverage.answered_chars,
                chars=self._body.chars,
            )
        )
