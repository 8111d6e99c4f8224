"""Work on a card: its state picks the prompt, and its run either acts or first asks for research."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlm.documents import Context, sources_of
from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.recipes.card import AssembledCard, CardInput, CardPrompt, card_stage, is_complete
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.tasks.reports.research import Research, research

__all__ = ["CardRun", "work_card"]

_RESEARCH = re.compile(r"^[ \t>*-]*RESEARCH:[ \t]*(\S.*)$", re.MULTILINE)
_MAX_PER_TURN = 3
_REPORT_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class CardRun:
    """The outcome of the work on a card.

    `turns` are the results of all runs, and `result` is the last one. `completed`: the last answer contains
    the promise that the work is complete. `reports` are the researches that the runs asked for. `card` is the
    card with these reports in its notes. `prompt` is the prompt of the last turn.
    """

    stage: str
    completed: bool
    result: RunResult
    turns: tuple[RunResult, ...]
    reports: tuple[Research, ...]
    card: CardInput
    prompt: AssembledCard

    @property
    def answer(self) -> str:
        """The last answer without the lines that ask for research."""
        return _RESEARCH.sub("", self.result.text).strip()


async def work_card(
    rlm: RLM,
    card: CardInput | Mapping[str, Any],
    context: Context,
    *,
    prompt: CardPrompt | None = None,
    most_research: int = 3,
) -> CardRun:
    """Work on `card` in the stage that its state names, over `context` (its workspace, its documents).

    A run gets the card's prompt. If its answer asks for research (`RESEARCH: question`), each question is
    researched over the same sources, the reports are added to the card's notes, and a new run gets the new
    prompt. `most_research` limits the questions in total. The limits of `rlm` apply to each run. Raises
    UsageError, InputError and UnknownStage before anything is spent, and the errors of `RLM.run`.
    """
    if most_research < 0:
        raise UsageError(f"most_research is {most_research}: give 0 or more")
    sources = sources_of(context)
    if not sources:
        raise UsageError("a card run needs sources: give the files, folders or texts that it may read")
    card = card if isinstance(card, CardInput) else CardInput.from_json(card)
    card = replace(card, repl=True)
    maker = prompt or CardPrompt()
    turns: list[RunResult] = []
    reports: list[Research] = []
    asked: set[str] = set()
    while True:
        assembled = maker.assemble(card)
        result = await rlm.run(_task(rlm, card, assembled, len(asked) < most_research), sources)
        turns.append(result)
        questions = [question.strip() for question in _RESEARCH.findall(result.text)]
        new = [one for one in dict.fromkeys(questions) if one not in asked][:_MAX_PER_TURN]
        new = new[: most_research - len(asked)]
        if not new:
            done = is_complete(result.text, maker.settings)
            return CardRun(
                card_stage(card.state), done, result, tuple(turns), tuple(reports), card, assembled
            )
        for question in new:
            asked.add(question)
            report = await research(rlm, question, sources)
            reports.append(report)
            card = _with_note(card, question, report)


def _task(rlm: RLM, card: CardInput, assembled: AssembledCard, may_research: bool) -> str:
    """Return the card's prompt as a task. Without a model, return the last user message, because its words
    can be searched."""
    if is_extractive(rlm.model):
        users = [message.content for message in card.messages if message.role == "user"]
        return users[-1] if users else card.title or "What has to be done?"
    if not may_research:
        return assembled.text
    return f"{assembled.text}\n\n{table('tasks.toml')['stage']['ask_research'].strip()}"


def _with_note(card: CardInput, question: str, research: Research) -> CardInput:
    text = research.report
    if len(text) > _REPORT_CHARS:
        text = f"{text[:_REPORT_CHARS]}\n[… cut; the whole report is run {research.result.run_id}]"
    note = f"Research on “{question}”:\n\n{text}"
    return replace(card, notes=(*card.notes, note))
