"""Answer a look-up from the passages that rank best for it, in one or two calls of the child model."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from rlm.driver.direct import DirectReply, Question, ask_directly
from rlm.errors import BudgetExhausted, ModelError
from rlm.models.base import SliceText, is_extractive
from rlm.prompts import NOT_FOUND, BudgetExceeded, SliceTooLarge, is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.retrieval.errors import RetrievalError
from rlm.retrieval.ranking import Ranking
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.tasks.jobs.parts import Part

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
    began = time.monotonic()
    body = part.part_resources.source.body
    ranking = part.part_resources.resources.ranking(body)
    calls = 0
    try:
        spans = await _rank(ranking, f"{question} {known}", _PASSAGES)
        reply = await _ask(part, body, question, known, spans)
        calls = 1
        step = None if reply is None else _NEXT.search(reply.text)
        if reply is not None and step is not None and not _holds(reply):
            more = await _rank(ranking, step[1], _PASSAGES)
            spans = list(dict.fromkeys([*more, *spans[:_KEPT]]))
            reply = await _ask(part, body, question, known, spans)
            calls = 2
    except (ModelError, BudgetExhausted, RetrievalError, SliceTooLarge, BudgetExceeded):
        return None
    finally:
        await ranking.aclose()
    if reply is None or not _holds(reply):
        return None
    return RunResult(
        run_id=part.run_context.log.run_id,
        answer=reply.text,
        confidence=None,
        stop_reason="finalized",
        forced=False,
        strategy="direct",
        citations=reply.citations,
        coverage=part.run_context.coverage.report(),
        usage=(),
        rounds=0,
        sub_calls=calls,
        seconds=round(time.monotonic() - began, 3),
    )


def _holds(reply: DirectReply) -> bool:
    """Return whether the reply is an answer with verified quotes."""
    return reply.fault is None and not is_not_found(reply.text) and _NEXT.search(reply.text) is None


async def _rank(ranking: Ranking, query: str, limit: int) -> list[Span]:
    packs = await ranking.packs(query, limit=limit)
    return [Span(pack.start, pack.end) for pack in packs]


async def _ask(part: Part, body: Body, question: str, known: str, spans: list[Span]) -> DirectReply | None:
    if not spans:
        return None
    pieces = []
    for start, end in sorted(spans):
        document = body.document_at(start)
        pieces.append(SliceText(body.text(start, end), Span(start, end), document.name if document else None))
    words = table("tasks.toml")["look_up"].strip()
    asked = f"{question}\n\n{known}" if known else question
    text = words.format(question=asked, not_found=NOT_FOUND)
    settings = part.config.settings.direct
    reply = await ask_directly(
        part.config.sub_model,
        Question(question, text),
        pieces,
        body,
        run_context=part.run_context,
        settings=replace(settings, output_tokens=min(settings.output_tokens, _REPLY_TOKENS)),
    )
    if reply.complete or reply.fault == "not_found":
        part.run_context.coverage.note("answered", spans)
    return reply
