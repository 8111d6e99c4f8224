"""Test that older rounds are folded when the root's messages near its window."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from rlm import Limits, Settings
from rlm.accounting.metered_model import estimate
from rlm.errors import ModelUnavailable
from rlm.events import RoundsFolded
from rlm.journal import Journal
from rlm.models.base import ModelWindow, Reply, TokenUsage
from rlm.prompts.history import BREAK, SUMMARY_PROMPT
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel

WINDOW = ModelWindow(context=10_600, output=1_000)
SETTINGS = Settings(strategy="rlm", root=RootSettings(output_tokens=1_000))
ROUNDS = 12
NOTES = "## Task Summary\n- count the words [r1]\n\n## Key Decisions\n- none"


def blocks(block, rounds: int = ROUNDS) -> list[str]:
    """Write rounds that each assign, print about 600 tokens, and contain one finding."""
    cells = [
        f"v{n} = {n}\nprint('The supplier in section {n} is Vendor{n}x{n}; it must be paid {n}00 euros.')\n"
        f"print('filler words ' * 150)"
        for n in range(1, rounds)
    ]
    return [
        *map(block, cells),
        block(f"count('one')\nfinalize(sum([{', '.join(f'v{n}' for n in range(1, rounds))}]))"),
    ]


def script(block, summary: object = NOTES, **options: object) -> ScriptedModel:
    return ScriptedModel.of(root=blocks(block), summary=summary, window=WINDOW, **options)


def roots(model: ScriptedModel) -> list[tuple[str, ...]]:
    return [
        tuple(message.content for message in request.messages)
        for request in model.requests
        if request.role == "root"
    ]


async def events(run, kind: str) -> list[dict]:
    async with Journal.open(run.store) as journal:
        (found,) = await journal.runs()
        return [event.data for event in await journal.events(found.run_id) if event.kind == kind]


async def test_older_rounds_are_folded_near_the_window_and_the_last_four_stay_verbatim(run, block) -> None:
    """The system prompt, the task and the last 4 rounds stay. The threshold is 80 % of the root's window."""
    model = script(block)
    result = await run(model, "one two three four\n" * 50, settings=SETTINGS)
    assert result.answer == sum(range(1, ROUNDS))  # every variable of every round is there
    asked = roots(model)
    first = next(
        at for at, messages in enumerate(asked) if "were replaced by these notes" in str(messages[2:3])
    )
    before, after = asked[first - 1], asked[first]
    assert after[:2] == before[:2]
    assert after[3:-2] == before[-6:]  # the three earlier rounds and the new one
    assert len(after) == 3 + 8
    assert "output of your block, round" in after[-1].lower()
    assert after[2].startswith(f"Rounds 1 to {first - 4} were replaced by these notes")
    assert NOTES in after[2]
    assert all(f"\nv{n}: int" in after[2] for n in range(1, first + 1))  # listed: the kernel's variables


async def test_where_four_rounds_do_not_fit_fewer_stay(run, block) -> None:
    """Outputs are long and the window is small. Notes always get some tokens, and no request is larger
    than the window.
    """
    model = ScriptedModel.of(
        root=[
            *(block(f"v{n} = {n}\nprint('filler words ' * 600)") for n in range(8)),
            block("peek(0, 1)\nfinalize(v7)"),
        ],
        summary=NOTES,
        window=WINDOW,
    )
    result = await run(model, settings=SETTINGS)
    assert result.answer == 7
    folded = [event for event in run.events if isinstance(event, RoundsFolded)]
    assert folded
    assert {event.fault for event in folded} == {""}
    summaries = [request for request in model.requests if request.role == "summary"]
    assert all(request.max_output_tokens >= 400 for request in summaries)
    journalled = [data["prompt_tokens"] for data in await events(run, "model_call") if data["role"] == "root"]
    assert max(journalled) <= WINDOW.context - WINDOW.output


async def test_nothing_is_folded_while_there_is_room(run, block) -> None:
    """A window four times as large sees every round, append-only."""
    model = ScriptedModel.of(root=blocks(block), window=ModelWindow(context=60_000, output=1_000))
    await run(model, settings=SETTINGS)
    asked = roots(model)
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(asked))


async def test_the_summary_is_asked_of_its_own_model_and_folds_new_rounds_into_the_old(run, block) -> None:
    """The summary model is asked for the notes alone."""
    root = ScriptedModel.of(root=blocks(block, 25), window=WINDOW)
    notes = ScriptedModel.of(summary=NOTES)
    await run(root, settings=SETTINGS, summary_model=notes)
    assert {request.role for request in root.requests} == {"root"}
    prompts = [request.messages[-1].content for request in notes.requests]
    assert len(prompts) > 1
    assert prompts[0].startswith(f"{SUMMARY_PROMPT}{BREAK}[r1] assistant: ```repl\nv1 = 1")
    assert "[r1] user: Output of your block, round 1" in prompts[0]
    for prompt in prompts[1:]:
        assert f"Summary so far:\n\n{NOTES}\n\nNew messages:\n\n[r" in prompt
        assert "[r1] assistant" not in prompt


async def test_it_is_journalled_and_shown(run, block) -> None:
    """The event holds the folded rounds, their replacement, and the cost of the summary."""
    model = script(block)
    await run(model, settings=SETTINGS)
    first, *_ = await events(run, "compaction")
    assert first["tokens_after"] < first["tokens_before"]
    assert NOTES in first["message"]
    calls = await events(run, "model_call")
    (summary, *_) = [data for data in calls if data["role"] == "summary"]
    assert summary["reply"] == NOTES
    json.dumps(first)


async def test_a_summary_is_no_child_of_the_run(run, block) -> None:
    """It costs tokens and money, but none of the root's child calls."""
    model = script(block)
    result = await run(model, settings=SETTINGS, limits=Limits(max_calls=0))
    assert (result.answer, result.sub_calls) == (sum(range(1, ROUNDS)), 0)
    assert all(event.fault == "" for event in run.events if isinstance(event, RoundsFolded))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (ModelUnavailable("nothing listens"), "nothing listens"),
        (Reply("## Task", finish_reason="length"), "ended early (length)"),
        ("", "empty"),
        ("word " * 9_000, "saved less than 10%"),
    ],
)
async def test_a_summary_that_fails_gives_way_to_the_telling_lines(run, block, answer, fault) -> None:
    """The notes are never empty. The run continues, and the journal holds the reason."""
    model = script(block, answer)
    result = await run(model, settings=SETTINGS)
    assert result.answer == sum(range(1, ROUNDS))
    first, *_ = await events(run, "compaction")
    assert fault in first["fault"]
    assert "The supplier in section 1 is Vendor1x1; it must be paid 100 euros." in first["message"]


async def test_without_a_model_the_telling_lines_are_picked(run, block) -> None:
    """`extractive` is not called, and the lines of earlier compactions stay."""
    model = ScriptedModel.of(root=blocks(block, 25), window=WINDOW)
    result = await run(model, settings=SETTINGS, summary_model="extractive")
    assert result.answer == sum(range(1, 25))
    *_, last = await events(run, "compaction")
    assert last["fault"] == ""
    assert "Vendor1x1; it must be paid 100 euros. [r1]" in last["message"]
    assert "Vendor15x15; it must be paid 1500 euros. [r15]" in last["message"]


@pytest.mark.parametrize("counted", [0.5, 1.6])
async def test_the_room_for_notes_is_in_the_providers_tokens(run, block, counted) -> None:
    """If a provider counts fewer tokens than the estimate, there is still room for notes. If it counts
    more, the folded messages still fit.
    """
    written = blocks(block, 30)

    def root(request) -> Reply:
        asked = sum(estimate(message.content) for message in request.messages)
        usage = TokenUsage(input_tokens=int(asked * counted))
        sent.append(usage.input_tokens)
        return Reply(written[request.round - 1].replace("* 150", "* 260"), usage=usage)

    sent: list[int] = []
    window = ModelWindow(context=24_000, output=1_000) if counted > 1 else WINDOW
    model = ScriptedModel.of(root=root, summary=NOTES * 4, window=window)
    result = await run(model, settings=SETTINGS)
    assert result.answer == sum(range(1, 30))
    # The first requests come before the provider's counts are known.
    folded = [event for event in run.events if isinstance(event, RoundsFolded) and event.last > 8]
    assert len(folded) >= 2
    assert [event.fault for event in folded] == [""] * len(folded)
    assert max(sent) <= window.context - window.output
    assert all(event.after * counted <= 0.8 * window.context for event in folded)


async def test_four_rounds_over_the_threshold_alone_are_left_as_they_are(run, block) -> None:
    """While the window holds them nothing is folded, and no summary is paid for."""
    full = Settings(strategy="rlm", root=RootSettings(output_tokens=1_000))
    cells = [block(f"x{n} = {n}\nprint('word{n} ' * 842)") for n in range(1, 4)]
    model = ScriptedModel.of(
        root=[*cells, block("count('one')\nfinalize(x1 + x2 + x3)")], summary=NOTES, window=WINDOW
    )
    result = await run(model, settings=full)
    assert result.answer == 6
    assert {request.role for request in model.requests} == {"root"}
    asked = [data["prompt_tokens"] for data in await events(run, "model_call")]
    assert 0.8 * WINDOW.context < max(asked) <= WINDOW.context - WINDOW.output
