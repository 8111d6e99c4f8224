"""Test that a caller's check gates the answer, and that a result says what was checked and what it lacks."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from rlm import RLM, Limits, RunResult, Settings
from rlm.errors import AnswerCheckError, ConfigurationError, UsageError
from rlm.replay import replay
from rlm.results import Gate, ProposedAnswer
from rlm.testing import ScriptedModel

LOOK = "peek(0, 3)\n"


def gate(result: RunResult, name: str) -> Gate:
    (found,) = [one for one in result.gates if one.name == name]
    return found


def cited(proposal: ProposedAnswer) -> list[str]:
    return [] if proposal.citations else ["no citation: give evidence"]


async def test_a_refused_answer_goes_back_to_the_root_with_the_words_of_the_check(run, block) -> None:
    model = ScriptedModel.of(
        root=[block(f"{LOOK}finalize('one')"), block("finalize('one', evidence=[(0, 3)])")], child="-"
    )
    result = await run(model, check=cited)
    assert result.answer == "one"
    assert result.rounds == 2
    assert "no citation: give evidence" in model.requests[1].messages[-1].content
    assert gate(result, "check") == Gate("check", True, ("no citation: give evidence",))
    assert gate(result, "evidence").passed
    assert RunResult.from_json(result.to_json()) == result


YARDS = "The southern yard gives notice of one month. The northern crane costs 500 euro a day."
WRONG = "The southern yard gives notice of twelve months and the moon is made of cheese."


async def test_the_claims_of_a_direct_answer_are_checked(run) -> None:
    """There is no round to correct it: the answer stays as it is, and the result says so."""
    reply = f'{WRONG}\n\nEvidence:\n"The southern yard gives notice of one month."'
    answers: list[list[str]] = []
    for check_support in (None, True):
        model = ScriptedModel.of(direct=[reply], check=['{"unsupported": []}'] * 3)
        settings = Settings(strategy="direct")
        result = await run(model, YARDS, settings=settings, check_support=check_support, task="What notice?")
        assert result.answer == WRONG
        assert result.support is not None
        answers.append([request.role for request in model.requests])
        replayed = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
        assert replayed.equal
        assert replayed.result.support == result.support
    assert answers == [["direct"], ["direct", "check"]]


async def test_a_map_reduce_answer_is_checked_and_an_unverified_quote_does_not_pass(
    run,
) -> None:
    text = "".join(f"Line {n}: the yard of town {n} gives notice of {n % 12} months.\n" for n in range(400))
    quote = "the yard of town 1 gives notice of 1 months"
    reply = f'One month. And it is free.\n\nEvidence:\n"{quote}"\n"and the whole crane is free of any charge"'
    model = ScriptedModel.of(child=lambda _: f'It says "{quote}".', direct=lambda _: reply)
    result = await run(model, text, settings=Settings(strategy="map-reduce"))
    assert [one.verified for one in result.citations] == [True, False]
    assert gate(result, "evidence").passed is False
    assert "free of any charge" in gate(result, "evidence").refusals[0]
    assert result.support is not None


async def test_the_schema_gates_a_direct_answer_like_any_other(run) -> None:
    model = ScriptedModel.of(direct='{"n": "three"}\nEvidence:\n"one two three"')
    result = await run(model, "one two three", schema={"n": "int"}, settings=Settings(strategy="direct"))
    assert (result.answer, result.stop_reason) == (None, "invalid_reply")
    assert gate(result, "schema").passed is False
    assert "'three' is not of type 'integer'" in gate(result, "schema").refusals[0]
    assert gate(result, "schema").rejected == {"n": "three"}


async def test_evidence_outside_of_the_text_is_counted_beside_weak_evidence(run, block) -> None:
    final = block("peek(0, 40)\nfinalize('x', evidence=[(10**7, 10**7 + 9), 'the'])")
    model = ScriptedModel.of(root=[final, final])
    await run(model, YARDS)
    told = model.requests[1].messages[-1].content
    assert "1 of 2" in told, told


async def test_a_check_may_be_async_and_sees_the_answer_as_the_callers_type(run, block) -> None:
    class Answer(BaseModel):
        count: int

    seen: list[ProposedAnswer] = []

    async def check(proposal: ProposedAnswer) -> str | None:
        await asyncio.sleep(0)
        seen.append(proposal)
        return None

    code = f"{LOOK}sub_query('q', (0, 3))\nfinalize({{'count': 3}}, confidence='high')"
    await run(ScriptedModel.of(root=[block(code)], child="-"), schema=Answer, check=check)
    (proposal,) = seen
    assert proposal.answer == {"count": 3}
    assert proposal.parsed == Answer(count=3)
    assert (proposal.task, proposal.sub_calls, proposal.coverage.answered_chars) == ("How many?", 1, 3)


async def test_an_answer_that_never_passes_is_none_and_is_kept(run, block) -> None:
    model = ScriptedModel.of(root=lambda _request: block(f"{LOOK}finalize('one')"), child="-")
    result = await run(model, check=lambda proposal: "wrong", limits=Limits(max_rounds=3))
    assert result.answer is None
    assert result.stop_reason == "rounds"
    one = gate(result, "check")
    assert (one.passed, one.refusals, one.rejected) == (False, ("wrong", "wrong", "wrong"), "one")
    assert RunResult.from_json(result.to_json()) == result


async def test_a_check_gates_the_direct_call_too(run, block) -> None:
    """Under auto the run goes on as an RLM. The direct answer is not lost: the warning holds the reason."""
    model = ScriptedModel.of(
        root=[block(f"{LOOK}finalize('two', evidence=[(4, 7)])")],
        direct='one\n\nEvidence:\n- "one"',
        child="-",
    )
    settings = Settings(strategy="auto")
    result = await run(
        model,
        "one two three\n",
        check=lambda one: None if one.answer == "two" else "say two",
        settings=settings,
    )
    assert (result.answer, result.strategy) == ("two", "rlm")
    assert any("say two" in warning for warning in result.warnings)
    alone = await run(model, check=lambda one: "never", settings=Settings(strategy="direct"))
    assert (alone.answer, alone.stop_reason) == (None, "invalid_reply")
    assert gate(alone, "check").rejected


async def test_a_check_that_fails_is_a_typed_error_and_the_run_can_be_resumed(
    sandbox_level, tmp_path, block
) -> None:
    """Nothing that was paid is paid again."""
    settings = Settings(strategy="rlm", sandbox=sandbox_level, store=tmp_path / "rlm.db")
    code = f"{LOOK}r = sub_query('q', (0, 3))\nfinalize(str(r))"
    model = ScriptedModel.of(root=[block(code)], child="three")
    with pytest.raises(AnswerCheckError, match=r"KeyError.*resume") as raised:
        await RLM(model, settings=settings, check=lambda one: {}["a"]).run("q", "one two", run_id="r1")
    assert isinstance(raised.value.__cause__, KeyError)
    other = ScriptedModel.of(root=[], child="-")
    with pytest.raises(UsageError, match="check"):
        await RLM(other, settings=settings).resume("r1")
    result = await RLM(other, settings=settings, check=lambda one: None).resume("r1")
    assert result.answer == "three"
    assert not other.requests
    assert (await replay("r1", store=tmp_path / "rlm.db", settings=settings)).equal


async def test_a_slow_check_is_stopped(run, block) -> None:
    async def check(proposal: ProposedAnswer) -> None:
        await asyncio.sleep(60)

    model = ScriptedModel.of(root=[block(f"{LOOK}finalize('one')")], child="-")
    settings = Settings(strategy="rlm", tool_seconds=0.2)
    with pytest.raises(AnswerCheckError, match=r"0\.2 s"):
        await run(model, check=check, settings=settings)


def test_what_is_no_check_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="check"):
        RLM("extractive", check="no")


async def test_a_clean_run_lacks_nothing(run, block) -> None:
    model = ScriptedModel.of(root=[block(f"{LOOK}finalize('one', evidence=[(0, 3)])")], child="-")
    result = await run(model)
    if run.level >= 2:
        assert result.notes == ()


async def test_what_a_sub_rlm_did_without_is_a_note_of_its_run(run, block) -> None:
    def root(request) -> str:
        if "the sub-task" not in request.messages[1].content:
            return block(f"{LOOK}finalize(str(sub_rlm('the sub-task', (0, 7))))")
        code = "finalize('one')" if request.round > 1 else "import os; os.kill(os.getpid(), 9)"
        return block(f"{LOOK}{code}")

    result = await run(ScriptedModel.of(root=root, child="-"))
    assert result.answer == "one"
    assert ("kernel", "in a sub-RLM: a kernel died and was replaced") in [
        (one.kind, one.text) for one in result.notes
    ]
