"""Answers a question by map-reduce: children read every part, and one call answers from their notes.

No model writes code, so it suits models that can't, and windows from about 2,000 tokens. The parts depend on
the input alone, so that a resumed run asks the same questions again, and its journal answers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.answers.citations import cite, quotes_in
from rlm.children.child_calls import ChildCalls
from rlm.driver.direct import DirectReply, Question, ask_directly, no_answer, proposed, typed_question
from rlm.driver.outcome import Outcome
from rlm.errors import ModelError
from rlm.models.base import Model, SliceText
from rlm.prompts import BudgetExceeded, EarlierQuestion, SliceTooLarge, is_not_found
from rlm.prompts.recipes.notices import excerpt
from rlm.prompts.templates import table
from rlm.results import Citation
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span
from rlm.settings import DirectSettings

__all__ = ["MapReduce", "Notes", "parts_of"]

_FRAMING = 700
"""Tokens of a child's prompt besides its part and the task."""
_REPLY_SHARE = 4
"""The reply of the last call takes at most one in so many tokens of the window."""
_FILL = 0.9
_SHRINK = 0.7
_MIN_CHARS = 200
_BORDER_SHARE = 0.2
"""A part ends at a line's end, if there is one in this share of it at its end."""
_MAX_CITED_NOTES = 5
_CALLS_SHARE = 0.9
"""The share of the calls left that the parts may take. The others merge the notes."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What the children noted, by part. `failed` counts the parts without an answer, and `reason` is why."""

    texts: tuple[str, ...]
    parts: int
    failed: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MapReduce:
    """Answers questions over `body`. `model` makes the last call, and the children of `child_calls` the
    others."""

    model: Model
    child_calls: ChildCalls
    body: Body
    run_context: RunContext
    settings: DirectSettings

    async def answer(
        self, task: str, *, answer_type: AnswerType | None = None, earlier: Sequence[EarlierQuestion] = ()
    ) -> Outcome:
        """Return an answer with at least one verified quote, or why there is none. Raises ModelError and
        BudgetExhausted."""
        words = table("map_reduce.toml")
        question = typed_question(task, answer_type)
        self._hold_last_call()
        try:
            notes = await self.map(task)
        except BadCall as error:
            return Outcome(None, "sub_calls", detail=str(error))
        if not notes.texts:
            if notes.failed:
                reason = words["fault"]["failed"].format(
                    failed=notes.failed, parts=notes.parts, reason=notes.reason
                )
                return Outcome(None, "model", detail=reason)
            return Outcome(None, "not_found", detail=words["fault"]["nothing"])
        reply, merged = await self.reduce(question, notes, earlier)
        if reply is None:
            too_small = words["fault"]["too_small"].format(window=self.model.window.context)
            return Outcome(None, "tokens", detail=too_small)
        if reply.fault not in (None, "unverified"):
            return no_answer(reply.fault)
        citations, warnings = await self._checked(reply, merged, notes)
        if notes.failed:
            failed = words["warning"]["parts_failed"]
            warnings.append(failed.format(failed=notes.failed, parts=notes.parts, reason=notes.reason))
        if not any(citation.verified for citation in citations):
            begun = excerpt(reply.text)
            unverified = words["fault"]["unverified"].format(excerpt=begun)
            return Outcome(None, "unverified", detail=unverified)
        return proposed(reply.text, answer_type, citations, warnings)

    def _hold_last_call(self) -> None:
        """Keep what the last call may use, so that the parts do not spend it. Raises BudgetExhausted."""
        window, output = self.model.window.context, self._direct_settings.output_tokens
        left = self.run_context.budget.remaining()
        tokens = min(window, self.settings.below_tokens + output, int(left["tokens"] // 2))
        cost = self.run_context.metered.prices.at_most(self.model, max(0, tokens - output), output)
        if cost is not None:
            cost = min(cost, left["cost_usd"] / 2)
        self.run_context.budget.hold_last_round(tokens=tokens, cost_usd=cost)

    async def map(self, task: str) -> Notes:
        """Let a child note what each part says towards the answer. Raises BadCall before anything is spent if
        the budget is too small for a whole pass, and ModelError if no part could be read."""
        words = table("map_reduce.toml")
        prompt = words["map"].format(task=task)
        chars = self._part_chars(prompt)
        while True:
            parts = parts_of(self.body, chars)
            left = int(self.run_context.budget.remaining()["sub_calls"])
            if len(parts) > max(1, left * _CALLS_SHARE) and not self.run_context.metered.has_replies:
                raise BadCall("value", words["fault"]["too_many"].format(calls=len(parts), left=left))
            try:
                answers = await self._ask(prompt, [ChildSlice(part) for part in parts])
                break
            except BadCall as error:
                if error.type != "slice_too_large" or chars <= _MIN_CHARS:
                    raise
                chars = max(_MIN_CHARS, int(chars * _SHRINK))
        return self._noted(answers)

    async def reduce(
        self, question: Question, notes: Notes, earlier: Sequence[EarlierQuestion] = ()
    ) -> tuple[DirectReply | None, tuple[str, ...]]:
        """Return the reply of the last call, and the notes that it was made from. Notes that are too long for
        one prompt are merged by children first, level by level. Returns None for the reply if not even one
        merged note fits."""
        words = table("map_reduce.toml")
        texts = notes.texts
        while True:
            pieces = [
                SliceText(text, None, words["notes"].format(part=number, parts=len(texts)))
                for number, text in enumerate(texts, 1)
            ]
            try:
                self.run_context.budget.close()
                reply = await ask_directly(
                    self.model,
                    question,
                    pieces,
                    self.body,
                    run_context=self.run_context,
                    settings=self._direct_settings,
                    earlier=earlier,
                )
                return reply, texts
            except (SliceTooLarge, BudgetExceeded):
                merged = await self._merge(question.task, texts)
                if sum(map(len, merged)) >= sum(map(len, texts)):
                    # The children did not shorten them. Each note is cut, so that every part keeps a voice.
                    merged = tuple(text[: len(text) // 2] for text in texts if len(text) > 1)
                if not merged:
                    return None, texts
                texts = merged

    async def _merge(self, task: str, texts: Sequence[str]) -> tuple[str, ...]:
        """Let children merge the notes, in groups that fit their prompts."""
        prompt = table("map_reduce.toml")["reduce"].format(task=task)
        room = self._part_chars(prompt)
        groups: list[list[str]] = []
        for text in (text[:room] for text in texts):
            if groups and sum(map(len, groups[-1])) + len(text) <= room:
                groups[-1].append(text)
            else:
                groups.append([text])
        if len(groups) == len(texts) > 1:
            return tuple(text[: max(1, len(text) // 2)] for text in texts)
        try:
            answers = await self._ask(prompt, [ChildSlice(("\n\n".join(group),)) for group in groups])
        except BadCall:
            return tuple(text[: len(text) // 2] for text in texts)
        return self._noted(answers).texts

    async def _ask(self, prompt: str, slices: Sequence[ChildSlice]) -> list[ChildAnswer]:
        batch = ChildBatch((prompt,) * len(slices), tuple(slices), chunked=True)
        answers = await self.child_calls.ask_all(batch)
        errors = [answer.error for answer in answers if answer.error_type == "model"]
        if errors and len(errors) == len(answers):
            raise ModelError(f"the model answered no part: {errors[0]}")
        if self.child_calls.exhausted is not None and not any(answer.error is None for answer in answers):
            raise self.child_calls.exhausted
        return answers

    def _noted(self, answers: Sequence[ChildAnswer]) -> Notes:
        failed = [answer.error for answer in answers if answer.error is not None]
        texts = tuple(
            answer.text.strip()
            for answer in answers
            if answer.error is None and answer.found and answer.text.strip() and not is_not_found(answer.text)
        )
        return Notes(texts, len(answers), len(failed), str(failed[0]) if failed else "")

    async def _checked(
        self, reply: DirectReply, merged: Sequence[str], notes: Notes
    ) -> tuple[tuple[Citation, ...], list[str]]:
        """Return the citations: those of the reply if one is verified, or else the verified quotes of the
        notes. With warnings about them."""
        if any(citation.verified for citation in reply.citations):
            return reply.citations, []
        for texts in (merged, notes.texts):
            quotes = [quote for text in texts for quote in quotes_in(text)]
            cited = await cite(list(dict.fromkeys(quotes))[:50], "", self.body)
            verified = [citation for citation in cited.citations if citation.verified]
            if verified:
                evidence = [Span(*_place(citation)) for citation in verified[:_MAX_CITED_NOTES]]
                found = (await cite(evidence, "", self.body)).citations
                return found, [table("map_reduce.toml")["warning"]["notes_cited"]]
        return reply.citations, []

    def _part_chars(self, prompt: str) -> int:
        """Return the characters of a part that fit a child's prompt with `prompt` as its task."""
        room = self.child_calls.prompt_tokens - _FRAMING - estimate(prompt)
        sample = self.body.text(0, min(self.body.chars, 20_000))
        return max(_MIN_CHARS, int(room * _FILL * len(sample) / max(1, estimate(sample))))

    @property
    def _direct_settings(self) -> DirectSettings:
        output = min(self.settings.output_tokens, max(1, self.model.window.context // _REPLY_SHARE))
        return replace(self.settings, output_tokens=output)


def parts_of(body: Body, chars: int) -> list[tuple[Span, ...]]:
    """Cut the body into parts of at most `chars` characters, in order and without gaps. Small documents share
    a part. A part ends at the end of a line if there is one near."""
    parts: list[tuple[Span, ...]] = []
    current: list[Span] = []
    size = 0
    for document in body.documents:
        start = document.start
        while start < document.end:
            end = min(start + chars - size, document.end)
            if end < document.end:
                border = int((end - start) * _BORDER_SHARE)
                at = body.text(end - border, end).rfind("\n")
                end = end if at < 0 else end - border + at + 1
            current.append(Span(start, end))
            size += end - start
            start = end
            if size >= chars or start < document.end:
                parts.append(tuple(current))
                current, size = [], 0
    return [*parts, tuple(current)] if current else parts


def _place(citation: Citation) -> tuple[int, int]:
    assert citation.start is not None
    assert citation.end is not None
    return citation.start, citation.end
