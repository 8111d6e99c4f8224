"""Test several attempts at one question: agreement, the choice, shared limits, and resuming."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from rlm import RLM, Limits, Settings
from rlm.errors import UsageError
from rlm.journal import Journal
from rlm.models.base import ModelWindow, Reply, TokenUsage
from rlm.results import RunResult
from rlm.tasks.attempts import answer_in_attempts, choose, resume_attempts
from rlm.tasks.question import ask
from rlm.testing import ScriptedModel

TEXT = "The crane costs 940 euros a day.\nThe barge costs 300 euros a day.\n"


def roots(block, *answers: object, evidence: str = "The crane costs 940 euros a day."):
    """Return a root whose attempts give these answers, in order of their calls."""
    blocks = (block(f"peek(0, 9)\nfinalize({one!r}, evidence=[{evidence!r}])") for one in answers)
    replies = (Reply(text, usage=TokenUsage(100, 10)) for text in blocks)
    return lambda _: next(replies)


@pytest.fixture
def rlm_of(run, tmp_path):
    def make(model: ScriptedModel, **limits: float) -> RLM:
        settings = Settings(strategy="rlm", sandbox=run.level, store=run.store)
        return RLM(model, settings=settings, limits=Limits(**limits), observe=run.events.append)

    return make


async def test_the_answer_that_most_attempts_give_wins(rlm_of, run, block) -> None:
    """Usage is the sum, the warning says how many agreed, and each attempt is in the journal."""
    rlm = rlm_of(ScriptedModel.of(root=roots(block, "940 euros", "300 euros", "940 Euros.")))
    result = await answer_in_attempts(rlm, "What does the crane cost?", TEXT, attempts=3)
    assert result.answer.casefold().startswith("940 euros")
    assert "2 of 3 attempts agree on this answer" in result.warnings
    assert [citation.verified for citation in result.citations] == [True]
    assert sum(usage.calls for usage in result.usage) == 3
    assert result.rounds == 3
    async with Journal.open(run.store) as journal:
        events = await journal.events(result.run_id)
    ended = [event.data["result"]["answer"] for event in events if event.kind == "part_ended"]
    assert sorted(ended) == ["300 euros", "940 Euros.", "940 euros"]


async def test_without_agreement_a_warning_says_so(rlm_of, block) -> None:
    rlm = rlm_of(ScriptedModel.of(root=roots(block, "one", "two", "three")))
    result = await answer_in_attempts(rlm, "What?", TEXT, attempts=3)
    assert "1 of 3 attempts agree on this answer" in result.warnings


async def test_what_no_attempt_can_do_is_raised_as_it_is(run) -> None:
    model = ScriptedModel.of(direct=["x"] * 3, window=ModelWindow(context=4_000, output=500))
    rlm = RLM(model, settings=Settings(strategy="direct", sandbox=run.level, store=run.store))
    with pytest.raises(UsageError, match="do not fit one prompt"):
        await answer_in_attempts(rlm, "What?", "word " * 20_000, attempts=3)


async def test_attempts_share_the_limits(rlm_of, block, run) -> None:
    numbers = itertools.count()
    rlm = rlm_of(ScriptedModel.of(root=lambda _: block(f"x = {next(numbers)}")), tokens=400_000, rounds=3)
    result = await answer_in_attempts(rlm, "What?", TEXT, attempts=4)
    assert (result.answer, result.stop_reason) == (None, "rounds")
    async with Journal.open(run.store) as journal:
        events = await journal.events(result.run_id)
    assert {event.data["limits"]["tokens"] for event in events if event.kind == "part"} == {100_000}


async def test_choices_and_typed_answers_take_attempts(rlm_of, block) -> None:
    rlm = rlm_of(ScriptedModel.of(root=roots(block, "B", "A", "A")))
    answered = await ask(rlm, "What costs 940?", TEXT, choices=["a crane", "a barge"], attempts=3)
    assert (answered.choice, answered.result.answer) == ("A", "A: a crane")


async def test_an_ended_job_of_attempts_is_returned_without_a_call(rlm_of, block) -> None:
    rlm = rlm_of(ScriptedModel.of(root=roots(block, "940", "940")))
    result = await answer_in_attempts(rlm, "What?", TEXT, attempts=2)
    again = rlm_of(ScriptedModel.of())
    assert (await resume_attempts(again, result.run_id)).answer == "940"


async def test_a_wrong_number_is_refused(rlm_of) -> None:
    with pytest.raises(UsageError, match="give 2 to 20"):
        await answer_in_attempts(rlm_of(ScriptedModel.of()), "What?", TEXT, attempts=1)


async def test_the_choice_prefers_verified_citations_then_confidence(run, block) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 3)\nfinalize('a', 'low', ['one two'])")])
    cited = replace(await run(model), confidence="low")
    uncited = replace(cited, citations=(), confidence="high")
    sure = replace(cited, confidence="high")

    def chosen(*results: RunResult) -> RunResult | None:
        choice = choose(results)
        return choice and choice.result

    assert chosen(uncited, cited) is cited
    assert chosen(cited, sure) is sure
    assert choose([replace(cited, answer=None)]) is None
    other = replace(sure, answer="b")
    assert chosen(other, cited, uncited) is cited
