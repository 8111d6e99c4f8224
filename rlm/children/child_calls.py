"""Serves the children that a kernel asks for: prepares, sends, checks and records their calls.

Answers come in any order. Identical calls of a run are sent once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.forecast import Forecaster
from rlm.accounting.metered_model import messages_of
from rlm.accounting.run_context import RunContext
from rlm.children.child_failure import explain_too_long, failure, failure_event, spent_answer, with_cost
from rlm.children.child_reply import read_answer
from rlm.children.child_spec import ChildSpec, PreparedChild, batch_specs, schema_of
from rlm.children.cooperative_yield import CooperativeYield
from rlm.children.in_flight_cache import InFlightCache
from rlm.children.page_looks import LookFailed, PageLooks, key_with_pages
from rlm.children.routing.child_model import ChildModel
from rlm.children.routing.sub_models import SubModels
from rlm.children.slice_places import SlicePlaces
from rlm.children.tally import ChildTally
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import ChildEnded, ChildrenStarted
from rlm.models.base import Model, Request, SliceText, call_key
from rlm.playback.question_id import identify_child
from rlm.prompts import (
    AssembledPrompt,
    BudgetExceeded,
    ChildInput,
    ChildPrompt,
    SliceTooLarge,
)
from rlm.prompts.quoting import quote
from rlm.prompts.templates import table
from rlm.prompts.tokens.calibration import MIN_FACTOR
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span
from rlm.settings import ChildSettings

__all__ = ["ChildCalls"]


_ASKED_AGAIN = frozenset({"schema", "repeat", "language"})
"""Error types of replies that are no answer. The child is asked once more, and told why."""
_MAX_CHARS_PER_TOKEN = 20
"""Upper bound: characters in one token."""
_MAX_TOKENS_PER_CHAR = 4
"""Upper bound: tokens in one character. An ASCII character has at most one."""
_FRAME_TOKENS = 80
"""Upper bound: tokens around one piece of a slice. Document names may take more, which is rare."""
_PROMPT_CHARS = 1_500
"""Characters of a child's prompt besides its task and slice, at most a token each."""
_MAX_FAILURES = 10_000
"""Children of one run that may fail. A child that is not sent is not counted as a call, but is journalled."""
_CALLS_PER_EXTRA_WORKER = 4
"""One extra worker for every 4 calls in flight."""


class ChildCalls:
    """Serves the children of one run."""

    def __init__(
        self,
        models: SubModels,
        body: Body,
        *,
        run_context: RunContext,
        settings: ChildSettings,
        concurrency: int,
        looks: PageLooks | None = None,
    ) -> None:
        self.models = models
        self._looks = looks
        self._body = body
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._sightings = run_context.sightings
        self._log = run_context.log
        self._playback = run_context.playback
        self._observe = run_context.observe
        self._settings = settings
        self._concurrency = concurrency
        self._places = SlicePlaces(body)
        self._forecasters = {one.name: self._new_forecaster(one) for one in models}
        self._slot = run_context.concurrency.children
        self._in_flight = InFlightCache()
        self._expected = 0
        self._failures = 0
        self._done = 0
        self._tally = ChildTally()
        self.exhausted: BudgetExhausted | None = None
        """The last BudgetExhausted that a child got, if any."""

    def _new_forecaster(self, child: ChildModel, *, is_calibrated: bool = True) -> Forecaster:
        calibration = self._metered.slice_calibration
        return Forecaster(
            child.model,
            self._body,
            budget=self._budget,
            prices=self._metered.prices,
            prompt_tokens=child.prompt_tokens,
            output_tokens=child.output_tokens,
            factor=lambda: calibration(child.model).planned_factor if is_calibrated else 1.0,
            shown=self._places.shown,
        )

    @property
    def prompt_tokens(self) -> int:
        """Return the most tokens that the prompt of a child of the default model may hold."""
        return self.models.default.prompt_tokens

    @cached_property
    def chunk_chars(self) -> int:
        """Return the characters of a chunk where a cell names no size: as much as fits a child. It does not
        follow what is learned during the run, so that a cell that is re-run makes the same chunks."""
        own = self._settings.chunk_chars
        return (
            self._new_forecaster(self.models.default, is_calibrated=False).fitting_chars
            if own is None
            else own
        )

    @property
    def calls(self) -> int:
        """Return how many children were sent so far."""
        return int(self._budget.used()["sub_calls"]["used"])

    def take_tally(self) -> ChildTally:
        """Return the counts of the children since the last call of this method."""
        tally, self._tally = self._tally, ChildTally()
        return tally

    def add_seconds(self, seconds: float) -> None:
        """Add the seconds of a batch of children or sub-RLMs."""
        self._tally = replace(self._tally, seconds=self._tally.seconds + seconds)

    def forget_answers(self) -> None:
        """Forget all answers. The cells are re-run and find their answers in the journal."""
        self._in_flight.clear()

    async def serve(self, batch: ChildBatch, answered: AnswerSink) -> None:
        """Ask every child of `batch`. Raises BadCall before any call if one of them cannot be asked."""
        child = self.models.looking if batch.look else self.models.named(batch.model)
        forecaster = self._forecasters[child.name]
        self._refuse_more_than_can_be_sent(batch, child)
        specs = batch_specs(batch, schema_of(batch), child, self._looks)
        await self._refuse_impossible(specs, child)
        count = len(specs)
        self.add_expected(count)
        if batch.chunked:
            self._coverage.note_chunks(spec.hull for spec in specs if spec.source is not None)
        sizes = [spec.size for spec in specs]
        self._observe(ChildrenStarted(count, forecaster.batch(sizes).cost_usd))
        positions = iter(range(count))
        began = time.monotonic()

        async def work() -> None:
            # Each worker takes the next position, so memory holds only one child for each worker. There are
            # more workers than calls in flight: some prepare or journal while others wait for the model.
            for position in positions:
                answer = await self._answer(specs[position])
                self.record(answer)
                await answered(position, answer)
                # An answer from memory needs no await. Let other tasks run between many of them.
                await asyncio.sleep(0)

        max_workers = self._concurrency + max(1, self._concurrency // _CALLS_PER_EXTRA_WORKER)
        workers: list[asyncio.Future[None]] = []
        try:
            for _ in range(min(count, max_workers)):
                workers.append(asyncio.ensure_future(work()))
                await asyncio.sleep(0)  # send the first request before the last one is assembled
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.add_seconds(time.monotonic() - began)

    async def ask_one(self, prompt: str, source: ChildSlice | None, model: str = "") -> ChildAnswer:
        """Ask one child in place of a sub-RLM. Raises BadCall like `serve`."""
        child = self.models.named(model)
        specs = batch_specs(ChildBatch((prompt,), (source,), model=model), None, child)
        await self._refuse_impossible(specs, child)
        return await self._answer(specs[0])

    async def answers(self, batch: ChildBatch) -> list[ChildAnswer]:
        """Ask every child of `batch` and return all answers, in order."""
        found: dict[int, ChildAnswer] = {}

        async def answered(position: int, answer: ChildAnswer) -> None:
            found[position] = answer

        await self.serve(batch, answered)
        return [found[position] for position in range(len(batch.prompts))]

    def plan(self) -> dict[str, float | None]:
        """Estimate a full pass: `recommended_chunk` (characters per chunk), calls, cost_usd."""
        return self._forecasters[self.models.default.name].full_pass()

    def _factor(self, model: Model) -> float:
        """Return the model's own tokens for each estimated one, as its children's usage shows.

        A slice that was accepted in the recorded run is accepted again, whatever is known by now.
        """
        if self._playback.repeating:
            return MIN_FACTOR
        return self._metered.slice_calibration(model).accepted_factor

    def _refuse_more_than_can_be_sent(self, batch: ChildBatch, child: ChildModel) -> None:
        """Raise BadCall for a batch that is longer than the calls left and the answers known together.

        Looking for the answers that are known takes a millisecond a child, so such a batch is not looked
        into.
        """
        if self._failures >= _MAX_FAILURES:
            raise BadCall("value", table("feedback.toml")["forecast"]["failed"].format(count=self._failures))
        count, left = len(batch.prompts), int(self._budget.remaining()["sub_calls"])
        known = len(self._in_flight) + self._playback.unserved
        if not self._playback.repeating and count > left + known:
            sizes = [spec.size for spec in batch_specs(batch, None, child)]
            raise BadCall("value", str(self._forecasters[child.name].refusal(sizes)))

    async def _refuse_impossible(self, specs: Sequence[ChildSpec], child: ChildModel) -> None:
        """Raise BadCall if a child cannot be asked. Measures only slices that could be too large."""
        forecaster, max_tokens = self._forecasters[child.name], child.prompt_tokens
        max_chars = max_tokens * _MAX_CHARS_PER_TOKEN
        words = table("feedback.toml")["forecast"]
        sizes = [spec.size for spec in specs]
        for position, size in enumerate(sizes):
            if size > max_chars:
                fits = forecaster.fitting_chars
                raise BadCall(
                    "slice_too_large",
                    words["too_large"].format(
                        position=position,
                        size=f"{size:,}",
                        tokens=f"{max_tokens:,}",
                        fits=f"{fits:,}",
                        max_chars=fits,
                    ),
                )
        refusal = None if self._playback.repeating else forecaster.refusal(sizes)
        if refusal is not None and (self._in_flight or self._playback.unserved):
            # Answers that are already known cost nothing. Look for them only before refusing, because the
            # search is slow.
            refusal = forecaster.refusal([spec.size for spec in await self._unanswered(specs)])
        if refusal is not None:
            raise BadCall("value", refusal)
        others = CooperativeYield()
        for position, spec in enumerate(specs):
            most = (spec.size + _PROMPT_CHARS) * (1 if self._body.ascii else _MAX_TOKENS_PER_CHAR)
            if most + len(spec.pieces) * _FRAME_TOKENS > max_tokens:
                try:
                    self._assemble(spec, self._texts(spec))
                except SliceTooLarge as error:
                    raise BadCall("slice_too_large", f"slice {position}: {error}") from error
                except BudgetExceeded as error:
                    raise BadCall("value", f"child {position}: {explain_too_long(error)}") from error
                await others.checkpoint()

    def _texts(self, spec: ChildSpec) -> tuple[SliceText, ...]:
        return tuple(self._text(piece) for piece in spec.pieces)

    def _text(self, piece: Span | str) -> SliceText:
        if isinstance(piece, str):
            return SliceText(piece)
        document = self._body.document_at(piece.start)
        return SliceText(self._body.text(*piece), piece, document.name if document else None)

    def _assemble(
        self, spec: ChildSpec, texts: Sequence[SliceText], retry_reason: str | None = None
    ) -> AssembledPrompt:
        """Make a child's prompt. Raises SliceTooLarge or BudgetExceeded."""
        child, schema, empty = spec.model, spec.schema, spec.empty
        factor = self._factor(child.model)
        given = ChildInput(
            prompt=spec.prompt if retry_reason is None else f"{spec.prompt}\n\n{retry_reason}",
            slices=tuple(map(self._places.describe, texts)),
            pictures=len(spec.pages),
            part=spec.part,
            numbered=spec.is_numbered(self._places),
            schema=schema.text if schema else None,
            empty=None if empty is None else json.dumps(empty),
            remarks=True,
            # In estimated tokens, as the prompt is measured.
            window=int((child.model.window.context - child.output_tokens) / factor) + child.output_tokens,
            output_reserve=child.output_tokens,
            child_tokens=int(child.prompt_tokens / factor),
        )
        try:
            return ChildPrompt().assemble(given)
        except SliceTooLarge:
            if spec.numbered is not None or not given.numbered:
                raise
            # Nobody asked for the numbers that make it too large.
            return ChildPrompt().assemble(replace(given, numbered=False))

    def _prepare(self, spec: ChildSpec, retry_reason: str | None = None) -> PreparedChild:
        """Make a child ready to be sent. `retry_reason` is why its first answer was rejected. Raises
        SliceTooLarge or BudgetExceeded."""
        texts = self._texts(spec)
        if spec.refusal:
            retry_reason = table("child.toml")["refused"].format(reason=quote(spec.refusal))
        prompt = self._assemble(spec, texts, retry_reason)
        request = Request(
            role="child",
            messages=messages_of(prompt.system, prompt.user),
            max_output_tokens=spec.model.output_tokens,
            task=spec.prompt,
            slices=texts,
            sample=spec.sample,
            schema=None if spec.form is None else spec.form.schema,
        )
        model = spec.model.model.name
        question_id = identify_child(
            model,
            spec.prompt,
            texts,
            numbered=bool(spec.numbered),
            part=spec.part,
            sample=spec.sample,
            schema=spec.schema.text if spec.schema else None,
            retry=spec.refusal or retry_reason is not None,
            pages=[page.reference for page in spec.pages],
        )
        key = call_key(model, request)
        key = key_with_pages(key, spec.pages) if spec.pages else key
        return PreparedChild(spec, prompt, request, key, question_id)

    async def _unanswered(self, specs: Sequence[ChildSpec]) -> list[ChildSpec]:
        """Return the children whose answer is not known yet."""
        new = []
        others = CooperativeYield()
        for spec in specs:
            try:
                child = self._prepare(spec)
                known = child.key in self._in_flight or self._playback.has_reply(child.key, child.question_id)
            except (SliceTooLarge, BudgetExceeded):
                known = False
            if not known:
                new.append(spec)
            await others.checkpoint()
        return new

    async def _answer(self, spec: ChildSpec) -> ChildAnswer:
        """Answer from memory, from the same call in flight, or by the model."""
        try:
            child = self._prepare(spec)
        except (SliceTooLarge, BudgetExceeded) as error:
            return failure("slice_too_large", explain_too_long(error))
        return await self._in_flight.answer(child.key, lambda: self._ask(child))

    async def _ask(self, child: PreparedChild) -> ChildAnswer:
        spec, spans = child.spec, child.spec.spans
        past = self._playback.failure(child.key, child.question_id)
        if past is not None:
            if past.type == "model":
                self._coverage.note_sent(spans)
            self._coverage.note_failed(spans)
            return failure(past.type, past.message)
        answer = ChildAnswer("", found=False)
        try:
            answer = await self._send(child)
            if answer.error_type in _ASKED_AGAIN and not spec.refusal:
                # Ask once more, with the reason why the first answer was rejected.
                answer = with_cost(await self._send(self._prepare(spec, answer.error)), answer)
        except BudgetExhausted as error:
            self.exhausted = error
            reason = table("feedback.toml")["forecast"]["limit"].format(cause=error.cause)
            answer = with_cost(failure("limit", reason), answer)
        except LookFailed as error:
            answer = with_cost(failure("page", str(error)), answer)
        except ModelError as error:
            answer = with_cost(failure("model", str(error)), answer)
            if error.spent is not None:
                cost = self._metered.prices.of(spec.model.model, error.spent)
                answer = with_cost(answer, spent_answer(error.spent, cost))
        except (SliceTooLarge, BudgetExceeded) as error:
            answer = with_cost(failure("slice_too_large", explain_too_long(error)), answer)
        await self._note_end(child, answer)
        return answer

    async def _note_end(self, child: PreparedChild, answer: ChildAnswer) -> None:
        """Note what a child covered, and journal its failure."""
        if answer.error is None:
            self._coverage.note_answered(child.spec.spans)
            pages = [page.span for page in child.spec.pages]
            self._coverage.note_pages(pages)
            self._sightings.note(pages, answer.text)
            return
        self._coverage.note_failed(child.spec.spans)
        if not self._playback.repeating:
            self._failures += 1
            await self._log.append("child", failure_event(child, answer, self._playback.round))

    async def _send(self, child: PreparedChild) -> ChildAnswer:
        spec, report, request = child.spec, child.prompt.report, child.request
        fields: dict[str, Any] = {"prompt": spec.prompt, "spans": spec.spans, "report": report.to_json()}
        if spec.pages:
            fields["pages"] = [page.reference for page in spec.pages]
        with waiting():
            if (
                self._looks is not None
                and spec.pages
                and not self._playback.has_reply(child.key, child.question_id)
            ):
                request = await self._looks.with_pictures(request, spec.pages)
            async with seconds_left(self._budget):
                call = await self._metered.ask(
                    spec.model.model,
                    request,
                    key=child.key,
                    question_id=child.question_id,
                    slot=self._slot,
                    on_sent=lambda: self._coverage.note_sent(spec.spans),
                    prompt_tokens=report.totals.prompt,
                    event_fields=fields,
                )
        reply = call.reply
        answer = ChildAnswer(
            text="",
            cached=call.cached,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            cost_usd=call.cost_usd,
        )
        texts = [piece.text for piece in child.request.slices]
        return await read_answer(answer, reply, spec, texts)

    def add_expected(self, count: int) -> None:
        """Add to the number of answers that are expected, of children or of sub-RLMs."""
        self._expected += count

    def record(self, answer: ChildAnswer) -> None:
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
