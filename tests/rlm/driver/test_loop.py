"""Test rounds of a scripted root over a real kernel."""

from __future__ import annotations

import asyncio
import re

import pytest
from driver_processes import kernel_watchers

from rlm import Limits, Settings
from rlm.driver.reply_contract import Cell, parse
from rlm.errors import ModelUnavailable, UsageError
from rlm.events import CellRun, RoundStarted, Violated
from rlm.journal import Journal
from rlm.models.base import Reply, TokenUsage
from rlm.results import RunResult
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel


def feedback_of(model: ScriptedModel, position: int = -1) -> str:
    """Return the last user message of a request."""
    return model.requests[position].messages[-1].content


async def test_an_answer_in_one_round(run, block) -> None:
    """The result holds what the run took."""
    model = ScriptedModel.of(root=[block("finalize(count('two'), confidence='high', evidence=['two'])")])
    result = await run(model, "one two three\n")
    assert (result.answer, result.confidence, result.stop_reason, result.forced) == (
        1,
        "high",
        "finalized",
        False,
    )
    assert (result.strategy, result.rounds, result.sub_calls) == ("rlm", 1, 0)
    (citation,) = result.citations
    assert (citation.marker, citation.quote, citation.start, citation.verified) == ("[¹]", "two", 4, True)
    assert RunResult.from_json(result.to_json()) == result


async def test_the_body_never_enters_the_roots_messages(run, block) -> None:
    """Messages are append-only, with the task and bounded metadata."""
    body = "".join(f"line {n} of a long text\n" for n in range(20_000))
    model = ScriptedModel.of(
        root=[block("text = read_all()\nx = len(text)"), block("text"), block("finalize(x)")]
    )
    await run(model, body)
    first, second, third = (request.messages for request in model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    sent = sum(len(message.content) for message in third)
    assert sent < 25_000
    assert "line 9999 of" not in "".join(message.content for message in third)
    assert [message.role for message in third] == ["system", "user", "assistant", "user", "assistant", "user"]


async def test_feedback_says_what_came_of_the_block(run, block) -> None:
    """The feedback holds the round, stdout, the result and new variables."""
    model = ScriptedModel.of(root=[block("x = [1, 2]\nprint('seen')\nx"), block("peek(0, 1)\nfinalize(1)")])
    await run(model)
    assert re.sub(r"===== \w{12}: (.*) =====", r"<\1>", feedback_of(model)) == (
        "Output of your block, round 1 of 30\n<printed>\nseen\n<result>\n[1, 2]\n"
        "<new or changed variables>\nx: list, 2 items\n<end>"
    )


async def test_long_output_is_cut_in_the_middle_and_available_whole(run, block) -> None:
    """Head and tail are shown, the gap is counted in characters, and output_of returns all."""
    model = ScriptedModel.of(
        root=[
            block("print('a' + 'x' * 50_000 + 'z')"),
            block(
                "count('')\nprint(len(output_of(1)), set(output_of(1)[666:49668]), output_of(1)[49668:][-3:])"
            ),
            block("count('')\nfinalize(1)"),
        ]
    )
    await run(model, settings=Settings(strategy="rlm", root=RootSettings(output_limit=1_000)))
    text = feedback_of(model, 1)
    assert len(text) < 1_300
    head, gap, tail = re.split(r"\n===== \w{12}: (.* not shown.*) =====\n", text)
    assert gap == "49,002 characters not shown; they are output_of(1)[666:49668]"
    assert (head.endswith("a" + "x" * 665), tail.startswith("x" * 333 + "z")) == (True, True)
    assert "50003 {'x'} xz" in feedback_of(model, 2)


async def test_an_error_keeps_the_run_going(run, block) -> None:
    """A failing cell is feedback. Its assignments are kept."""
    model = ScriptedModel.of(root=[block("kept = 5\n1 / 0"), block("peek(0, 1)\nfinalize(kept)")])
    result = await run(model)
    assert result.answer == 5
    assert "ZeroDivisionError: division by zero" in feedback_of(model)
    assert "kept: int" in feedback_of(model)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("I will look first.", "no_block"),
        ("FINAL(7)", "final_call"),
        ("```repl\nprint(1)\n```\n```repl\nprint(2)\n```", "several_blocks"),
        (Reply("```repl\nprint(1)\n```", finish_reason="length"), "truncated_reply"),
    ],
)
async def test_a_violation_runs_nothing_and_does_not_stay(run, block, reply, kind) -> None:
    """A correction replaces the reply, costs a round, and is counted."""
    model = ScriptedModel.of(root=[reply, block("peek(0, 1)\nfinalize(7)")])
    result = await run(model)
    assert (result.answer, result.rounds) == (7, 2)
    assert [event.kind for event in run.seen(Violated)] == [kind]
    assert [cell.status for cell in run.seen(CellRun)] == ["running", "ok"]
    messages = model.requests[1].messages
    assert messages[:-1] == model.requests[0].messages
    assert messages[-1].role == "user"
    assert kind in messages[-1].content


async def test_prose_around_one_block_is_stripped_and_reminded(run, block) -> None:
    """The block runs, the prose leaves the history, and one line warns."""
    model = ScriptedModel.of(
        root=["Let me look.\n\n" + block("x = peek(0, 3)") + "\nDone.", block("finalize(x)")]
    )
    result = await run(model)
    assert result.answer == "one"
    history = model.requests[1].messages
    assert history[2].content == block("x = peek(0, 3)")
    assert history[3].content.splitlines()[-1].startswith("Reminder")


async def test_a_python_block_runs_and_is_reminded(run, block) -> None:
    """The history shows it marked as it should be. `strict` refuses it."""
    script = ["```python\nx = peek(0, 3)\n```", block("finalize(x)")]
    model = ScriptedModel.of(root=script)
    assert (await run(model)).answer == "one"
    history = model.requests[1].messages
    assert history[2].content == block("x = peek(0, 3)")
    assert history[3].content.splitlines()[-1] == (
        "Reminder: this block ran although its fence was not marked `repl`. Begin it with ```repl."
    )
    strict = Settings(strategy="rlm", root=RootSettings(contract="strict"))
    await run(ScriptedModel.of(root=[script[0], block("peek(0, 1)\nfinalize(1)")]), settings=strict)
    assert [event.kind for event in run.seen(Violated)] == ["wrong_language"]


async def test_final_beside_a_block_is_answered_precisely(run, block) -> None:
    model = ScriptedModel.of(root=[block("x = peek(0, 3)") + "\nFINAL_VAR(x)", block("finalize(x)")])
    assert (await run(model)).answer == "one"
    assert feedback_of(model).splitlines()[-1].startswith("FINAL(…) outside the block was not read.")


async def test_a_root_that_repeats_itself_is_told_then_stopped(run, block) -> None:
    """The second time it is told. From the third on the block is not run, which counts as a violation."""
    model = ScriptedModel.of(root=block("peek(0, 3)"))
    result = await run(model)
    assert (result.answer, result.stop_reason, result.rounds) == (None, "contract_violation", 5)
    assert "word for word" in feedback_of(model, 2)
    assert "repeated_block" in feedback_of(model, 3)
    assert [event.kind for event in run.seen(Violated)] == ["repeated_block"] * 3
    assert len(run.seen(CellRun)) == 4


async def test_the_same_block_with_new_output_is_progress(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("n = 0\npeek(0, 3)"), *[block("n += 1\nprint(n)")] * 4, block("finalize(n)")]
    )
    assert (await run(model)).answer == 4
    assert not run.seen(Violated)


async def test_an_answer_in_prose_in_the_last_round_is_shown(run, block) -> None:
    """It is not given as the answer, but its user sees what was paid for."""
    model = ScriptedModel.of(root=[block("peek(0, 3)"), "The answer is three."])
    result = await run(model, limits=Limits(max_rounds=2))
    assert (result.answer, result.stop_reason) == (None, "rounds")
    assert "The answer is three." in result.warnings[-1]


async def test_what_stays_in_the_history_obeys_the_contract(run, block) -> None:
    """Reasoning and prose leave it. Code that holds fences gets a longer fence."""
    code = "text = '''\n```\n'''"
    reply = f"<think>Hm.</think>\nLook:\n````repl\n{code}\n````"
    model = ScriptedModel.of(root=[reply, block("peek(0, 1)\nfinalize(text)")])
    assert (await run(model)).answer == "\n```\n"
    assert parse(model.requests[1].messages[2].content, contract="strict") == Cell(code)


async def test_too_many_violations_end_the_run_without_an_answer(run) -> None:
    """The limit is max_violations in a row."""
    result = await run(ScriptedModel.of(root="no code at all"))
    assert (result.answer, result.stop_reason, result.rounds) == (None, "contract_violation", 3)
    assert 'held no repl block: "no code at all"' in result.warnings[-1]


async def test_a_good_reply_in_between_starts_the_count_anew(run, block) -> None:
    model = ScriptedModel.of(root=["a", "b", block("1"), "c", "d", block("peek(0, 1)\nfinalize(1)")])
    assert (await run(model)).answer == 1


async def test_the_last_round_is_reserved(run, block) -> None:
    """Whatever limit is reached, the root is asked once more, and must answer."""
    model = ScriptedModel.of(root=[block("x = 1"), block("x += 1"), block("peek(0, 1)\nfinalize(x)")])
    result = await run(model, limits=Limits(max_rounds=3))
    assert (result.answer, result.forced, result.stop_reason, result.rounds) == (2, True, "finalized", 3)
    assert [event.final for event in run.seen(RoundStarted)] == [False, False, True]
    assert "last round" in feedback_of(model)
    assert "raise" not in feedback_of(model)  # the remedy is for the user, not for the root
    assert model.requests[-1].final


async def test_a_root_that_never_finalises_ends_without_an_answer(run, block) -> None:
    """The reason is given, and never a guess."""
    result = await run(ScriptedModel.of(root=block("found = ['a', 'b']")), limits=Limits(max_rounds=4))
    assert result.variables == ("found: list, 2 items",)
    assert (result.answer, result.stop_reason, result.forced, result.rounds) == (None, "rounds", False, 4)


async def test_tokens_end_a_run_with_a_last_round(run, block) -> None:
    usage_heavy = block("print('x' * 3_000)")
    model = ScriptedModel.of(
        root=lambda request: Reply(
            block("peek(0, 1)\nfinalize('enough')") if request.final else usage_heavy,
            usage=TokenUsage(5_000, 500),
        )
    )
    result = await run(model, limits=Limits(max_total_tokens=60_000))
    assert (result.answer, result.forced, result.stop_reason) == ("enough", True, "finalized")
    assert "tokens" in feedback_of(model)
    (usage,) = result.usage
    assert usage.input_tokens + usage.output_tokens <= 60_000


async def test_finalising_unread_is_refused_with_a_reason(run, block) -> None:
    """The refusal holds while the input is not empty and nothing of it was read."""
    model = ScriptedModel.of(root=[block("finalize('a guess')"), block("peek(0, 3)\nfinalize('seen')")])
    result = await run(model)
    assert result.answer == "seen"
    assert "nothing of the input was read" in feedback_of(model)
    assert (await run(ScriptedModel.of(root=[block("finalize('empty')")]), [])).answer == "empty"


async def test_a_guess_is_refused_to_the_end(run, block) -> None:
    """The last round too accepts no answer if nothing was read."""
    result = await run(ScriptedModel.of(root=block("finalize('a guess')")), limits=Limits(max_rounds=3))
    assert (result.answer, result.stop_reason) == (None, "rounds")


async def test_a_reply_far_over_its_limit_does_not_fill_the_window(run, block) -> None:
    huge = block("x = 1\n# " + "word " * 200_000)
    model = ScriptedModel.of(root=[huge, block("peek(0, 1)\nfinalize(1)")])
    assert (await run(model)).answer == 1
    assert [event.kind for event in run.seen(Violated)] == ["truncated_reply"]
    assert sum(len(message.content) for message in model.requests[1].messages) < 30_000


async def test_a_silent_model_does_not_outlast_the_run(run, block) -> None:
    """`seconds` bounds every wait. The last round has its own allowance."""

    async def silent(request):
        if not request.final:
            await asyncio.sleep(60)
        return block("peek(0, 1)\nfinalize('late')")

    result = await run(ScriptedModel.of(root=silent), limits=Limits(max_seconds=1.0))
    assert (result.answer, result.forced) == ("late", True)
    assert result.seconds < 20


async def test_bad_evidence_is_refused_once_then_marked(run, block) -> None:
    """Unverified evidence is refused the first time, and marked after it."""
    finalize = block("peek(0, 3)\nfinalize('x', evidence=['never said in there at all'])")
    model = ScriptedModel.of(root=[finalize, finalize])
    result = await run(model)
    assert "never said" in feedback_of(model)
    assert [citation.verified for citation in result.citations] == [False]


async def test_a_model_that_fails_ends_the_run(run) -> None:
    """The stop reason is `model`, and a warning holds the cause."""
    result = await run(ScriptedModel.of(root=ModelUnavailable("nothing listens at 127.0.0.1:1")))
    assert (result.answer, result.stop_reason) == (None, "model")
    assert result.warnings[-1] == "nothing listens at 127.0.0.1:1"


async def test_cancelling_leaves_a_whole_journal_and_no_kernel(run, block) -> None:
    """Cancelling stops children, kills the kernel and flushes the journal."""
    started = asyncio.Event()

    async def never(_request):
        started.set()
        await asyncio.sleep(60)

    model = ScriptedModel.of(root=[block("sub_query('q', (0, 3))")], child=never)
    running = asyncio.ensure_future(run(model))
    await asyncio.wait_for(started.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with Journal.open(run.store) as journal:
        (summary,) = await journal.runs()
        assert (summary.state, summary.stop_reason) == ("interrupted", "cancelled")
    async with asyncio.timeout(10):
        # An ended one is a child process until the forkserver has reaped it.
        while kernel_watchers():
            await asyncio.sleep(0.01)


async def test_a_cell_over_its_time_is_reported(run, block) -> None:
    model = ScriptedModel.of(root=[block("while True: pass"), block("peek(0, 1)\nfinalize(1)")])
    result = await run(model, limits=Limits(cell_seconds=0.3))
    assert result.answer == 1
    assert "ran over its time" in feedback_of(model)


async def test_limits_are_mentioned_only_when_they_run_out(run, block) -> None:
    """A limit is mentioned once under a quarter of it is left."""
    model = ScriptedModel.of(root=[*map(block, "1234567"), block("peek(0, 1)\nfinalize(1)")])
    await run(model, limits=Limits(max_rounds=8))
    user_messages = [message.content for message in model.requests[-1].messages if message.role == "user"]
    fed = [text for text in user_messages if text.startswith("Output of your block")]
    assert ["Left of rounds: 1 of 8." in text for text in fed] == [False] * 6 + [True]
    assert "Left of" not in "".join(fed[:6])


async def test_an_empty_question_is_refused_before_anything(run) -> None:
    with pytest.raises(UsageError, match="question is empty"):
        await run(ScriptedModel.of(), task="  ")


async def test_everything_is_in_the_journal(run, block) -> None:
    """Settings, model calls, cells, children and the end are journalled."""
    model = ScriptedModel.of(
        root=["words", block("a = sub_query('q', (0, 3))\nfinalize(str(a))")], child=["yes"]
    )
    result = await run(model)
    async with Journal.open(run.store) as journal:
        events = await journal.events(result.run_id)
    kinds = [event.kind for event in events]
    assert kinds == ["run_started", "model_call", "limit", "model_call", "child", "cell", "finished"]
    assert events[0].data["settings"]["context_chars"] == 14
    assert events[4].data["reply"] == "yes"
    assert events[-1].data["answer"] == "yes"
