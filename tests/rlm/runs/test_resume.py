"""Test runs that are left and resumed in one process."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rlm import RLM, Limits, RunResult, Settings
from rlm.documents import PathSource, StreamSource
from rlm.driver import loop
from rlm.driver.reply_contract import Cell
from rlm.errors import JournalError, ModelUnavailable, UsageError
from rlm.events import Resumed
from rlm.journal import Journal
from rlm.models.base import Reply, TokenUsage
from rlm.testing import ScriptedModel


class Leaver:
    """Leaves runs in the middle, and resumes them."""

    def __init__(self, run) -> None:
        self.run = run
        self.reached = asyncio.Event()

    async def stop(self, _request: object) -> str:
        """Wait for a reply that never comes, until the run is cancelled."""
        self.reached.set()
        await asyncio.Event().wait()
        return ""

    async def leave(
        self, model: ScriptedModel, context: object = "one two three\n", **options: object
    ) -> str:
        """Cancel the run when `stop` is to reply, and return the run's name."""
        return await self._leave(asyncio.ensure_future(self.run(model, context, **options)))

    async def leave_again(self, model: ScriptedModel, run_id: str) -> None:
        await self._leave(asyncio.ensure_future(self.resume(model, run_id)))

    async def _leave(self, running: asyncio.Future[RunResult]) -> str:
        reached = asyncio.ensure_future(self.reached.wait())
        await asyncio.wait([running, reached], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        self.reached.clear()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with Journal.open(self.run.store) as journal:
            (summary, *_) = await journal.runs()
            assert summary.state == "interrupted"
            return summary.run_id

    async def resume(self, model: ScriptedModel, run_id: str, **options: object) -> RunResult:
        settings = Settings(sandbox=self.run.level, store=self.run.store)
        rlm = RLM(model, settings=settings, observe=self.run.events.append, **options)
        try:
            return await rlm.resume(run_id)
        finally:
            await rlm.aclose()


@pytest.fixture
def leaver(run) -> Leaver:
    return Leaver(run)


async def test_an_interrupted_run_resumes_where_it_stopped(leaver, block) -> None:
    """History, variables and children come from the journal. Only what is missing is requested."""
    first = ScriptedModel.of(
        root=[block("a = str(sub_query('q', (0, 3)))\nprint(a)"), block("b = a + '!'"), leaver.stop],
        child=["yes"],
    )
    run_id = await leaver.leave(first)
    second = ScriptedModel.of(root=[block("finalize([a, b])")])
    result = await leaver.resume(second, run_id[:-3])
    assert (result.run_id, result.answer, result.rounds, result.sub_calls) == (run_id, ["yes", "yes!"], 3, 1)
    # The root gets exactly the prompt of an undisturbed run, seconds included.
    assert second.requests[0].messages == first.requests[-1].messages
    assert [(event.rounds, event.replies) for event in leaver.run.seen(Resumed)] == [(2, 1)]
    assert result.coverage.answered_chars == 3


async def charged(leaver: Leaver, run_id: str) -> int:
    """Return the tokens of calls that were cancelled when the run was left: their prompts were sent."""
    async with Journal.open(leaver.run.store) as journal:
        charges = [event.data for event in await journal.events(run_id) if event.kind == "charge"]
    return sum(data["usage"]["input_tokens"] for data in charges if data["error"] == "cancelled")


async def test_what_was_spent_counts_on(leaver, block) -> None:
    """Tokens, calls, rounds and seconds continue from the journal. The prompt of the call that was cut off
    counts, too: the provider charges for it."""
    usage = TokenUsage(1_000, 100)
    first = ScriptedModel.of(
        root=[Reply(block("sub_query('q', (0, 3))\nimport time; time.sleep(0.6)"), usage=usage), leaver.stop],
        child=[Reply("yes", usage=usage)],
    )
    run_id = await leaver.leave(
        first, limits=Limits(max_total_tokens=60_000, max_calls=1, max_rounds=4, max_seconds=100)
    )
    used = "u = {name: line['used'] for name, line in evaluate_progress()['limits'].items()}\n"
    second = ScriptedModel.of(root=[block(used + "peek(0, 1)\nfinalize(u)")])
    result = await leaver.resume(second, run_id, limits=Limits(max_total_tokens=1))
    prompt = await charged(leaver, run_id)
    assert prompt > 1_000
    assert result.answer["tokens"] == 2_200 + prompt
    assert (result.answer["sub_calls"], result.answer["rounds"]) == (1, 2)
    assert result.answer["seconds"] >= 0.6
    assert result.seconds >= 0.6
    (total,) = result.usage
    assert (total.calls, total.input_tokens, total.output_tokens) == (4, 2_000 + prompt, 200)


async def test_what_failed_calls_cost_counts_on(leaver, block) -> None:
    """A provider charges for work before a break, and so does the ledger of a resumed run."""
    usage = TokenUsage(700, 30)
    first = ScriptedModel.of(
        root=[block("b = sub_query_batch('q', [(0, 3), (4, 7)])"), leaver.stop],
        child=ModelUnavailable("cut off", spent=usage),
    )
    run_id = await leaver.leave(first)
    used = "u = {name: line['used'] for name, line in evaluate_progress()['limits'].items()}\n"
    second = ScriptedModel.of(root=[block(used + "peek(0, 1)\nfinalize(u)")])
    result = await leaver.resume(second, run_id)
    prompt = await charged(leaver, run_id)
    assert (result.answer["tokens"], result.answer["sub_calls"]) == (1_460 + prompt, 2)
    (total,) = result.usage
    assert (total.calls, total.input_tokens, total.output_tokens) == (5, 1_400 + prompt, 60)


async def test_a_batch_that_was_half_answered_still_fits_its_limit(leaver, block) -> None:
    """Paid answers do not count twice against the remaining calls."""

    def child(request):
        return leaver.stop(request) if request.task == "q2" else f"to {request.task}"

    batch = block(
        "peek(0, 1)\nsaid = sub_query_map([f'q{n}' for n in range(4)])\nfinalize([str(one) for one in said])"
    )
    limits = Limits(max_calls=4, concurrency=1)
    run_id = await leaver.leave(ScriptedModel.of(root=[batch], child=child), limits=limits)
    again = ScriptedModel.of(child=lambda request: f"to {request.task}")
    result = await leaver.resume(again, run_id)
    assert result.answer == ["to q0", "to q1", "to q2", "to q3"]
    assert [request.task for request in again.requests] == ["q2", "q3"]


async def test_a_failure_in_an_unfinished_block_is_asked_again(leaver, block) -> None:
    """An unfinished block is run anew, and its failed calls may succeed now."""

    def child(request):
        if request.task == "b":
            return leaver.stop(request)
        return ModelUnavailable("down")

    code = block(
        "a = sub_query_batch('a', [(0, 3)])\nb = sub_query_batch('b', [(0, 3)])\nfinalize(str(a[0]))"
    )
    run_id = await leaver.leave(ScriptedModel.of(root=[code], child=child))
    result = await leaver.resume(ScriptedModel.of(child="up"), run_id)
    assert result.answer == "up"


async def test_a_block_that_goes_another_way_is_noted_and_all_is_new_from_there(leaver, block) -> None:
    """A child with another question is a divergence. Everything after it is live, and paid replies stay
    usable.
    """
    code = "import time\nwhen = str(time.time_ns())\nsaid = str(sub_query('at ' + when, (0, 3)))\nprint(said)"
    first = ScriptedModel.of(
        root=[block("kept = str(sub_query('kept', (0, 3)))"), block(code), block("x = 1"), leaver.stop],
        child=lambda request: f"to {request.task}",
    )
    run_id = await leaver.leave(first)
    second = ScriptedModel.of(
        root=[block("finalize([kept, said == 'to at ' + when, 'x' in globals()])")],
        child=lambda request: f"to {request.task}",
    )
    result = await leaver.resume(second, run_id)
    assert result.answer == ["to kept", True, False]
    assert result.rounds == 3
    assert [request.role for request in second.requests] == ["child", "root"]
    assert "its output changed" in second.requests[-1].messages[-1].content
    assert any("changed when it was run again" in warning for warning in result.warnings)
    async with Journal.open(leaver.run.store) as journal:
        assert [event.data for event in await journal.events(run_id) if event.kind == "diverged"] == [
            {"round": 2}
        ]


async def test_a_run_that_went_another_way_can_be_left_again(leaver, block) -> None:
    """The events before the divergence are told apart from those after it."""
    code = block("import time\nsaid = str(sub_query(str(time.time_ns()), (0, 3)))")
    run_id = await leaver.leave(ScriptedModel.of(root=[code, block("x = 'old'"), leaver.stop], child="yes"))
    second = ScriptedModel.of(root=[block("x = 'new'"), leaver.stop], child="yes")
    await leaver.leave_again(second, run_id)
    third = ScriptedModel.of(root=[block("finalize('x' in globals())")], child="yes")
    result = await leaver.resume(third, run_id)
    # The first block diverges each time, so nothing after it is valid.
    assert (result.answer, result.rounds) == (False, 2)
    assert [request.role for request in third.requests] == ["child", "root"]


async def test_a_finished_run_gives_its_result(leaver, block) -> None:
    """Nothing is requested."""
    done = await leaver.run(ScriptedModel.of(root=[block("peek(0, 1)\nfinalize({'a': [1]})")]))
    silent = ScriptedModel.of()
    assert await leaver.resume(silent, done.run_id) == done
    assert silent.requests == []


async def test_a_run_that_its_provider_failed_can_be_resumed(leaver, block) -> None:
    """An outage costs nothing that was paid."""
    failed = await leaver.run(ScriptedModel.of(root=[block("x = 7"), ModelUnavailable("down")]))
    assert failed.stop_reason == "model"
    result = await leaver.resume(ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(x)")]), failed.run_id)
    assert (result.answer, result.rounds, result.stop_reason) == (7, 2, "finalized")


async def test_the_last_round_is_not_repeated(leaver, block) -> None:
    """A run that is left in its last round ends with it."""

    def child(request):
        return leaver.stop(request)

    last = block("peek(0, 1)\na = sub_query_batch('q', [(0, 3)])\nfinalize(str(a[0]))")
    run_id = await leaver.leave(
        ScriptedModel.of(root=[block("x = 1"), last], child=child), limits=Limits(max_rounds=2)
    )
    result = await leaver.resume(ScriptedModel.of(child="yes"), run_id)
    assert (result.answer, result.forced, result.rounds) == ("yes", True, 2)


async def test_a_direct_answer_is_not_paid_again(leaver, block) -> None:
    """The direct call before the rounds is taken from the journal, too."""
    first = ScriptedModel.of(direct=["I can't say."], root=[leaver.stop])
    run_id = await leaver.leave(first, settings=Settings(strategy="auto"))
    second = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")])
    result = await leaver.resume(second, run_id)
    assert (result.answer, result.strategy) == (1, "rlm")
    assert [request.role for request in second.requests] == ["root"]


def as_text(_: Path) -> object:
    return "one two three\n"


def as_stream(_: Path) -> object:
    return StreamSource("stdin", io.BytesIO(b"one two three\n"))


def as_file(folder: Path) -> object:
    (folder / "a.txt").write_text("one two three\n")
    return folder / "a.txt"


@pytest.mark.parametrize("source", [as_text, as_stream, as_file])
async def test_the_input_is_kept_with_the_run(leaver, block, tmp_path, source: Callable) -> None:
    """Strings and standard input end with their process, and files may vanish."""
    run_id = await leaver.leave(ScriptedModel.of(root=[leaver.stop]), source(tmp_path))
    (tmp_path / "a.txt").unlink(missing_ok=True)
    result = await leaver.resume(ScriptedModel.of(root=[block("finalize(peek(0, 3))")]), run_id)
    assert result.answer == "one"


async def test_an_input_that_was_not_kept_is_read_again_and_checked(
    leaver, block, tmp_path, monkeypatch
) -> None:
    """The sha256 of the context must be the same. A changed or missing file is reported."""
    monkeypatch.setattr("rlm.runs.stored_run.MAX_KEPT_FROM_PATHS", 3)
    monkeypatch.setattr("rlm.runs.stored_run.MAX_KEPT_FROM_STREAMS", 3)
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(f"text of {name}\n")
    source = PathSource(folder, exclude=("b*",))
    run_id = await leaver.leave(ScriptedModel.of(root=[leaver.stop]), [source])
    (folder / "a.txt").write_text("another text\n")
    with pytest.raises(UsageError, match=r"has changed since .*texts"):
        await leaver.resume(ScriptedModel.of(), run_id)
    (folder / "a.txt").unlink()
    with pytest.raises(UsageError, match="is gone"):
        await leaver.resume(ScriptedModel.of(), run_id)
    (folder / "a.txt").write_text("text of a.txt\n")
    result = await leaver.resume(ScriptedModel.of(root=[block("finalize(peek(0, 4))")]), run_id)
    assert result.answer == "text"
    run_id = await leaver.leave(ScriptedModel.of(root=[leaver.stop]), "some text")
    with pytest.raises(UsageError, match="was not kept"):
        await leaver.resume(ScriptedModel.of(), run_id)


async def test_events_that_another_rlm_wrote_are_refused(leaver, block) -> None:
    """The error is one line, and comes before any request."""
    run_id = await leaver.leave(ScriptedModel.of(root=[block("x = 1"), leaver.stop]))
    with closing(sqlite3.connect(leaver.run.store)) as database, database:
        database.execute(
            "UPDATE events SET data = json_remove(data, '$.code', '$.result') WHERE kind = 'cell'"
        )
    database.close()
    model = ScriptedModel.of(root=[block("y = 1")])
    with pytest.raises(
        JournalError, match=f"{run_id} can't be read.*KeyError: 'result'.*ask the question again"
    ):
        await leaver.resume(model, run_id)
    assert model.requests == []


async def test_a_cell_runs_as_it_was_read_then_although_replies_are_read_otherwise_now(
    leaver, block, monkeypatch
) -> None:
    """A version that reads replies otherwise repeats the cells that ran, and not its own reading."""
    odd = "Now: <<x = 'as it was'>>"
    monkeypatch.setattr(loop, "parse", lambda text, **_: Cell(text.partition("<<")[2].partition(">>")[0]))
    run_id = await leaver.leave(ScriptedModel.of(root=[odd, leaver.stop]))
    monkeypatch.undo()
    result = await leaver.resume(ScriptedModel.of(root=[block("peek(0, 3)\nfinalize(x)")]), run_id)
    assert result.answer == "as it was"


async def test_another_model_is_refused(leaver) -> None:
    """One model never continues another one's run by mistake."""
    run_id = await leaver.leave(ScriptedModel.of(root=[leaver.stop]))
    with pytest.raises(UsageError, match="begun with model scripted:memory, not extractive"):
        await leaver.resume("extractive", run_id)
    with pytest.raises(JournalError, match="no run in"):
        await leaver.resume(ScriptedModel.of(), "nonesuch")


async def test_warnings_about_the_input_are_repeated(leaver, block) -> None:
    """A stored input is not decoded again, but its warnings stay."""
    odd = StreamSource("stdin", io.BytesIO(b"caf\xe9 \x81 au lait\n" * 20))
    run_id = await leaver.leave(ScriptedModel.of(root=[leaver.stop]), odd)
    result = await leaver.resume(ScriptedModel.of(root=[block("peek(0, 3)\nfinalize(1)")]), run_id)
    assert any("not valid text" in warning for warning in result.warnings)


async def test_a_run_in_postgresql_is_resumed(leaver, block, postgres_url: str) -> None:
    leaver.run.store = postgres_url
    first = ScriptedModel.of(root=[block("a = str(sub_query('q', (0, 3)))"), leaver.stop], child=["yes"])
    run_id = await leaver.leave(first)
    result = await leaver.resume(ScriptedModel.of(root=[block("finalize([a, peek(0, 3)])")]), run_id)
    assert (result.answer, result.sub_calls) == (["yes", "one"], 1)


def _concurrency(block, **codes: str):
    """Return a root that answers by its task, one cell a round."""
    scripts = {task: [block(code) for code in cells] for task, cells in codes.items()}
    return lambda request: scripts[request.task][request.round - 1]


async def test_a_sub_rlm_counts_once_though_it_is_begun_twice(leaver, block) -> None:
    """This holds even if the run was left before its root had replied."""
    codes = {"How many?": ["finalize(str(sub_rlm('inner', (4, 13))))"], "inner": ["finalize(peek(0, 3))"]}
    concurrency = _concurrency(block, **codes)
    first = ScriptedModel.of(
        root=lambda request: leaver.stop(request) if request.task == "inner" else concurrency(request)
    )
    run_id = await leaver.leave(first)
    result = await leaver.resume(ScriptedModel.of(root=concurrency), run_id)
    assert (result.answer, result.sub_calls) == ("two", 1)


async def test_what_the_run_did_without_before_is_still_named(leaver, block) -> None:
    kills = block("import os; os.kill(os.getpid(), 9)")
    run_id = await leaver.leave(ScriptedModel.of(root=[kills, leaver.stop]))
    result = await leaver.resume(ScriptedModel.of(root=[block("finalize('one')")]), run_id)
    assert "kernel" in [one.kind for one in result.notes]
