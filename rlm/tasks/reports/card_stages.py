"""A card worked on in its stage: its state picks the prompt, its run acts or asks for research first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.documents import Source
from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.recipes.card.prompt import AssembledCard, CardInput, CardPrompt, card_stage, is_complete
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.tasks.reports.research import Research, research

__all__ = ["CardRun", "work_card"]

_RESEARCH = re.compile(r"^[ \t>*-]*RESEARCH:[ \t]*(\S.*)$", re.MULTILINE)
_MAX_AT_ONCE = 3
_REPORT_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class CardRun:
    """What came of a card in its stage. `result` is the last run's, `turns` are all of them; `completed` says
    that its answer carries the promise; `reports` are the research that it asked for; `card` is the card with
    these among its notes, `prompt` what the last turn was asked."""

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
    sources: Sequence[str | Path | Source],
    *,
    prompt: CardPrompt | None = None,
    most_research: int = 3,
) -> CardRun:
    """Work on `card` in the stage that its state names, over `sources` (its workspace, its documents).

    The run is asked with the card's prompt. Where its answer asks for research (`RESEARCH: question`), that
    is done over the same sources, the report is put among the card's notes, and the card is asked again: at
    most `most_research` questions in all. The limits of `rlm` hold for each run. Raises UsageError,
    InputError and UnknownStage before anything is spent; else what `RLM.run` raises.
    """
    if most_research < 0:
        raise UsageError(f"most_research is {most_research}: give 0 or more")
    if not sources:
        raise UsageError("a card run needs sources: the files, folders or texts it may look into")
    given = card if isinstance(card, CardInput) else CardInput.from_json(card)
    given = replace(given, repl=True)
    maker = prompt or CardPrompt()
    turns: list[RunResult] = []
    reports: list[Research] = []
    asked: set[str] = set()
    while True:
        assembled = maker.assemble(given)
        result = await rlm.run(_task(rlm, given, assembled, len(asked) < most_research), sources)
        turns.append(result)
        wanted = [question.strip() for question in _RESEARCH.findall(result.text)]
        new = [one for one in dict.fromkeys(wanted) if one not in asked][:_MAX_AT_ONCE]
        new = new[: most_research - len(asked)]
        if not new:
            done = is_complete(result.text, maker.settings)
            return CardRun(
                card_stage(given.state), done, result, tuple(turns), tuple(reports), given, assembled
            )
        for question in new:
            asked.add(question)
            found = await research(rlm, question, sources)
            reports.append(found)
            given = _with_note(given, question, found)


def _task(rlm: RLM, card: CardInput, assembled: AssembledCard, may_research: bool) -> str:
    """The card's prompt as a task. Without a model only what was last asked for can be looked up."""
    if is_extractive(rlm.model):
        users = [message.content for message in card.messages if message.role == "user"]
        return users[-1] if users else card.title or "What has to be done?"
    if not may_research:
        return assembled.text
    return f"{assembled.text}\n\n{table('tasks.toml')['stage']['ask_research'].strip()}"


def _with_note(card: CardInput, question: str, found: Research) -> CardInput:
    text = found.report
    if len(text) > _REPORT_CHARS:
        text = f"{text[:_REPORT_CHARS]}\n[… cut; the whole report is run {found.result.run_id}]"
    note = f"Research on “{question}”:\n\n{text}"
    return replace(card, context=replace(card.context, notes=(*card.context.notes, note)))
