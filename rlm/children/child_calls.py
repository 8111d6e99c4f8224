"""Serves a kernel's children: slice, assemble, reserve, send, check, record; answers in any order.

Every child's prompt comes out of `rlm.prompts.recipes.child`. Identical calls of a run are sent once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.forecast import Forecaster
from rlm.accounting.metered_model import messages_of
from rlm.accounting.run_context import RunContext
from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.answers.thinking import without_reasoning
from rlm.children.in_flight_cache import InFlightCache
from rlm.children.tally import ChildTally
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import ChildEnded, ChildrenStarted
from rlm.models.base import Model, Request, SliceText
from rlm.models.cache_key import call_key
from rlm.prompts import (
    AssembledPrompt,
    BudgetExceeded,
    ChildInput,
    ChildPrompt,
    ChildSliceText,
    SliceTooLarge,
    is_not_found,
)
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span
from rlm.settings import ChildSettings

__all__ = ["ChildCalls"]


_WITHOUT_REPLY = frozenset({"model", "limit"})
_CHARS_A_TOKEN = 20
"""No text that is worth reading packs more characters into a token."""
_TOKENS_A_CHAR = 4
"""Nor more tokens into a character, which outside ASCII may be as many."""
_AHEAD = 4
"""One child for so many under way is made ready, or written down, beside them."""


@dataclass(frozen=True, slots=True)
class _ChildSpec:
    """One child before it is asked."""

    prompt: str
    pieces: tuple[SliceText, ...]
    spans: tuple[Span, ...]
    numbered: bool
    part: tuple[int, int] | None
    sample: int
    schema: AnswerSchema | None


class ChildCalls:
    """The children of one run."""

    def __init__(
        self,
        model: Model,
        body: Body,
        *,
        run_context: RunContext,
        settings: ChildSettings,
    ) -> None:
        self._model = model
        self._body = body
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._playback = run_context.playback
        self._observe = run_context.observe
        self._settings = settings
        self._output = min(settings.output_tokens, model.window.output)
        self._forecaster = Forecaster(
            model,
            body,
            budget=run_context.budget,
            prices=run_context.metered.prices,
            prompt_tokens=settings.prompt_tokens,
        )
        self._room = run_context.concurrency.children
        self._in_flight = InFlightCache()
        self._asked = 0
        self._done = 0
        self._tally = ChildTally()
        self._spent: float | None = 0.0
        self.exhausted: BudgetExhausted | None = None
        """The limit that left no room for a child, the last time one did."""

    @property
    def calls(self) -> int:
        """Children really sent so far."""
        return int(self._budget.used()["sub_calls"]["used"])

    def take_tally(self) -> ChildTally:
        """What the children since the last call of this came to."""
        tally, self._tally = replace(self._tally, cost_usd=self._spent), ChildTally()
        self._spent = 0.0
        return tally

    def took(self, seconds: float) -> None:
        """A batch of this cell, of children or of sub-RLMs, took so long."""
        self._tally = replace(self._tally, seconds=self._tally.seconds + seconds)

    def rewind(self) -> None:
        """The cells of this run are run again: what they ask is looked up in the journal, not here."""
        self._in_flight.clear()

    async def serve(self, batch: ChildBatch, answered: AnswerSink) -> None:
        """Ask every child of `batch`. Raises BadCall, before anything is spent, when that can't be done."""
        schema = self._schema(batch)
        sizes = [len(prompt) + _length(one) for prompt, one in zip(batch.prompts, batch.slices, strict=True)]
        await self._refuse_what_cannot_be_done(batch, sizes)
        count = len(batch.prompts)
        self.expect(count)
        if batch.chunked:
            self._coverage.note_chunks(_hull(one) for one in batch.slices if one is not None)
        self._observe(ChildrenStarted(count, self._forecaster.batch(sizes).cost_usd))
        positions = iter(range(count))
        began = time.monotonic()

        async def work() -> None:
            # Each worker takes the next position: a batch of any size holds no more than these in memory.
            # More than may be under way at a time: some prepare while others write down what they were told.
            for position in positions:
                wanted = self._wanted(batch, position, schema)
                answer = await self._answer(wanted)
                self.record(answer)
                await answered(position, answer)
                # An answer from memory takes no time at all: a long row of them must let others run.
                await asyncio.sleep(0)

        most = self._settings.concurrency + max(1, self._settings.concurrency // _AHEAD)
        workers: list[asyncio.Future[None]] = []
        try:
            for _ in range(min(count, most)):
                workers.append(asyncio.ensure_future(work()))
                await asyncio.sleep(0)  # the first request is on its way before the last one is put together
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.took(time.monotonic() - began)

    async def single(self, prompt: str, source: ChildSlice | None) -> ChildAnswer:
        """One child where a sub-RLM was asked for. Raises BadCall as `serve` does."""
        batch = ChildBatch((prompt,), (source,))
        await self._refuse_what_cannot_be_done(batch, [len(prompt) + _length(source)])
        return await self._answer(self._wanted(batch, 0, None))

    async def answers(self, batch: ChildBatch) -> list[ChildAnswer]:
        """What `serve` gives, once all have answered, in order."""
        found: dict[int, ChildAnswer] = {}

        async def answered(position: int, answer: ChildAnswer) -> None:
            found[position] = answer

        await self.serve(batch, answered)
        return [found[position] for position in range(len(batch.prompts))]

    def plan(self) -> dict[str, float | None]:
        """What a full pass would take: `recommended_chunk` (characters a chunk), calls, cost_usd."""
        return self._forecaster.full_pass()

    def _schema(self, batch: ChildBatch) -> AnswerSchema | None:
        if batch.schema is None:
            return None
        try:
            return AnswerSchema.of(batch.schema)
        except SchemaError as error:
            raise BadCall("value", f"schema: {error}") from error

    async def _refuse_what_cannot_be_done(self, batch: ChildBatch, sizes: Sequence[int]) -> None:
        """BadCall unless every child of the batch can be asked. Only slices that could be too large are
        measured."""
        most = self._settings.prompt_tokens * _CHARS_A_TOKEN
        for position, size in enumerate(sizes):
            if size > most:
                # Nobody needs to read that much to know.
                fits = self._forecaster.fitting_chars
                raise BadCall(
                    "slice_too_large",
                    f"slice {position}: {size:,} characters can't fit a child's prompt of "
                    f"{self._settings.prompt_tokens:,} tokens; nothing was sent: give slices of at most "
                    f"{fits:,} characters, chunk(max_chars={fits})",
                )
        refusal = None if self._playback.repeating else self._forecaster.refusal(sizes)
        if refusal is not None and (self._in_flight or self._playback.unserved):
            # What was answered before costs nothing: only now is it worth finding out.
            refusal = self._forecaster.refusal([sizes[new] for new in await self._unanswered(batch)])
        if refusal is not None:
            raise BadCall("value", refusal)
        for position, size in enumerate(sizes):
            if size > self._settings.prompt_tokens // (1 if self._body.ascii else _TOKENS_A_CHAR):
                self._refuse_if_too_large(batch, position)
            if position % 50 == 49:
                await asyncio.sleep(0)

    def _refuse_if_too_large(self, batch: ChildBatch, position: int) -> None:
        try:
            self._assembled(self._wanted(batch, position, None))
        except SliceTooLarge as error:
            raise BadCall("slice_too_large", f"slice {position}: {error}") from error
        except BudgetExceeded as error:
            raise BadCall("value", f"the prompt of child {position} is too long: {error}") from error

    def _wanted(self, batch: ChildBatch, position: int, schema: AnswerSchema | None) -> _ChildSpec:
        wanted = batch.slices[position]
        pieces = () if wanted is None else tuple(self._text(piece) for piece in wanted.pieces)
        return _ChildSpec(
            prompt=batch.prompts[position],
            pieces=pieces,
            spans=tuple(piece.span for piece in pieces if piece.span is not None),
            numbered=wanted is not None and wanted.numbered,
            part=(position + 1, len(batch.prompts)) if batch.chunked else None,
            sample=batch.sample,
            schema=schema,
        )

    def _text(self, piece: Span | str) -> SliceText:
        if isinstance(piece, str):
            return SliceText(piece)
        document = self._body.document_at(piece.start)
        return SliceText(self._body.text(*piece), piece, document.name if document else None)

    def _assembled(self, wanted: _ChildSpec, *, complaint: str = "") -> AssembledPrompt:
        """A child's prompt. Raises SliceTooLarge or BudgetExceeded."""
        return ChildPrompt().assemble(
            ChildInput(
                prompt=wanted.prompt + complaint,
                slices=tuple(
                    ChildSliceText(
                        piece.text,
                        piece.span.start if piece.span else None,
                        piece.span.end if piece.span else None,
                        piece.document,
                        first_line=self._body.line_of(piece.span.start) if piece.span else 0,
                    )
                    for piece in wanted.pieces
                ),
                part=wanted.part,
                numbered=wanted.numbered,
                schema=wanted.schema.text if wanted.schema else None,
                window=self._model.window.context,
                output_reserve=self._output,
                child_tokens=self._settings.prompt_tokens,
            )
        )

    async def _unanswered(self, batch: ChildBatch) -> list[int]:
        """The positions of a batch that no earlier call has answered."""
        new = []
        for position in range(len(batch.prompts)):
            wanted = self._wanted(batch, position, self._schema(batch))
            try:
                key = call_key(self._model.name, self._request(wanted, self._assembled(wanted)))
                known = key in self._in_flight or self._playback.has_reply(key)
            except (SliceTooLarge, BudgetExceeded):
                known = False
            if not known:
                new.append(position)
            if position % 50 == 49:
                await asyncio.sleep(0)
        return new

    async def _answer(self, wanted: _ChildSpec) -> ChildAnswer:
        """From memory, from the same call in flight, or from the model."""
        try:
            prompt = self._assembled(wanted)
        except (SliceTooLarge, BudgetExceeded) as error:
            return _failure("slice_too_large", str(error))
        request = self._request(wanted, prompt)
        key = call_key(self._model.name, request)
        return await self._in_flight.answer(key, lambda: self._ask(wanted, prompt, request, key))

    async def _ask(
        self, wanted: _ChildSpec, prompt: AssembledPrompt, request: Request, key: str
    ) -> ChildAnswer:
        past = self._playback.failure(key)
        if past is not None:
            if past.type == "model":
                self._coverage.note_sent(wanted.spans)
            self._coverage.note_failed(wanted.spans)
            return _failure(past.type, past.message)
        try:
            answer = await self._send(wanted, prompt, request, key)
            if answer.error_type == "schema" and wanted.schema is not None:
                # Asked once more, told what was wrong.
                again = self._assembled(wanted, complaint=f"\n\n{answer.error}")
                second = await self._send(wanted, again, self._request(wanted, again))
                answer = replace(
                    second,
                    input_tokens=second.input_tokens + answer.input_tokens,
                    output_tokens=second.output_tokens + answer.output_tokens,
                )
        except BudgetExhausted as error:
            self.exhausted = error
            answer = _failure("limit", str(error))
        except ModelError as error:
            answer = _failure("model", str(error))
        except (SliceTooLarge, BudgetExceeded) as error:
            answer = _failure("slice_too_large", str(error))
        if answer.error is None:
            self._coverage.note_answered(wanted.spans)
        else:
            self._coverage.note_failed(wanted.spans)
            if not self._playback.repeating:
                await self._log.append("child", self._failed(wanted, answer, key))
        return answer

    def _failed(self, wanted: _ChildSpec, answer: ChildAnswer, key: str) -> dict[str, Any]:
        """What the journal keeps of a failure. Where no reply says why it failed, a cell that is run again
        finds that by its key."""
        return {
            "round": self._playback.round,
            "key": key if answer.error_type in _WITHOUT_REPLY else None,
            "spans": wanted.spans,
            "error": answer.error,
            "error_type": answer.error_type,
        }

    def _request(self, wanted: _ChildSpec, prompt: AssembledPrompt) -> Request:
        return Request(
            role="child",
            messages=messages_of(prompt.system, prompt.user),
            max_output_tokens=self._output,
            task=wanted.prompt,
            slices=wanted.pieces,
            sample=wanted.sample,
        )

    async def _send(
        self, wanted: _ChildSpec, prompt: AssembledPrompt, request: Request, key: str | None = None
    ) -> ChildAnswer:
        async with seconds_left(self._budget):
            call = await self._metered.ask(
                self._model,
                request,
                key=key,
                room=self._room,
                sent=lambda: self._coverage.note_sent(wanted.spans),
                prompt_tokens=prompt.report.totals.prompt,
                facts={"prompt": wanted.prompt, "spans": wanted.spans, "report": prompt.report.to_json()},
            )
        reply = call.reply
        self._spent = None if self._spent is None or call.cost_usd is None else self._spent + call.cost_usd
        text = without_reasoning(reply.text).strip()
        answer = ChildAnswer(
            text=text,
            found=not is_not_found(text),
            cached=call.cached,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
        )
        if reply.finish_reason == "length":
            return replace(
                answer, text="", error="the reply was cut by the output limit", error_type="truncated"
            )
        if reply.finish_reason == "refusal":
            return replace(answer, text="", error="the model refused to answer", error_type="refused")
        if not answer.text:
            return replace(answer, error="the reply was empty", error_type="empty")
        if wanted.schema is None or not answer.found:
            return answer
        try:
            return replace(answer, value=wanted.schema.read(answer.text))
        except SchemaError as error:
            return replace(answer, text="", error=str(error), error_type="schema")

    def expect(self, count: int) -> None:
        """So many more answers are asked for, of children or of sub-RLMs."""
        self._asked += count

    def record(self, answer: ChildAnswer) -> None:
        """Count one more answer, of a child or of a sub-RLM, and tell of it."""
        self._done += 1
        tally = self._tally
        self._tally = replace(
            tally,
            made=tally.made + 1,
            failed=tally.failed + (answer.error is not None),
            empty=tally.empty + (answer.error is None and not answer.found),
            cached=tally.cached + answer.cached,
            tokens=tally.tokens + answer.input_tokens + answer.output_tokens,
        )
        self._observe(
            ChildEnded(
                ok=answer.error is None,
                cached=answer.cached,
                done=self._done,
                asked=self._asked,
                tokens=self._metered.tokens,
                cost_usd=self._metered.cost_usd,
                covered_chars=self._coverage.answered_chars,
                chars=self._body.chars,
            )
        )


def _failure(type_: str, message: str) -> ChildAnswer:
    return ChildAnswer(text="", error=message, error_type=type_, found=False)


def _length(wanted: ChildSlice | None) -> int:
    if wanted is None:
        return 0
    return sum(len(piece) if isinstance(piece, str) else piece.end - piece.start for piece in wanted.pieces)


def _hull(wanted: ChildSlice) -> Span:
    spans: Sequence[Span] = [piece for piece in wanted.pieces if not isinstance(piece, str)]
    return Span(min(span.start for span in spans), max(span.end for span in spans)) if spans else Span(0, 0)
