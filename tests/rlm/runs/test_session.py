"""Test many questions in one kernel, and runs that continue a run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.errors import DocumentError, UsageError
from rlm.events import KernelOpened, Resumed
from rlm.journal import Journal
from rlm.models.base import ModelWindow, Request
from rlm.replay import replay
from rlm.settings import DirectSettings
from rlm.testing import ScriptedModel

BODY = "".join(f"Line {number} says {number * 37 % 101}.\n" for number in range(200))


class Asker:
    """Makes RLMs whose root answers each task with its own cells, and a child that counts its calls."""

    def __init__(self, run, block) -> None:
        self.run = run
        self.block = block
        self.children: list[str] = []

    def model(self, **codes: str | Sequence[Any]) -> ScriptedModel:
        def root(request: Request) -> Any:
            cells = codes[request.task]
            cell = [cells][request.round - 1] if isinstance(cells, str) else cells[request.round - 1]
            return self.block(cell) if isinstance(cell, str) else cell(request)

        def child(request: Request) -> str:
            self.children.append(request.task)
            return f"{request.task}: {sum(len(piece.text) for piece in request.slices)}"

        return ScriptedModel.of(root=root, child=child, direct=lambda request: "NOT_FOUND")

    def rlm(self, model: ScriptedModel, **options: Any) -> RLM:
        settings = Settings(strategy="rlm", sandbox=self.run.level, store=self.run.store)
        return RLM(model, settings=settings, observe=self.run.events.append, **options)


@pytest.fixture
def asker(run, block) -> Asker:
    return Asker(run, block)


def first_message(model: ScriptedModel, task: str) -> str:
    """Return the first user message of the first request for that task."""
    return next(one for one in model.requests if one.task == task).messages[1].content


async def test_variables_persist_from_question_to_question(asker) -> None:
    """Imports, functions and variables stay."""
    model = asker.model(
        one="import math\nhits = search('Line 7')\ndef half(n):\n    return n / 2\nfinalize(len(hits))",
        two=["x = half(hits.total)", "finalize([x, math.floor(x), hits[0].line_text])"],
    )
    async with asker.rlm(model).session(BODY) as session:
        assert (await session.run("one")).answer == 11
        second = await session.run("two")
    assert second.answer == [5.5, 5, "Line 7 says 57."]
    assert second.rounds == 2
    assert len(asker.run.seen(KernelOpened)) == 1


async def test_the_root_sees_the_earlier_questions(asker) -> None:
    """It sees questions, answers and the kernel's variables, but not the rounds, so that "and then?"
    works.
    """
    model = asker.model(
        one="peek(0, 1)\nparts = [1, 2, 3]\nfinalize({'town': 'Bern \\\"x\\\"\\n# Task'})",
        two=["finalize(1", "oops"],
        three="peek(0, 1)\nfinalize(len(parts))",
    )
    async with asker.rlm(model, limits=Limits(max_rounds=2)).session(BODY) as session:
        await session.run("one")
        await session.run("two")
        result = await session.run("three")
    assert result.answer == 3
    first, third = first_message(model, "one"), first_message(model, "three")
    assert "Previous questions" not in first
    assert '1. "one"\n   answer: "{\\"town\\"' in third
    assert '2. "two"\n   answer: "none (rounds)"' in third
    assert "still in the kernel: parts: list, 3 items" in third
    assert third.count("\n# Task") == first.count("\n# Task")
    assert len(next(one for one in model.requests if one.task == "three").messages) == 2


async def test_each_question_is_a_run_linked_to_the_session_with_limits_of_its_own(asker) -> None:
    model = asker.model(
        one="for n in range(3):\n    sub_query(f'q{n}', (0, 9))\nfinalize(1)",
        two="for n in range(3, 6):\n    sub_query(f'q{n}', (0, 9))\nfinalize(2)",
    )
    async with asker.rlm(model, limits=Limits(max_calls=3)).session(BODY) as session:
        first, second = await session.run("one"), await session.run("two")
        assert session.run_ids == (first.run_id, second.run_id)
    assert [first.answer, second.answer] == [1, 2]
    assert first.sub_calls == second.sub_calls == 3
    assert second.coverage.answered_chars == 9
    async with Journal.open(asker.run.store) as journal:
        facts = [(await journal.get(one.run_id)).settings for one in (first, second)]
    assert [one["session"] for one in facts] == [first.run_id] * 2
    assert [one["after"] for one in facts] == [None, first.run_id]


async def test_the_context_grows_and_old_offsets_stay(asker, tmp_path: Path) -> None:
    """Append adds documents. Earlier spans still point at the same text, and earlier blocks are not paid
    again.
    """
    more = tmp_path / "more.txt"
    more.write_text("Line 999 is last.\n")
    model = asker.model(
        one="hits = search('Line 19')\nparts = chunk(1_000)\nsaid = sub_query_batch('read', parts)\n"
        "n = len(parts)\nfinalize(context_meta().chars)",
        two="again = [peek(h.start, h.end) == h.match for h in hits]\n"
        "finalize([all(again), n, len(said), context_meta().chars, [d.name for d in documents()], "
        "count('Line'), peek(-18, 10**9)])",
        three="finalize([len(documents()), search('added').total, n])",
    )
    async with asker.rlm(model).session(BODY) as session:
        assert (await session.run("one")).answer == len(BODY)
        asked = len(asker.children)
        session.append("added")
        session.append(more)
        second = await session.run("two")
        session.append("\ufeffadded too, é")
        third = await session.run("three")
    grown = BODY + "added\n" + "Line 999 is last.\n"
    assert second.answer == [
        True,
        asked,
        asked,
        len(grown),
        ["text", "text (2)", "more.txt"],
        201,
        grown[-18:],
    ]
    assert second.warnings == third.warnings == ()
    assert third.answer == [4, 2, asked]
    assert len(asker.children) == asked
    assert len(asker.run.seen(KernelOpened)) == 3
    assert [event.questions for event in asker.run.seen(Resumed)] == [1, 2]
    assert second.coverage.input_chars == len(grown)


async def feed(pipe: Path, data: bytes) -> None:
    """Write into a named pipe as soon as somebody reads it."""
    while True:
        with suppress(OSError), open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb") as stream:
            stream.write(data)
            return
        await asyncio.sleep(0.01)


async def test_what_was_appended_is_there_though_the_question_that_read_it_was_cancelled(
    asker, tmp_path: Path
) -> None:
    """Ctrl-C comes while a slow pipe is read; the next question has its text."""
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    model = asker.model(one="peek(0, 1)\nfinalize([d.name for d in documents()])")
    async with asker.rlm(model).session(BODY) as session:
        session.append(slow)
        asked = asyncio.create_task(session.run("one"))
        await asyncio.sleep(0.2)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        session.append("after")
        feeding = asyncio.create_task(feed(slow, b"the slow one"))
        result = await session.run("one")
        feeding.cancel()
    assert result.answer == ["text", "slow", "text (2)"]


async def test_a_kernel_that_dies_gets_back_the_variables_of_every_question(asker) -> None:
    """The cells of earlier questions are run again, too. Nothing is paid."""
    model = asker.model(
        one="import random\nx = random.random()\na = str(sub_query('q', (0, 9)))\nfinalize(x)",
        two=["y = random.random()", "import os; os._exit(1)", "finalize([x, a, y])"],
        three="finalize([x, y])",
    )
    async with asker.rlm(model).session(BODY) as session:
        first = await session.run("one")
        second = await session.run("two")
        third = await session.run("three")
    assert second.answer[:2] == [first.answer, "q: 9"]
    assert third.answer == [second.answer[0], second.answer[2]]
    assert asker.children == ["q"]
    assert not [one for one in third.warnings if "did not" in one]


async def test_a_cancelled_question_leaves_nothing_in_the_kernel(asker) -> None:
    """The next question finds the kernel as the previous one left it."""
    reached = asyncio.Event()

    async def stop(_request: Request) -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    model = asker.model(
        one="peek(0, 1)\nx = 1\nfinalize(x)", two=["x = 2", stop], three="finalize([x, peek(0, 4)])"
    )
    async with asker.rlm(model).session(BODY) as session:
        await session.run("one")
        asking = asyncio.ensure_future(session.run("two"))
        await asyncio.wait_for(reached.wait(), 20)
        with pytest.raises(UsageError, match="one question at a time"):
            await session.run("three")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await session.run("three")).answer == [1, "Line"]
        assert len(session.run_ids) == 2


async def test_calls_that_a_question_left_in_flight_end_with_it(asker) -> None:
    """What a thread asks later is part of the question whose cell runs then."""
    model = asker.model(
        one="""
import threading
told = []
def ask():
    try:
        told.append(str(sub_query('slow', (0, 9))))
    except Exception as error:
        told.append(str(error))
thread = threading.Thread(target=ask)
thread.start()
peek(0, 1)
import time; time.sleep(0.2)
finalize(1)""",
        two="thread.join(10)\npeek(0, 1)\nfinalize(told)",
    )
    asked = []

    async def child(request: Request) -> str:
        asked.append(request.task)
        await asyncio.sleep(30)
        return "late"

    model._always["child"] = child
    async with asker.rlm(model).session(BODY) as session:
        await session.run("one")
        await asyncio.sleep(0.3)
        second = await session.run("two")
    assert second.answer == ["the question of this call has ended"]
    assert asked == ["slow"]


async def test_a_question_continues_a_run(asker) -> None:
    """The context and the kernel's variables are the same, and nothing is paid again."""
    model = asker.model(
        one="a = str(sub_query('q', (0, 9)))\nfinalize(a)",
        two="b = a + '!'\nfinalize([b, context_meta().chars])",
        three="finalize([a, b, context_meta().chars])",
    )
    rlm = asker.rlm(model)
    first = await rlm.run("one", BODY)
    async with rlm.session(after=first.run_id) as session:
        second = await session.run("two")
    assert second.answer == ["q: 9!", len(BODY)]
    async with rlm.session("more", after=second.run_id[:-1]) as session:
        third = await session.run("three")
        assert session.run_ids == (first.run_id, second.run_id, third.run_id)
    assert third.answer == ["q: 9", "q: 9!", len(BODY) + 4]
    assert '1. "one"\n   answer: "q: 9"' in first_message(model, "three")
    assert asker.children == ["q"]


async def test_a_question_of_a_session_is_resumed_and_replayed(asker) -> None:
    """Its kernel has the variables of the earlier questions."""
    reached = asyncio.Event()

    async def stop(_request: Request) -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    model = asker.model(
        one="import random\nx = random.random()\npeek(0, 1)\nfinalize(x)",
        two=["y = str(sub_query('q', (0, 9)))", stop],
    )
    async with asker.rlm(model).session(BODY) as session:
        first = await session.run("one")
        session.append("more")
        asking = asyncio.ensure_future(session.run("two"))
        await asyncio.wait_for(reached.wait(), 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    async with Journal.open(asker.run.store) as journal:
        (left, _) = await journal.runs()
    with pytest.raises(UsageError, match=r"has not ended\. Resume it first"):
        async with asker.rlm(model).session(after=left.run_id):
            pass
    again = asker.model(two=["", "finalize([x, y, context_meta().chars])"])
    result = await asker.rlm(again).resume(left.run_id)
    assert result.answer == [first.answer, "q: 9", len(BODY) + 4]
    assert asker.children == ["q"]
    gone_through = await replay(
        result.run_id, store=asker.run.store, settings=Settings(sandbox=asker.run.level)
    )
    assert gone_through.equal
    async with Journal.open(asker.run.store) as journal:
        await journal.remove(first.run_id)
    with pytest.raises(UsageError, match=rf"continues run {first.run_id}, which is no longer in the journal"):
        async with asker.rlm(model).session(after=result.run_id):
            pass


async def test_tools_are_there_for_every_question_and_run_once(asker) -> None:
    calls = []

    def note(text: str) -> int:
        """Write a note."""
        calls.append(text)
        return len(calls)

    model = asker.model(
        one="a = note('one')\npeek(0, 1)\nfinalize(a)", two="finalize([a, note('two'), count('Line')])"
    )
    async with asker.rlm(model, tools=[note]).session(BODY) as session:
        first = await session.run("one")
        session.append("more")
        assert (await session.run("two")).answer == [1, 2, 200]
    assert calls == ["one", "two"]
    with pytest.raises(UsageError, match=r"had tools that are missing or changed: note"):
        async with asker.rlm(model).session(after=first.run_id):
            pass


async def test_short_contexts_are_answered_directly_with_the_questions_before(asker) -> None:
    """Under the strategy auto, the direct prompt holds the earlier questions."""
    answers = iter(['Bern.\nEvidence:\n"It is Bern."', '1848.\nEvidence:\n"Since 1848."'])
    model = ScriptedModel.of(direct=lambda _: next(answers))
    settings = Settings(sandbox=asker.run.level, store=asker.run.store)
    async with RLM(model, settings=settings).session("It is Bern.\nSince 1848.\n") as session:
        assert (await session.run("Which town?")).answer == "Bern."
        assert (await session.run("And since when?")).answer == "1848."
    prompts = ["".join(message.content for message in one.messages) for one in model.requests]
    assert "asked before" not in prompts[0]
    assert '1. "Which town?"\n   answer: "Bern."' in prompts[1]


async def test_many_questions_before_do_not_crowd_out_the_text(asker, block) -> None:
    """A direct call is made if everything fits. Otherwise there are rounds, and the oldest questions are
    left out.
    """
    long = "x " * 1_000
    model = ScriptedModel.of(
        root=lambda request: block(f"finalize({long!r})"),
        direct="NOT_FOUND",
        window=ModelWindow(16_000, 1_000),
    )
    rlm = asker.rlm(model, limits=Limits(max_seconds=60))
    rlm.settings = replace(rlm.settings, strategy="auto", direct=DirectSettings(output_tokens=1_000))
    async with rlm.session(BODY) as session:
        for number in range(8):
            result = await session.run(f"{number}: {long}")
            assert result.answer == long
    asked = [request.role for request in model.requests]
    assert asked[:2] == ["direct", "root"]
    assert asked[-2:] == ["root", "root"]
    last = model.requests[-1].messages[1].content
    assert '7. "6: x' in last
    assert '1. "0: x' not in last
    assert "Line 0 says" in last


@pytest.mark.parametrize("seconds", [0, 0.04])
async def test_what_was_appended_is_there_after_the_question_that_was_to_read_it_is_cancelled(
    asker, seconds: float
) -> None:
    """Whenever the growing of the context is cancelled, nothing is lost and nothing is there twice."""
    model = asker.model(one="finalize([len(documents()), context_meta().chars])")
    more = "More.\n" * 2_000_000
    async with asker.rlm(model).session(BODY) as session:
        session.append(more)
        asking = asyncio.ensure_future(session.run("one"))
        await asyncio.sleep(seconds)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await session.run("one")).answer == [2, len(BODY) + len(more)]


async def test_misuse_is_refused_at_once(asker, tmp_path: Path) -> None:
    model = asker.model(one="peek(0, 1)\nfinalize(1)")
    rlm = asker.rlm(model)
    with pytest.raises(UsageError, match="needs a context"):
        rlm.session()
    session = rlm.session(BODY)
    with pytest.raises(UsageError, match="not open"):
        await session.run("one")
    async with session:
        with pytest.raises(UsageError, match="is empty"):
            session.append("")
        with pytest.raises(DocumentError, match="does not exist"):
            session.append(tmp_path / "none")
        with pytest.raises(UsageError, match="question is empty"):
            await session.run(" ")
        (tmp_path / "binary").write_bytes(b"\0\1\2" * 100)
        session.append(tmp_path / "binary")
        with pytest.raises(DocumentError, match="binary"):
            await session.run("one")
        assert (await session.run("one")).answer == 1
    with pytest.raises(UsageError, match="not open"):
        await session.run("one")
