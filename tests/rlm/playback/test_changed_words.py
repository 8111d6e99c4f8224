"""Test that runs are resumed and replayed after a release has changed the words of a child's prompt."""

from __future__ import annotations

import asyncio

import pytest

from rlm import RLM, Settings
from rlm.errors import ModelRejected
from rlm.journal import Journal
from rlm.prompts.recipes import child, root
from rlm.prompts.templates import table, words
from rlm.replay import replay
from rlm.testing import ScriptedModel

TEXT = "one two three four\n"


@pytest.fixture
def reword(monkeypatch: pytest.MonkeyPatch):
    """Change the words around the question of every child and direct call."""

    def change() -> None:
        monkeypatch.setattr(child, "words", lambda name: f"{words(name)}\n- Be brief.")
        monkeypatch.setattr(child, "table", lambda name: {**table(name), "task": "Your task:"})

    return change


@pytest.fixture
def leave(run):
    """Run until the root waits for a reply that never comes, cancel it, return its name."""

    async def leave(*roots: str, child: list) -> str:
        waiting = asyncio.Event()

        async def stop(_request: object) -> str:
            waiting.set()
            await asyncio.Event().wait()
            return ""

        running = asyncio.ensure_future(run(ScriptedModel.of(root=[*roots, stop], child=child), TEXT))
        await asyncio.wait_for(waiting.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with Journal.open(run.store) as journal:
            (summary, *_) = await journal.runs()
            return summary.run_id

    return leave


@pytest.fixture
def resume(run):
    async def resume(model: ScriptedModel, run_id: str):
        rlm = RLM(model, settings=Settings(sandbox=run.level, store=run.store))
        try:
            return await rlm.resume(run_id)
        finally:
            await rlm.aclose()

    return resume


ASKS = """\
a = [str(one) for one in sub_query_batch('Which?', [(0, 3), 'a text of the cell', 'another'])]
b = str(sub_query('How many?', (4, 7), schema={'type': 'integer'}))
c = [str(sub_query('Again?', (0, 3), sample=n)) for n in (0, 1)]
d = sub_query_batch('Down?', [(8, 13)])[0]
print(a, b, c, d.error_type)
"""


class Answers:
    """Gives a different reply to every question, text and try, so that a wrong match shows."""

    def __init__(self) -> None:
        self.counted = 0

    def __call__(self, request) -> str:
        if request.task == "Down?":
            raise ModelRejected("the provider is down")
        if request.task == "How many?":
            self.counted += 1
            return "two" if self.counted == 1 else "2"
        return f"{request.task} {request.slices[0].text} {request.sample}"


EXPECTED = [
    ["Which? one 0", "Which? a text of the cell 0", "Which? another 0"],
    "2",
    ["Again? one 0", "Again? one 1"],
    "model",
]


async def test_a_resumed_run_asks_nothing_again(leave, resume, reword, block) -> None:
    """It has spans, texts of the cell, a schema with a second try, samples, and a failure."""
    run_id = await leave(block(ASKS), child=Answers())
    reword()
    model = ScriptedModel.of(root=[block("finalize([a, b, c, d.error_type])")])
    result = await resume(model, run_id)
    assert result.answer == EXPECTED
    assert [request.role for request in model.requests] == ["root"]


async def test_a_resumed_root_is_sent_the_words_of_then(leave, resume, block, monkeypatch) -> None:
    """A provider's cache stays valid, and a root is not told two things."""
    run_id = await leave(block("a = peek(0, 3)\nprint(a)"), child=[])
    monkeypatch.setattr(root, "words", lambda name: f"{words(name)} Other words.")
    model = ScriptedModel.of(root=[block("finalize(a)")])
    assert (await resume(model, run_id)).answer == "one"
    (request,) = model.requests
    assert "Other words." not in request.messages[0].content
    assert [one.role for one in request.messages] == ["system", "user", "assistant", "user"]


async def test_a_run_is_replayed(run, reword, block) -> None:
    model = ScriptedModel.of(root=[block(ASKS + "finalize([a, b, c, d.error_type])")], child=Answers())
    result = await run(model, TEXT)
    assert result.answer == EXPECTED
    reword()
    replayed = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert replayed.equal, replayed.result.warnings
    assert replayed.result.stop_reason == "finalized"


async def test_a_different_question_is_still_asked(leave, resume, reword, block) -> None:
    """Another text, another span or another schema gets no reply of an earlier question."""
    run_id = await leave(block("a = str(sub_query('Which?', (0, 3)))"), child=Answers())
    reword()
    asks = (
        "b = [str(sub_query(q, s)) for q, s in [('Which one?', (0, 3)), ('Which?', (4, 7)), ('Which?', 'x')]]"
    )
    model = ScriptedModel.of(root=[block(f"{asks}\nfinalize([a, *b])")], child=Answers())
    result = await resume(model, run_id)
    assert result.answer == ["Which? one 0", "Which one? one 0", "Which? two 0", "Which? x 0"]
    assert [request.role for request in model.requests] == ["root", "child", "child", "child"]


async def test_a_block_that_was_left_in_the_middle_pays_nothing_again(run, resume, reword, block) -> None:
    """Its replies are found by what was asked, and not by the words around it."""
    reached = asyncio.Event()

    answers = Answers()

    async def child(request) -> str:
        if request.task == "Last?":
            reached.set()
            await asyncio.Event().wait()
        return answers(request)

    asks = ASKS.replace(", d.error_type", "").replace("d = sub_query_batch('Down?', [(8, 13)])[0]\n", "")
    code = block(asks + "d = str(sub_query('Last?', (8, 13)))\nfinalize([a, b, c, d])")
    running = asyncio.ensure_future(run(ScriptedModel.of(root=[code], child=child), TEXT))
    await asyncio.wait_for(reached.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with Journal.open(run.store) as journal:
        (summary, *_) = await journal.runs()
    reword()
    model = ScriptedModel.of(child="three")
    result = await resume(model, summary.run_id)
    assert result.answer == [*EXPECTED[:-1], "three"]
    assert [request.task for request in model.requests] == ["Last?"]
