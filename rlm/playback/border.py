"""The border between a cell and its driver: what a cell asked, and what it got.

Everything that a cell cannot compute again crosses it: answers of children, verdicts, progress, ranked
passages, results of tools. The answers are journalled with the cell. A cell is run again after a crash, in a
replay, or in the kernel of a later question. It then gets the same answers, and nobody is asked or paid. Only
an answer that was accepted is judged again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, Protocol, TypeVar

from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink, KernelHandler
from rlm.sandbox.types import (
    ChildAnswer,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    Span,
    SubRLMBatch,
    ToolCall,
)

__all__ = [
    "Border",
    "JudgingHandler",
    "RecordedAnswer",
    "Refusal",
    "call_digest",
    "changed_fields",
    "child_answer",
    "read_answers",
]

_T = TypeVar("_T")

MAX_RECORDED = 1_000
"""Limit of the recorded answers of one cell, those of children aside: a loop of calls must not fill the
journal. A repeated cell gets the last recorded answer for each later call."""

MAX_KNOWN = 20_000
"""The same limit for answers of children that were known before and cost nothing. The budget limits all
others."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an answer was refused: what the root was told, the gate that refused it and what this gate said.
    `warned`: by now the root has been told of weak evidence."""

    reason: str
    gate: str | None
    said: tuple[str, ...]
    warned: bool


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What a cell got for the call with the digest `call`: a value, or type and message of a BadCall.

    The value of a batch is its answers by position, None where the cell was interrupted before. That of a
    `finalize` is a Refusal, or None if the answer was accepted.
    """

    call: str
    value: Any = None
    refused: tuple[str, str] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    """This answer as the journal keeps it."""


class JudgingHandler(KernelHandler, Protocol):
    """A KernelHandler that tells why it refused the last answer."""

    @property
    def refusal(self) -> Refusal: ...


class Border:
    """Implements KernelHandler for the cells of one root.

    The calls of a new cell go to `handler`, and their answers are recorded. A repeated cell gets the recorded
    ones. What it did not ask then goes to `handler`, and the cell has `diverged`; without a handler it is
    refused.
    """

    def __init__(self, handler: JudgingHandler | None = None) -> None:
        self._handler = handler
        self.begin()

    def begin(self, tools: Sequence[RecordedAnswer] = ()) -> None:
        """Begin a new cell. `tools` are the results that an earlier try of it got: their effects happen only
        once."""
        self._known = _by_call(tools)
        self._is_repeated = self._was_full = False
        self._interrupt: Callable[[], Awaitable[None]] | None = None
        self._recorded = self._known_children = 0
        self._last: dict[str, Mapping[str, Any]] = {}
        self.diverged = False
        self.answers: list[Mapping[str, Any]] = []
        """What the cell got, in the order of asking, as the journal keeps it. The results of tools are not
        among it: they have events of their own."""
        self.tools = list(tools)

    def repeat(
        self,
        answers: Sequence[RecordedAnswer],
        interrupt: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Begin to repeat a cell that got `answers`. `interrupt` is given if the cell was interrupted then.
        It is called where the cell asks for what it never got."""
        self.begin()
        self._known, self._is_repeated, self._interrupt = _by_call(answers), True, interrupt
        self._was_full = bool(self._known.pop(_MORE, None))

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        slices = [one and (one.pieces, one.numbered) for one in batch.slices]
        form = (batch.sample, batch.schema, batch.chunked, batch.retries, batch.model, batch.look)
        await self._serve_batch(call_digest("children", batch.prompts, slices, form), batch, answered)

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        sources = [one and (one.pieces, one.numbered) for one in batch.sources]
        await self._serve_batch(call_digest("sub_rlms", batch.prompts, sources, batch.model), batch, answered)

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        evidence = [repr(one) for one in final.evidence]
        call = call_digest("finalize", final.value, evidence, final.confidence)
        known = self._take(call)
        if known is not None and isinstance(known.value, Refusal):
            return FinalizeVerdict(accepted=False, reason=known.value.reason)
        if known is not None and self._handler is None:
            return FinalizeVerdict(accepted=True)
        # An answer that was accepted is judged again: its citations are looked up.
        live = self._handler if known is not None and self._handler else await self._live()
        verdict = await live.finalize(final)
        if known is None:
            found = {} if verdict.accepted else {"refusal": asdict(live.refusal)}
            self._record({"call": call, **found})
        return verdict

    async def chunk_chars(self) -> int:
        return await self._serve("chunk_chars", (), lambda live: live.chunk_chars(), int)

    async def progress(self) -> Progress:
        async def ask(live: KernelHandler) -> dict[str, Any]:
            return asdict(await live.progress())

        return await self._serve("progress", (), ask, lambda value: Progress(**value))

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        async def ask(live: KernelHandler) -> list[list[Any]]:
            return [[one.span, one.score, one.heading_path] for one in await live.rank(query)]

        def read(found: Any) -> list[RankedSpan]:
            return [RankedSpan(Span(*span), score, tuple(path)) for span, score, path in found]

        return await self._serve("rank", asdict(query), ask, read)

    async def tool(self, call: ToolCall) -> Any:
        digest = call_digest("tool", call.name, call.args, call.kwargs)
        known = self._take(digest, once=True)
        if known is not None:
            return known.value
        live = await self._live()
        try:
            value = await live.tool(call)
        except BadCall as error:
            refused = (error.type, str(error))
            record = {"call": digest, "refused": list(refused)}
            self.tools.append(RecordedAnswer(digest, refused=refused, record=record))
            raise
        self.tools.append(RecordedAnswer(digest, value, record={"call": digest, "value": value}))
        return value

    async def _serve_batch(self, call: str, batch: ChildBatch | SubRLMBatch, answered: AnswerSink) -> None:
        known = self._take(call)
        if known is not None:
            for position, answer in enumerate(known.value):
                if answer is None:
                    await self._stop_here()
                await answered(position, answer)
            return
        live = await self._live()
        got: list[dict[str, Any] | None] = [None] * len(batch.prompts)
        record = {"call": call, "children": got}
        self.answers.append(record)  # at once: the cell may be interrupted

        async def note(position: int, answer: ChildAnswer) -> None:
            got[position] = changed_fields(answer)
            await answered(position, answer)

        try:
            if isinstance(batch, ChildBatch):
                await live.children(batch, note)
            else:
                await live.sub_rlms(batch, note)
        except BadCall as error:
            self.answers.remove(record)
            self._record({"call": call, "refused": [error.type, str(error)]})
            raise
        self.answers.remove(record)
        self._record(record)

    async def _serve(
        self,
        helper: str,
        params: Any,
        ask: Callable[[KernelHandler], Awaitable[Any]],
        read: Callable[[Any], _T],
    ) -> _T:
        """Return the answer of a helper that costs nothing. `ask` gives it as JSON, and `read` reads that."""
        call = call_digest(helper, params)
        known = self._take(call)
        if known is not None:
            try:
                return read(known.value)
            except (TypeError, ValueError) as error:  # a journal may come from a stranger
                raise BadCall("value", f"the journal's answer to {helper} is damaged") from error
        live = await self._live()
        try:
            value = await ask(live)
        except BadCall as error:
            self._record({"call": call, "refused": [error.type, str(error)]})
            raise
        self._record({"call": call, "value": value})
        return read(value)

    def _take(self, call: str, *, once: bool = False) -> RecordedAnswer | None:
        """Return the recorded answer to a call, if there is one. The last one stays, unless each is given
        `once`. Raises BadCall if the call was refused."""
        known = self._known.get(call)
        if not known:
            return None
        found = known.popleft() if once or len(known) > 1 else known[0]
        if self._is_repeated:
            self._record(found.record)
        if found.refused is not None:
            raise BadCall(*found.refused)
        return found

    async def _live(self) -> JudgingHandler:
        """Return the handler for a call that is not recorded."""
        # More calls than are recorded are no other way.
        if self._is_repeated and not self._was_full:
            if self._interrupt is not None:
                await self._stop_here()
            self.diverged = True
        if self._handler is None:
            raise BadCall("value", "no question is being asked now")
        return self._handler

    async def _stop_here(self) -> None:
        """Wait for what never came, until the cell ends. Interrupt it if it was interrupted then."""
        if self._interrupt is not None:
            await self._interrupt()
        with waiting():
            await asyncio.Event().wait()

    def _record(self, record: Mapping[str, Any]) -> None:
        """Record an answer, unless it is the last one to this call, which stays, or too many cost nothing."""
        if self._last.get(record["call"]) == record:
            return
        children = record.get("children")
        known = sum(one is not None and one.get("cached", False) for one in children or ())
        self._recorded += children is None
        self._known_children += known
        is_full = self._recorded > MAX_RECORDED if children is None else self._known_children > MAX_KNOWN
        if is_full and (known or children is None):
            if _MORE in self._last:
                return
            record = {"call": _MORE}
        self._last[record["call"]] = record
        self.answers.append(record)


def call_digest(*parts: object) -> str:
    """Return what identifies a call: a digest of the helper and its arguments, values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def read_answers(records: Iterable[Mapping[str, Any]]) -> list[RecordedAnswer]:
    """Return what a cell got, from its event. Raises KeyError, TypeError and ValueError for other data."""
    return [_read_answer(one) for one in records]


def _read_answer(record: Mapping[str, Any]) -> RecordedAnswer:
    read = partial(RecordedAnswer, record["call"], record=record)
    if "refused" in record:
        type_, message = record["refused"]
        return read(refused=(str(type_), str(message)))
    if "children" in record:
        return read([None if one is None else child_answer(one) for one in record["children"]])
    if "refusal" in record:
        given = record["refusal"]
        return read(Refusal(given["reason"], given["gate"], tuple(given["said"]), given["warned"]))
    return read(record.get("value"))


_MORE = "more"
"""The call of the record that says that there was more."""

_DEFAULTS = {one.name: one.default for one in fields(ChildAnswer)}


def changed_fields(answer: ChildAnswer) -> dict[str, Any]:
    """Return a child's answer as the journal keeps it: the fields that are not as usual."""
    return {name: value for name, default in _DEFAULTS.items() if (value := getattr(answer, name)) != default}


def child_answer(given: Mapping[str, Any]) -> ChildAnswer:
    """Return the child's answer that was written by `changed_fields`."""
    evidence = tuple(Span(*span) for span in given.get("evidence", ()))
    return ChildAnswer(**{"text": "", **given, "evidence": evidence})


def _by_call(answers: Iterable[RecordedAnswer]) -> dict[str, deque[RecordedAnswer]]:
    known: dict[str, deque[RecordedAnswer]] = {}
    for one in answers:
        known.setdefault(one.call, deque()).append(one)
    return known
