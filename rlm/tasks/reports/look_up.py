"""Answer a look-up from the passages that rank best for it, in one or two calls of the child model."""

from __future__ import annotations

import re
from dataclasses import replace

from rlm.driver.direct import DirectReply, Question
from rlm.errors import BudgetExhausted, ModelError
from rlm.models.base import is_extractive
from rlm.prompts import NOT_FOUND, BudgetExceeded, SliceTooLarge, is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.retrieval.errors import RetrievalError
from rlm.tasks.jobs.parts import Part
from rlm.tasks.one_call import SpanCalls

__all__ = ["look_up", "may_look_up"]

_PASSAGES = 6
_KEPT = 3
"""Passages of the first step that are shown again in the second."""
_REPLY_TOKENS = 2_000
_NEXT = re.compile(r"^\W*NEXT\W*:\W*(\S.{2,200})$", re.IGNORECASE | re.MULTILINE)


def may_look_up(part: Part) -> bool:
    """Return whether the text is too long to be read as a whole for a fact that its best passages may hold. A
    question that was begun in rounds is continued in rounds."""
    config, body = part.config, part.part_resources.source.body
    return (
        config.settings.strategy == "auto"
        and not is_extractive(config.sub_model)
        and not is_extractive(config.model)
        and not part.recording.has_rounds
        and config.first_strategy(body) != "direct"
    )


async def look_up(part: Part, question: str, known: str = "") -> RunResult | None:
    """Return the answer if the best passages hold it, with verified quotes, or else None.

    The passages are ranked by the question, and `known` (answers of earlier questions). If they hold only a
    step towards the answer, the model names what to search for next, and is asked once more. Raises nothing
    that a model or a limit of the part causes: then the answer is searched in rounds, which report it.
    """
    settings = part.config.settings.direct
    settings = replace(settings, output_tokens=min(settings.output_tokens, _REPLY_TOKENS))
    calls = SpanCalls.of(part, part.config.sub_model, settings)
    asked = f"{question}\n\n{known}" if known else question
    text = table("tasks.toml")["look_up"].strip().format(question=asked, not_found=NOT_FOUND)
    try:
        spans = await calls.best_passages(f"{question} {known}", _PASSAGES)
        if not spans:
            return None
        reply = await calls.ask(Question(question, text), spans)
        if (step := _NEXT.search(reply.text)) and not _holds(reply):
            more = await calls.best_passages(step[1], _PASSAGES)
            reply = await calls.ask(Question(question, text), list(dict.fromkeys([*more, *spans[:_KEPT]])))
    except (ModelError, BudgetExhausted, RetrievalError, SliceTooLarge, BudgetExceeded):
        return None
    return calls.result(reply, is_answer=True) if _holds(reply) else None


def _holds(reply: DirectReply) -> bool:
    """Return whether the reply is an answer with verified quotes."""
    return reply.fault is None and not is_not_found(reply.text) and _NEXT.search(reply.text) is None
