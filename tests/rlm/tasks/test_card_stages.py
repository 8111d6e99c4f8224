"""Cards: the state picks the prompt, and a run acts or first asks for research."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.models.base import Request
from rlm.prompts.templates import table
from rlm.tasks.reports.card_stages import CardRun, work_card
from rlm.testing import ScriptedModel

SOURCE = "The lock was caused by two connections.\nThe timeout is 5 seconds.\n"
STATES = ("planning", "coding", "review", "testing", "error_fixing")
Work = Callable[..., Any]


def card(state: str = "error_fixing") -> dict[str, Any]:
    return {
        "id": "17",
        "title": "Refunds",
        "state": state,
        "messages": [{"role": "user", "content": "What is the timeout?"}],
    }


@pytest.fixture
def worked(sandbox_level: int, tmp_path: Path) -> Work:
    async def work(model: Any, given: dict[str, Any], **options: Any) -> CardRun:
        settings = Settings(store=tmp_path / "rlm.db", sandbox=sandbox_level, strategy="rlm")
        return await work_card(
            RLM(model, settings=settings), given, options.pop("sources", [SOURCE]), **options
        )

    return work


@pytest.mark.parametrize("state", STATES)
async def test_the_state_picks_the_stage_prompt(
    worked: Work, block: Callable[[str], str], state: str
) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 9)\nfinalize('Done.\\n<promise>COMPLETE</promise>')")])
    run = await worked(model, card(state))
    words = table("card.toml")["agent"]
    assert words[state].strip().splitlines()[0] in model.requests[0].task
    assert not any(words[other].strip() in model.requests[0].task for other in STATES if other != state)
    assert (run.stage, run.completed, run.reports) == (state, True, ())


def roots(*replies: str) -> Callable[[Request], str]:
    """The card's replies in order; questions of research are answered from the text."""
    given = iter(replies)

    def root(request: Request) -> str:
        if "Answer from the documents," in request.task:
            return "```repl\nhits = search('caused by[^.]*')\nfinalize('Two [1].', evidence=hits)\n```"
        return next(given)

    return root


def summary(request: Request) -> str:
    plan = request.messages[-1].content.startswith("Plan research")
    return "- What caused the lock?\n" if plan else "Two connections [1]."


async def test_a_card_run_may_spawn_research_and_act_on_it(worked: Work, block: Callable[[str], str]) -> None:
    """A card run may act, or ask for research."""
    model = ScriptedModel.of(
        root=roots(
            block("peek(0, 9)\nfinalize('First:\\nRESEARCH: What caused the lock?')"),
            block("peek(0, 9)\nfinalize('Use one.\\n<promise>COMPLETE</promise>')"),
        ),
        summary=summary,
    )
    run = await worked(model, card())
    assert run.completed
    assert len(run.turns) == 2
    (report,) = run.reports
    assert report.sources[0].citation.quote == "The lock was caused by two connections."
    (note,) = run.card.notes
    assert note.startswith("Research on “What caused the lock?”")
    assert "caused by two connections" in run.prompt.text


async def test_research_ends_at_its_bound_and_is_not_done_twice(
    worked: Work, block: Callable[[str], str]
) -> None:
    again = block("peek(0, 9)\nfinalize('RESEARCH: What caused the lock?')")
    run = await worked(ScriptedModel.of(root=roots(again, again), summary=summary), card())
    assert (len(run.turns), len(run.reports), run.completed) == (2, 1, False)
    assert run.answer == ""
    none = await worked(ScriptedModel.of(root=roots(again), summary=summary), card(), most_research=0)
    assert none.reports == ()


async def test_a_turn_researches_at_most_three_questions_within_the_limit(
    worked: Work, block: Callable[[str], str]
) -> None:
    """The prompt explains how to ask for research only while more is allowed."""
    five = "\\n".join(f"RESEARCH: What caused lock {number}?" for number in range(5))
    turns = [block(f"peek(0, 9)\nfinalize('{five}')"), block(f"peek(0, 9)\nfinalize('{five}')")]
    last = block("peek(0, 9)\nfinalize('Done.\\n<promise>COMPLETE</promise>')")
    model = ScriptedModel.of(root=roots(*turns, last), summary=summary)
    run = await worked(model, card(), most_research=4)
    asked = [report.plan.task for report in run.reports]
    assert asked == [f"What caused lock {number}?" for number in range(4)]
    told = [
        one.task
        for one in model.requests
        if one.role == "root" and "Answer from the documents," not in one.task
    ]
    assert ["`RESEARCH: question`" in task for task in told] == [True, True, False]


async def test_a_long_report_is_cut_and_names_its_run(worked: Work, block: Callable[[str], str]) -> None:
    source = "".join(
        f"The lock was caused by writer {number} of the {number} writers.\n" for number in range(300)
    )
    answer = "' '.join(f'So {n} [{n}].' for n in range(1, 90))"
    found = f"hits = search('caused by[^.]*')\nfinalize({answer}, evidence=hits)"
    ends = iter(
        [
            block("peek(0, 9)\nfinalize('RESEARCH: What caused the lock?')"),
            block("peek(0, 9)\nfinalize('Done.\\n<promise>COMPLETE</promise>')"),
        ]
    )

    def root(request: Request) -> str:
        return block(found) if "Answer from the documents," in request.task else next(ends)

    run = await worked(ScriptedModel.of(root=root, summary=summary), card(), sources=[source])
    (note,) = run.card.notes
    (report,) = run.reports
    assert len(report.report) > 8_000
    assert len(note) < 8_200
    assert note.endswith(f"[… cut; the whole report is run {report.result.run_id}]")


async def test_without_a_model_the_last_message_is_searched(worked: Work) -> None:
    run = await worked("extractive", card())
    assert "The timeout is 5 seconds." in run.result.answer
    assert not run.completed


async def test_a_card_without_sources_is_refused(worked: Work) -> None:
    with pytest.raises(UsageError, match="needs sources"):
        await worked(ScriptedModel.of(), card(), sources=[])
