"""The direct strategy: a context that fits one prompt is first answered by one call, with quotes.

Recursion loses to a plain call on short inputs. The answer only stands when its quotes do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from prompts import (
    BudgetExceeded,
    ChildInput,
    ChildPrompt,
    ChildSliceText,
    EarlierQuestion,
    SliceTooLarge,
    earlier_words,
    is_not_found,
)
from rlm.accounts import Accounts
from rlm.answer_type import AnswerType
from rlm.calls import estimate, messages_of
from rlm.deadline import seconds_left
from rlm.errors import UsageError
from rlm.evidence import cite
from rlm.finalization import Answer
from rlm.models.base import Model, Request, SliceText
from rlm.reasoning import without_reasoning
from rlm.schema import SchemaError
from sandbox.in_kernel.body import Body
from sandbox.types import Span

__all__ = ["DirectSettings", "answer_directly", "fits"]

_FRAMING = 1_500
"""Tokens of a direct prompt beside the body and the question."""

_EVIDENCE = re.compile(r"^\s*(?:\*\*|#+\s*)?evidence:?(?:\*\*)?:?\s*$", re.IGNORECASE | re.MULTILINE)
_QUOTE = re.compile(r"^[\s*\-•\d.)]*[\"“«](.+?)[\"”»]\s*[.,;]?\s*$")

_ASK = """{task}

Answer from the text alone. After the answer write a line `Evidence:` and under it one to five short passages
of the text that prove the answer, each copied word for word, in double quotes, on a line of its own."""


_TYPED = "The answer is one JSON value that matches this JSON Schema, and nothing else: {schema}"


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """Up to how many tokens a context is answered directly, and how long the reply may be."""

    below_tokens: int = 16_000
    output_tokens: int = 8_000


def fits(model: Model, body: Body, settings: DirectSettings, earlier: Sequence[EarlierQuestion] = ()) -> bool:
    """Whether the body is short enough, by the run's counter, and leaves the model room to answer, beside the
    questions before."""
    beside = _FRAMING + estimate(earlier_words(earlier))
    room = min(settings.below_tokens, model.window.context - settings.output_tokens - beside)
    if body.chars > room * 8:
        return False
    return estimate(body.text(0, body.chars)) <= room


async def answer_directly(
    model: Model,
    task: str,
    body: Body,
    *,
    accounts: Accounts,
    settings: DirectSettings,
    answer_type: AnswerType | None = None,
    earlier: Sequence[EarlierQuestion] = (),
) -> Answer | None:
    """An answer (of `answer_type`, if there is one) whose quotes all stand in the body, or None when there
    is no such thing. Raises UsageError when the body does not fit one prompt, ModelError and
    BudgetExhausted."""
    whole = Span(0, body.chars)
    pieces = tuple(
        SliceText(body.text(document.start, document.end), Span(document.start, document.end), document.name)
        for document in body.documents
    )
    output = min(settings.output_tokens, model.window.output)
    try:
        prompt = ChildPrompt().assemble(
            ChildInput(
                prompt=earlier_words(earlier) + _ask(task, answer_type),
                slices=tuple(
                    ChildSliceText(piece.text, document.start, document.end, document.name)
                    for piece, document in zip(pieces, body.documents, strict=True)
                ),
                window=model.window.context,
                output_reserve=output,
                child_tokens=model.window.context,
            )
        )
    except (SliceTooLarge, BudgetExceeded) as error:
        raise UsageError(
            f"{body.chars:,} characters do not fit one prompt of {model.name} (its window has "
            f"{model.window.context:,} tokens): leave the strategy to auto, or ask for rlm"
        ) from error
    tokens = prompt.report.totals.prompt
    request = Request(
        role="direct",
        messages=messages_of(prompt.system, prompt.user),
        max_output_tokens=output,
        task=task,
        slices=pieces,
    )
    async with seconds_left(accounts.budget):
        call = await accounts.caller.ask(
            model,
            request,
            prompt_tokens=tokens,
            sent=lambda: accounts.coverage.note_sent([whole]),
            facts={"report": prompt.report.to_json()},
        )
    reply = call.reply
    said = without_reasoning(reply.text)
    if reply.finish_reason != "stop" or is_not_found(said):
        return None
    text, quotes = _parts(said)
    citations = cite(quotes, text, body)
    if not text or not citations or not all(citation.verified for citation in citations):
        return None
    try:
        value = text if answer_type is None else answer_type.read(text)
    except SchemaError:
        return None
    accounts.coverage.note_answered([whole])
    return Answer(value, None, citations)


def _ask(task: str, answer_type: AnswerType | None) -> str:
    form = "" if answer_type is None else f"\n\n{_TYPED.format(schema=answer_type.text)}"
    return _ASK.format(task=task + form)


def _parts(reply: str) -> tuple[str, list[str]]:
    """The answer and the quotes under its last `Evidence:` line."""
    headings = list(_EVIDENCE.finditer(reply))
    if not headings:
        return reply.strip(), []
    heading = headings[-1]
    quotes = [match[1] for line in reply[heading.end() :].splitlines() if (match := _QUOTE.match(line))]
    return reply[: heading.start()].strip(), quotes
