"""Answers a question over a short context in one call, with quotes.

A plain call beats recursion on short inputs. The answer is accepted only if its quotes are verified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm.accounting.budget import seconds_left
from rlm.accounting.metered_model import estimate, messages_of
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType, SchemaError, parse_reply
from rlm.answers.citations import cite
from rlm.answers.finalization import Answer
from rlm.answers.reply_form import child_form, quoted_form
from rlm.answers.thinking import reply_so_far, without_reasoning
from rlm.driver.outcome import Outcome
from rlm.errors import UsageError
from rlm.models.base import FinishReason, Model, Request, SliceText
from rlm.playback.border import call_digest
from rlm.prompts import (
    BudgetExceeded,
    ChildInput,
    ChildPrompt,
    ChildSliceText,
    EarlierQuestion,
    SliceTooLarge,
    earlier_words,
    is_not_found,
)
from rlm.prompts.templates import table
from rlm.results import Citation, StopReason
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.settings import DirectSettings

__all__ = [
    "DirectReply",
    "Question",
    "answer_and_quotes",
    "answer_directly",
    "ask_directly",
    "fits",
    "no_answer",
    "proposed",
    "room_of",
    "typed_question",
]

_FRAMING = 1_500
"""Tokens of a direct prompt besides the body and the question."""

_REPEATED_CHARS = 60
"""So many characters of our instructions at the start of an answer are no chance."""

_EVIDENCE = re.compile(
    r"^[ \t]*+(?:\*\*|#++[ \t]*+)?evidence:?(?:\*\*)?:?[ \t\r]*+$", re.IGNORECASE | re.MULTILINE
)
_QUOTE = re.compile(r"[\s*\-•\d.)]*+[\"“«](.+)[\"”»] ?[.,;]?")
"""Matches a whole line without the blanks at its ends."""


@dataclass(frozen=True, slots=True)
class Question:
    """A task, its text for a model, which names the form of the answer, and the schema of that form."""

    task: str
    text: str
    schema: str | None = None


def fits(model: Model, body: Body, settings: DirectSettings, earlier: Sequence[EarlierQuestion] = ()) -> bool:
    """Return whether the body and the earlier questions fit one prompt and leave the model room to answer."""
    room = min(settings.below_tokens, room_of(model, settings) - estimate(earlier_words(earlier)))
    if body.chars > room * 8:
        return False
    return estimate(body.text(0, body.chars)) <= room


def room_of(model: Model, settings: DirectSettings) -> int:
    """Return the tokens of text that one prompt holds, besides its instructions and a question."""
    return model.window.context - min(settings.output_tokens, model.window.output) - _FRAMING


@dataclass(frozen=True, slots=True)
class DirectReply:
    """The reply of one call over a text. `citations` are its quotes, checked against the body. `fault` is why
    the reply is no answer, or None if it has text and at least one quote, and all quotes are verified.
    Without a text, it needs no quote."""

    text: str
    citations: tuple[Citation, ...]
    fault: StopReason | None

    @property
    def complete(self) -> bool:
        """Return whether it is an answer, verified or not."""
        return self.fault in (None, "unverified")


async def answer_directly(
    model: Model,
    task: str,
    body: Body,
    *,
    run_context: RunContext,
    settings: DirectSettings,
    answer_type: AnswerType | None = None,
    earlier: Sequence[EarlierQuestion] = (),
) -> Outcome:
    """Return an answer (JSON, if there is an `answer_type`) whose quotes are all verified, or why there is
    none. Raises UsageError if the body does not fit one prompt, ModelError and BudgetExhausted."""
    pieces = tuple(
        SliceText(body.text(document.start, document.end), Span(document.start, document.end), document.name)
        for document in body.documents
        if document.end > document.start
    )
    question = typed_question(task, answer_type)
    try:
        reply = await ask_directly(
            model, question, pieces, body, run_context=run_context, settings=settings, earlier=earlier
        )
    except (SliceTooLarge, BudgetExceeded) as error:
        raise UsageError(
            f"{body.chars:,} characters do not fit one prompt of {model.name} (its window has "
            f"{model.window.context:,} tokens): leave the strategy to auto, or ask for rlm"
        ) from error
    if reply.fault is not None:
        if reply.fault == "not_found":
            run_context.coverage.note("answered", [Span(0, body.chars)])
        repeated = (
            "it does not answer, but repeats its instructions." if reply.fault == "invalid_reply" else ""
        )
        return no_answer(reply.fault, repeated)
    run_context.coverage.note("answered", [Span(0, body.chars)])
    return proposed(reply.text, answer_type, reply.citations)


def proposed(
    text: str, answer_type: AnswerType | None, citations: tuple[Citation, ...], warnings: Sequence[str] = ()
) -> Outcome:
    """Return the outcome of a reply with an answer, which the gates have yet to judge."""
    try:
        value = text if answer_type is None else parse_reply(text)
    except SchemaError as error:
        return no_answer("invalid_reply", str(error))
    return Outcome(Answer(value, "low" if warnings else None, citations, tuple(warnings)), "finalized")


def no_answer(reason: StopReason, error: str = "") -> Outcome:
    """Return the outcome of a reply that is no answer. `reason` is a key of `no_answer` in direct.toml."""
    words = table("direct.toml")["no_answer"][reason]
    return Outcome(None, reason, detail=words.format(error=error and f"{error.rstrip('.')}."))


async def ask_directly(
    model: Model,
    question: Question,
    pieces: Sequence[SliceText],
    body: Body,
    *,
    run_context: RunContext,
    settings: DirectSettings,
    earlier: Sequence[EarlierQuestion] = (),
) -> DirectReply:
    """Ask over `pieces` (those with a span are parts of the body) in one call, and check the quotes. Raises
    SliceTooLarge or BudgetExceeded (prompts) if they do not fit, ModelError and BudgetExhausted."""
    output = min(settings.output_tokens, model.window.output)
    asked = "ask" if pieces else "ask_without_text"
    prompt = ChildPrompt().assemble(
        ChildInput(
            prompt=earlier_words(earlier) + table("direct.toml")[asked].format(task=question.text),
            slices=tuple(
                ChildSliceText(
                    piece.text,
                    piece.span.start if piece.span else None,
                    piece.span.end if piece.span else None,
                    piece.document,
                )
                for piece in pieces
            ),
            window=model.window.context,
            output_reserve=output,
            child_tokens=model.window.context,
        )
    )
    schema = None if question.schema is None else json.loads(question.schema)
    form = None if schema is None else quoted_form(schema) if pieces else child_form(schema, has_empty=False)
    request = Request(
        role="direct",
        messages=messages_of(prompt.system, prompt.user),
        max_output_tokens=output,
        task=question.task,
        slices=tuple(pieces),
        schema=None if form is None else form.schema,
    )
    spans = [piece.span for piece in pieces if piece.span is not None]
    texts = [(piece.span or piece.text, piece.document) for piece in pieces]
    async with seconds_left(run_context.budget):
        call = await run_context.metered.ask(
            model,
            request,
            prompt_tokens=prompt.report.totals.prompt,
            on_sent=lambda: run_context.coverage.note("sent", spans),
            asked=call_digest(
                "direct", model.name, question.task, texts, question.schema, *map(str, earlier)
            ),
            answer=_answer_so_far,
            event_fields={"report": prompt.report.to_json()},
        )
    said = without_reasoning(call.reply.text)
    enforced, listed = (said, None) if form is None else form.read(said)
    text, quotes = answer_and_quotes(enforced)
    quotes = quotes if listed is None else listed
    fault = _fault(call.reply.finish_reason, enforced, text)
    if fault is None and _repeats(text, f"{prompt.system}\n{table('direct.toml')[asked]}"):
        fault = "invalid_reply"
    if fault is not None:
        return DirectReply(text, (), fault)
    if not pieces:
        return DirectReply(text, (), None)
    citations = (await cite(quotes, text, body)).citations
    is_verified = bool(citations) and all(citation.verified for citation in citations)
    return DirectReply(text, citations, None if is_verified else "unverified")


def _answer_so_far(begun: str) -> str:
    """Return what of the beginning of a reply is the answer, without a line that may become the heading of
    the quotes."""
    text, _ = answer_and_quotes(reply_so_far(begun))
    head, _, line = text.rpartition("\n")
    if not begun.endswith("\n") and "evidence:".startswith(line.strip(" \t*#").casefold()):
        return head.rstrip()
    return text


def _fault(finish: FinishReason, said: str, text: str) -> StopReason | None:
    """Return why a reply is no answer, before its quotes are checked."""
    if finish == "refusal":
        return "refused_reply"
    if finish == "length":
        return "truncated_reply"
    if not text:
        return "empty_reply"
    if finish != "stop":
        return "invalid_reply"
    return "not_found" if is_not_found(said) else None


def _repeats(text: str, instructions: str) -> bool:
    """Return whether an answer begins with our own instructions, as those of very small models do."""
    begun = " ".join(text.split())[:_REPEATED_CHARS]
    return len(begun) == _REPEATED_CHARS and begun in " ".join(instructions.split())


def typed_question(task: str, answer_type: AnswerType | None) -> Question:
    """Return the question for an answer of `answer_type`."""
    form = "" if answer_type is None else table("direct.toml")["typed"].format(schema=answer_type.text)
    return Question(task, task + form, None if answer_type is None else answer_type.text)


def answer_and_quotes(reply: str) -> tuple[str, list[str]]:
    """Return the answer, and the quotes under its last `Evidence:` line."""
    headings = list(_EVIDENCE.finditer(reply))
    if not headings:
        return reply.strip(), []
    heading = headings[-1]
    quotes = [
        match[1] for line in reply[heading.end() :].splitlines() if (match := _QUOTE.fullmatch(line.strip()))
    ]
    return reply[: heading.start()].strip(), quotes
