"""Test which answers `finalize` refuses, and which warnings an accepted answer carries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlm.accounting.coverage import CoverageLedger
from rlm.answers import finalization, quote_places
from rlm.answers.answer_type import AnswerType
from rlm.answers.finalization import FinalizePolicy, Finalizer
from rlm.results import ClaimSupport, Support
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.types import Finalization, Span

FIRST = FinalizePolicy()
WARNED = FinalizePolicy(warned=True)
TEXT = "The lease ends in 2031.\nThe rent is 900 a month.\n"


@pytest.fixture
def finalizer(tmp_path: Path) -> Iterator[Finalizer]:
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a.txt")
        writer.write(TEXT)
        body = writer.finish().open()
    ledger = CoverageLedger(body.chars)
    ledger.note("scanned", [Span(0, body.chars)])
    with body:
        yield Finalizer(body, ledger)


async def test_marks_that_point_at_nothing_are_refused_once_and_then_reported(finalizer: Finalizer) -> None:
    """The first refusal warns. After it, the warning goes with the answer."""
    final = Finalization("It ends in 2031 [1], says [4].", None, (Span(0, 23),))
    first = await finalizer.judge(final, FIRST)
    assert (first.verdict.accepted, first.warns) == (False, True)
    assert (
        "the answer points with [4] at no piece of evidence (evidence has 1 of them)" in first.verdict.reason
    )
    assert (await finalizer.judge(final, WARNED)).verdict.accepted
    assert finalizer.answer is not None
    assert finalizer.answer.warnings == (
        "the answer points with [4] at no piece of evidence (evidence has 1 of them)",
    )
    assert [citation.marker for citation in finalizer.answer.citations] == ["[¹]"]


async def test_evidence_that_does_not_stand_is_refused_once_and_then_marked(finalizer: Finalizer) -> None:
    final = Finalization("It ends in 2032.", None, ("The lease ends in 2032.",))
    first = await finalizer.judge(final, FIRST)
    assert (first.verdict.accepted, first.warns) == (False, True)
    assert "1 of 1 pieces of evidence were not found in the input as given" in first.verdict.reason
    assert (await finalizer.judge(final, WARNED)).verdict.accepted
    assert finalizer.answer is not None
    assert [citation.verified for citation in finalizer.answer.citations] == [False]


async def test_in_the_last_round_nothing_is_refused_for_its_evidence(finalizer: Finalizer) -> None:
    final = Finalization("x [9]", None, (Span(0, 5), "y z y z"))
    assert (await finalizer.judge(final, FinalizePolicy(last_round=True))).verdict.accepted


async def test_an_input_that_was_not_looked_at_is_refused_unless_an_earlier_question_did(
    finalizer: Finalizer,
) -> None:
    unread = Finalizer(finalizer._body, CoverageLedger(finalizer._body.chars))
    refused = await unread.judge(Finalization("x"), FinalizePolicy(last_round=True))
    assert (refused.verdict.accepted, refused.warns) == (False, False)
    assert (await unread.judge(Finalization("x"), FinalizePolicy(looked_before=True))).verdict.accepted


@pytest.mark.parametrize("value", [None, "", " \n"])
async def test_nothing_is_no_answer(finalizer: Finalizer, value: str | None) -> None:
    """A run without an answer says so; an empty value does not count as one."""
    verdict = (await finalizer.judge(Finalization(value), FIRST)).verdict
    assert not verdict.accepted
    assert "begins with `Not in the documents:`" in verdict.reason
    assert finalizer.answer is None
    assert (await finalizer.judge(Finalization([]), FIRST)).verdict.accepted


async def test_nothing_is_an_answer_where_the_type_allows_it(finalizer: Finalizer) -> None:
    typed = Finalizer(finalizer._body, finalizer._coverage, AnswerType({"type": ["string", "null"]}))
    assert (await typed.judge(Finalization(None), FIRST)).verdict.accepted


@pytest.mark.parametrize("quote", ["T", "the", "ends in"])
async def test_a_quote_that_proves_nothing_is_refused_once(finalizer: Finalizer, quote: str) -> None:
    """It is told apart from a quote that is not there."""
    final = Finalization("It ends in 2031.", None, (quote, "The lease ends in 2032."))
    first = (await finalizer.judge(final, FIRST)).verdict
    weak = quote != "ends in"
    assert ("too short or too common to prove anything" in first.reason) == weak
    assert "1 of 2 pieces of evidence were not found" in first.reason
    assert (await finalizer.judge(final, WARNED)).verdict.accepted
    assert finalizer.answer is not None
    assert [citation.verified for citation in finalizer.answer.citations] == [not weak, False]


async def test_a_quote_that_was_not_looked_up_in_time_is_a_warning_of_the_answer(
    finalizer: Finalizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unverified and says so; the user learns why."""
    monkeypatch.setattr(quote_places, "SEARCH_SECONDS", -1.0)
    monkeypatch.setattr(quote_places, "_MOMENT", -1.0)
    final = Finalization("It ends in 2031.", None, ("The lease ends in 2031.",))
    refused = (await finalizer.judge(final, FIRST)).verdict
    assert "not looked up in time" in refused.reason
    assert "not found" not in refused.reason
    assert (await finalizer.judge(final, WARNED)).verdict.accepted
    assert finalizer.answer is not None
    assert not finalizer.answer.citations[0].verified
    assert "1 quotes were not looked up in time" in finalizer.answer.warnings[0]


async def test_a_quote_that_is_too_long_is_told(finalizer: Finalizer) -> None:
    refused = (await finalizer.judge(Finalization("x", None, ("lease " * 1_000,)), FIRST)).verdict
    assert "1 quotes are too long to be looked up" in refused.reason


async def test_a_value_is_bounded(finalizer: Finalizer) -> None:
    refused = (await finalizer.judge(Finalization("x" * 1_000_001), WARNED)).verdict
    assert not refused.accepted
    assert "1,000,000 are the limit" in refused.reason


async def test_concurrent_calls_are_judged_one_after_another(
    finalizer: Finalizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many threads of a cell call it, a run makes one search at a time; the first answer wins."""
    running = most = 0
    original = finalization.cite

    async def cite(*args, **options):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return await original(*args, **options)

    monkeypatch.setattr(finalization, "cite", cite)
    finals = [Finalization(f"answer {number}", None, (Span(0, 23),)) for number in range(12)]
    judged = await asyncio.gather(*(finalizer.judge(final, FIRST) for final in finals))
    assert all(judgement.verdict.accepted for judgement in judged)
    assert most == 1
    assert finalizer.answer is not None
    assert finalizer.answer.value == "answer 0"


async def test_a_gate_that_an_answer_did_not_pass_says_so(finalizer: Finalizer) -> None:
    async def check(value: object, citations: object) -> Support:
        return Support((ClaimSupport("It ends in 2032.", (1,), "unsupported", "model", "it says 2031"),))

    strict = Finalizer(finalizer._body, finalizer._coverage, check_support=check)
    final = Finalization("It ends in 2032 [1].", None, (Span(0, 23),))
    first = await strict.judge(final, FIRST)
    assert (first.verdict.accepted, first.warns) == (False, True)
    assert (await strict.judge(final, WARNED)).verdict.accepted
    assert {gate.name: gate.passed for gate in strict.gates(has_answer=True)}["support"] is False
