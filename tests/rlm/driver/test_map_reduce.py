"""Test the strategy map-reduce: parts, notes, merges, verified quotes, limits, fallbacks and resuming."""

from __future__ import annotations

import asyncio

import pytest

from rlm import RLM, Limits, Settings
from rlm.documents import TextSource
from rlm.errors import ModelUnavailable
from rlm.events import RunStarted, Violated
from rlm.models.base import ModelWindow
from rlm.testing import ScriptedModel

FACT = "The crane of the northern yard costs 940 euros a day."
FILLER = "".join(f"Line {n} of the minutes says nothing of weight.\n" for n in range(400))
TEXT = f"{FILLER}{FACT}\n{FILLER}"
MAP_REDUCE = Settings(strategy="map-reduce")
SMALL = ModelWindow(2_048, 512)
QUOTED = f'940 euros a day.\n\nEvidence:\n"{FACT}"'


def read_part(request) -> str:
    """Play a child: the fact with its quote, if it is in the part."""
    return f'- The price is 940 euros: "{FACT}"' if FACT in request.messages[-1].content else "NOT_FOUND"


async def test_every_part_is_read_and_one_call_answers_from_the_notes(run) -> None:
    model = ScriptedModel.of(child=read_part, direct=QUOTED)
    result = await run(model, TEXT, task="What does the crane cost?", settings=MAP_REDUCE)
    assert (result.answer, result.strategy, result.stop_reason) == (
        "940 euros a day.",
        "map-reduce",
        "finalized",
    )
    assert [citation.verified for citation in result.citations] == [True]
    assert TEXT[result.citations[0].start : result.citations[0].end] == FACT
    assert result.coverage.complete
    assert result.rounds == 0
    assert [event.strategy for event in run.seen(RunStarted)] == ["map-reduce"]


async def test_it_works_in_a_window_of_2048_tokens(run) -> None:
    """Every prompt fits with room for its reply, and no part is lost at a border."""
    model = ScriptedModel.of(child=read_part, direct=QUOTED, window=SMALL)
    result = await run(model, TEXT, task="What does the crane cost?", settings=MAP_REDUCE)
    assert result.answer == "940 euros a day."
    assert result.coverage.complete
    assert result.sub_calls > 15
    assert all(
        sum(len(message.content) for message in request.messages) / 4 + request.max_output_tokens < 2_048
        for request in model.requests
    )


async def test_many_notes_are_merged_level_by_level(run) -> None:
    """Notes that fit no prompt are merged by children until they do."""
    note = f'- A long note on the price, as the clerk wrote it down: "{FACT}" ' + "and so on " * 40

    def child(request) -> str:
        return f'- "{FACT}"' if "notes were taken" in request.messages[-1].content else note

    model = ScriptedModel.of(child=child, direct=QUOTED, window=SMALL)
    result = await run(model, TEXT, task="What does the crane cost?", settings=MAP_REDUCE)
    assert result.answer == "940 euros a day."
    merges = [one for one in model.requests if "notes were taken" in one.messages[-1].content]
    assert len(merges) > 3


async def test_the_notes_quotes_stand_in_for_those_the_reply_lacks(run) -> None:
    """The answer was paid for and its sources are known, so it is given with low confidence."""
    model = ScriptedModel.of(child=read_part, direct="940 euros a day.")
    result = await run(model, TEXT, task="What does the crane cost?", settings=MAP_REDUCE)
    assert (result.answer, result.confidence) == ("940 euros a day.", "low")
    assert [(citation.quote, citation.verified) for citation in result.citations] == [(FACT, True)]
    assert "from the notes" in result.warnings[-1]


async def test_without_any_verified_quote_there_is_no_answer(run) -> None:
    """The reply is shown, because it was paid for."""
    model = ScriptedModel.of(child="The text tells a story.", direct="It is another story.")
    result = await run(model, TEXT, settings=MAP_REDUCE)
    assert (result.answer, result.stop_reason) == (None, "unverified")
    assert "It is another story." in result.warnings[-1]


async def test_a_reply_that_repeats_its_prompt_is_no_answer(run) -> None:
    """Very small models give the instructions back."""
    echo = "You are a careful reader. You get one task and a slice of a longer text, and you answer from it."
    result = await run(ScriptedModel.of(direct=echo), FACT, settings=Settings(strategy="direct"))
    assert (result.answer, result.stop_reason) == (None, "invalid_reply")
    result = await run(ScriptedModel.of(child=read_part, direct=echo), TEXT, settings=MAP_REDUCE)
    assert (result.answer, result.stop_reason) == (None, "invalid_reply")


async def test_nothing_found_is_said_without_a_last_call(run) -> None:
    model = ScriptedModel.of(child="NOT_FOUND")
    result = await run(model, TEXT, settings=MAP_REDUCE)
    assert (result.found, result.stop_reason) == (False, "not_found")
    assert {request.role for request in model.requests} == {"child"}


async def test_failed_parts_are_named(run) -> None:
    def child(request) -> str | Exception:
        return read_part(request) if FACT in request.messages[-1].content else ModelUnavailable("down")

    model = ScriptedModel.of(child=child, direct=QUOTED, window=SMALL)
    result = await run(model, TEXT, settings=MAP_REDUCE)
    assert (result.answer, result.confidence) == ("940 euros a day.", "low")
    assert "parts failed" in result.warnings[-1]


@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(max_calls=5), "sub_calls"), (Limits(max_total_tokens=3_000), "tokens")]
)
async def test_limits_hold_before_anything_is_spent(run, limits, reason) -> None:
    model = ScriptedModel.of(child=read_part, direct=QUOTED, window=SMALL)
    result = await run(model, TEXT, settings=MAP_REDUCE, limits=limits)
    assert result.answer is None
    assert model.requests == []
    assert result.warnings


async def test_a_typed_answer_is_read(run) -> None:
    model = ScriptedModel.of(child=read_part, direct=f'940\n\nEvidence:\n"{FACT}"')
    result = await run(model, TEXT, settings=MAP_REDUCE, schema={"type": "integer"})
    assert result.answer == 940


async def test_auto_falls_back_after_two_violations(run) -> None:
    """The rounds end, and the run goes on without code. The warning names both."""
    model = ScriptedModel.of(root="I can not write code.", child=read_part, direct=QUOTED)
    long = TEXT * 4
    result = await run(model, long, task="What does the crane cost?", settings=Settings())
    assert (result.answer, result.strategy) == ("940 euros a day.", "map-reduce")
    assert len(run.seen(Violated)) == 2
    assert "fell back to map-reduce" in " ".join(result.warnings)


async def test_auto_falls_back_when_the_root_never_finalizes(run, block) -> None:
    blocks = [block(f"x = {n}") for n in range(9)]
    model = ScriptedModel.of(root=blocks, child=read_part, direct=QUOTED)
    result = await run(
        model, TEXT * 4, task="What does the crane cost?", settings=Settings(), limits=Limits(max_rounds=4)
    )
    assert (result.answer, result.strategy) == ("940 euros a day.", "map-reduce")


async def test_the_strategy_rlm_never_falls_back(run) -> None:
    model = ScriptedModel.of(root="I can not write code.", child=read_part, direct=QUOTED)
    result = await run(model, TEXT)
    assert (result.answer, result.stop_reason, result.rounds) == (None, "contract_violation", 3)


async def test_a_fallback_without_an_answer_ends_as_the_rounds_did(run) -> None:
    model = ScriptedModel.of(root="I can not write code.", child="NOT_FOUND")
    result = await run(model, TEXT * 4, settings=Settings())
    assert (result.answer, result.stop_reason, result.strategy) == (None, "contract_violation", "rlm")


async def test_auto_takes_map_reduce_for_a_small_window(run) -> None:
    model = ScriptedModel.of(child=read_part, direct=QUOTED, window=ModelWindow(8_000, 1_000))
    result = await run(model, TEXT * 4, task="What does the crane cost?", settings=Settings())
    assert result.strategy == "map-reduce"


async def test_auto_computes_counts_over_records(run, block) -> None:
    """A short table would fit one call, but a model that reads it miscounts."""
    rows = "".join(f'{{"id": {n}, "state": "{"open" if n % 3 else "closed"}"}}\n' for n in range(100))
    code = "n = sum(r.value['state'] == 'open' for r in read_records())\nfinalize(n)"
    source = [TextSource("cards.jsonl", rows, "jsonl")]
    model = ScriptedModel.of(root=block(code), direct=f'66\n\nEvidence:\n"{rows.splitlines()[1]}"')
    result = await run(model, source, task="How many cards are open?", settings=Settings())
    assert (result.answer, result.strategy) == (66, "rlm")
    result = await run(model, source, task="What is the state of card 1?", settings=Settings())
    assert result.strategy == "direct"


async def test_an_interrupted_pass_is_resumed_without_paying_twice(run) -> None:
    """The parts that were answered come from the journal."""
    begun: list[int] = []
    stop = asyncio.Event()

    async def child(request) -> str:
        begun.append(1)
        if len(begun) > 10:
            stop.set()
            await asyncio.sleep(60)
        return read_part(request)

    model = ScriptedModel.of(child=child, direct=QUOTED, window=SMALL)
    running = asyncio.ensure_future(
        run(model, TEXT, task="What does it cost?", settings=MAP_REDUCE, limits=Limits(concurrency=2))
    )
    await stop.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    run_id = run.seen(RunStarted)[0].run_id
    again = ScriptedModel.of(child=read_part, direct=QUOTED, window=SMALL)
    settings = Settings(strategy="map-reduce", sandbox=run.level, store=run.store)
    result = await RLM(again, settings=settings).resume(run_id)
    assert result.answer == "940 euros a day."
    asked = sum(request.role == "child" for request in again.requests)
    assert asked == result.sub_calls - 1 - 10
