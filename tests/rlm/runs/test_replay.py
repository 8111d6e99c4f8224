"""Test replays from the journal alone: byte-equal answers, and no model calls."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rlm import Limits, RunResult, Settings
from rlm.errors import JournalError, ModelRejected, ModelUnavailable, UsageError
from rlm.journal import Journal
from rlm.models.base import Message, Reply, Request
from rlm.models.offline.journal_replay import ReplayModel
from rlm.replay import Replayed, replay
from rlm.testing import ScriptedModel

BODY = "".join(f"Line {number} says {number * 37 % 101}.\n" for number in range(400))


async def replay_run(run, result: RunResult) -> Replayed:
    return await replay(result.run_id[:-1], store=run.store, settings=Settings(sandbox=run.level))


def child(request):
    """Answer as a child: some calls fail, some are truncated, the rest depend on the prompt."""
    text = "".join(piece.text for piece in request.slices)
    if "Line 40 " in text:
        return ModelUnavailable("no answer")
    if "Line 200 " in text:
        return Reply("cut", finish_reason="length")
    return f"{request.task}: {len(text)} {sum(map(ord, text))}"


@pytest.fixture
def eventful(block) -> ScriptedModel:
    """Write a run with most of the things that can happen in one."""
    return ScriptedModel.of(
        root=[
            "No code here.",
            "Let me see.\n" + block("import random, time\nx = [random.random(), time.time()]\nprint(x)"),
            block("parts = chunk(max_chars=1_500)\nsaid = sub_query_batch('q', parts)\nprint(said.failed)"),
            block("again = sub_query_batch('q', parts)\nsamples = [str(sub_query('s', (0, 9), sample=n)) "
                  "for n in range(2)]\nleft = evaluate_progress()['limits']['seconds']['left']"),
            block("import os; os._exit(1)"),
            block("1 / 0"),
            block("order = list({str(one) for one in said})\n"
                  "finalize({'said': [str(one) for one in said], 'failed': again.failed, 'order': order, "
                  "'samples': samples, 'chance': x[0], 'left': left}, confidence='low', evidence=[(0, 20)])"),
        ],
        child=child,
    )  # fmt: skip


async def test_a_run_is_replayed_byte_by_byte(run, eventful) -> None:
    """The replay is offline, and its answer is byte-equal."""
    result = await run(eventful, BODY)
    assert result.answer["failed"]
    before = await everything(run.store)
    asked = len(eventful.requests)
    again = await replay_run(run, result)
    assert again.equal
    assert json.dumps(again.result.answer) == json.dumps(result.answer)
    assert (again.result.citations, again.result.confidence) == (result.citations, "low")
    assert (again.result.rounds, again.result.usage, again.recorded) == (7, result.usage, result)
    assert again.result.coverage == result.coverage
    assert len(eventful.requests) == asked
    assert await everything(run.store) == before


async def everything(store: Path) -> list[object]:
    async with Journal.open(store) as journal:
        runs = await journal.runs(limit=None)
        return [runs, [await journal.events(run.run_id) for run in runs]]


@pytest.mark.parametrize(
    ("replies", "limits", "stop"),
    [
        (["words"] * 3, Limits(), "contract_violation"),
        (["```repl\nx = 1\n```"] * 4, Limits(max_rounds=4), "rounds"),
        (["```repl\nimport os; os._exit(1)\n```"] * 3, Limits(), "kernel"),
    ],
)
async def test_a_run_without_an_answer_has_none_again(run, replies, limits, stop) -> None:
    """The stop reason is the same."""
    result = await run(ScriptedModel.of(root=replies), limits=limits)
    again = await replay_run(run, result)
    assert again.equal
    assert (again.result.answer, again.result.stop_reason) == (None, stop)


async def test_a_forced_answer_is_forced_again(run, block) -> None:
    model = ScriptedModel.of(root=[block("x = 1"), block("peek(0, 1)\nfinalize(x)")])
    again = await replay_run(run, await run(model, limits=Limits(max_rounds=2)))
    assert again.equal
    assert again.result.forced


async def test_a_direct_answer_is_replayed(run) -> None:
    direct = 'Two.\n\nEvidence:\n"one two three"'
    result = await run(ScriptedModel.of(direct=[direct]), settings=Settings(strategy="direct"))
    again = await replay_run(run, result)
    assert again.equal
    assert (again.result.answer, again.result.strategy) == ("Two.", "direct")


async def test_a_journal_that_was_changed_gives_another_answer(run, block) -> None:
    """A replay computes the answer from what the cells got; it does not repeat the journalled one."""
    model = ScriptedModel.of(root=[block("finalize(str(sub_query('q', (0, 3))))")], child="yes")
    result = await run(model)
    with closing(sqlite3.connect(run.store)) as database, database:
        database.execute('UPDATE events SET data = replace(data, \'"text":"yes"\', \'"text":"no"\')')
    database.close()
    again = await replay_run(run, result)
    assert not again.equal
    assert again.result.answer == "no"


async def test_a_run_that_has_not_ended_is_not_replayed(run, block) -> None:
    """One line names the remedy."""
    result = await run(ScriptedModel.of(root=ModelUnavailable("down")))
    with pytest.raises(UsageError, match="rlm resume"):
        await replay_run(run, result)


async def test_a_run_serves_as_a_model(run, eventful) -> None:
    """replay:RUN serves the replies of a run to another one."""
    result = await run(eventful, BODY)
    again = await run(f"replay:{result.run_id[:-2]}", BODY)
    assert again.run_id != result.run_id
    assert again.answer["said"] == result.answer["said"]
    assert again.answer["samples"] == result.answer["samples"]
    assert {usage.model for usage in again.usage} == {f"replay:{result.run_id}"}
    assert [usage.cost_usd for usage in again.usage] == [0.0]


async def test_a_run_with_sub_rlms_serves_as_a_model(run, block) -> None:
    """Each root of the tree has its own rounds. Roots with the same task are told apart by their prompts."""
    codes = {
        "top": "peek(0, 1)\na = sub_rlm(['inner'] * 3, [(0, 9), (9, 30), (30, 40)])\n"
        "b = sub_rlm('other', (0, 5))",
        "inner": "n = context_meta().chars",
        "other": "finalize('other ' + peek(0, 3))",
    }

    def root(request) -> str:
        if request.round == 1:
            return block(codes[request.task])
        if request.task == "top":
            return block("finalize([str(one) for one in a] + [str(b)])")
        return block(f"peek(0, 1)\nfinalize(f'{{n}} {len(request.messages)}')")

    result = await run(ScriptedModel.of(root=root), BODY, task="top")
    assert result.answer == ["9 4", "21 4", "10 4", f"other {BODY[:3]}"]
    again = await run(f"replay:{result.run_id}", BODY, task="top")
    assert (again.answer, again.stop_reason) == (result.answer, "finalized")
    # A sub-RLM that begins differently never gets the blocks of the root.
    model = ReplayModel.of(result.run_id, run.store)
    other = (Message("system", "rules"), Message("user", "another input"))
    asked = Request("root", other, 100, "top", round=1)
    assert (await model.generate(asked)).text == block(codes["top"])
    with pytest.raises(ModelRejected, match="has no reply to this root call"):
        await model.generate(replace(asked, task="inner"))


async def test_a_replaying_model_refuses_what_it_does_not_know(run, block) -> None:
    """Another input has other calls. One line says so, and nothing is guessed."""
    result = await run(ScriptedModel.of(root=[block("finalize(str(sub_query('q', (0, 3))))")], child="yes"))
    other = await run(f"replay:{result.run_id}", "another text")
    assert (other.answer, other.stop_reason) == (None, "model")
    assert "has no reply to this root call" in other.warnings[-1]
    with pytest.raises(JournalError, match="no run in"):
        await run("replay:nonesuch")
