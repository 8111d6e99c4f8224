"""A text that fits no call is read in parts at the same time; their notes become one summary."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import Limits
from rlm.documents import TextSource
from rlm.errors import ModelUnavailable
from rlm.models.base import ModelWindow, Request
from rlm.prompts.history import Message
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.summaries import writing
from rlm.tasks.summaries.entries import Entry
from rlm.testing import ScriptedModel

WINDOW = ModelWindow(9_000, 1_500)
COUNT = get_counter().count
PLAN = [("Ann", f"Part {n} of the plan: " + "we build the hall of the harbour. " * 20) for n in range(100)]


def is_part(request: Request) -> bool:
    return "Below is a part of a longer text" in prompt_of(request)


def prompt_of(request: Request) -> str:
    return request.messages[-1].content


def names_of(request: Request) -> list[str]:
    return re.findall(r"^\[(m\d+)\]", prompt_of(request).partition("\n---\n")[2], re.MULTILINE)


def note_or_write(request: Request) -> str:
    """Note each entry of a part; write a summary that cites the first message."""
    if is_part(request):
        return "\n".join(f"- {name} is about the hall [{name}]." for name in names_of(request))
    return "The plan of a hall, told by Ann. It is still open [m1]."


def long_notes(request: Request) -> str:
    """Note more than fits one prompt."""
    return "\n".join(f"- {name} tells of the hall {'again ' * 60}[{name}]." for name in names_of(request))


def scripted(summary: Any = note_or_write, window: ModelWindow = WINDOW) -> ScriptedModel:
    return ScriptedModel.of(summary=summary, window=window)


async def test_every_message_is_read_in_one_part_and_one_call_writes(summary: Any, chat_of: Any) -> None:
    model = scripted()
    found = await summary([chat_of(*PLAN)], model, tokens=300, check=False)
    *parts, last = model.requests
    assert [name for part in parts for name in names_of(part)] == [f"m{n}" for n in range(1, 101)]
    assert len(parts) > 2
    assert "in about 216 words" in prompt_of(parts[0])
    assert "About 216 words" in prompt_of(last)
    assert all(f"- m{n} is about the hall [m{n}]." in prompt_of(last) for n in range(1, 101))
    assert all(COUNT(prompt_of(one)) < WINDOW.context - one.max_output_tokens for one in model.requests)
    assert found.text == "The plan of a hall, told by Ann. It is still open [m1]."
    assert [one.marker for one in found.result.citations] == ["[m1]"]
    assert found.result.coverage.complete


async def test_parts_are_read_at_the_same_time_within_the_concurrency(summary: Any, chat_of: Any) -> None:
    running = most = 0

    async def slow(request: Request) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return note_or_write(request)

    await summary([chat_of(*PLAN)], scripted(slow), tokens=300, check=False, limits=Limits(concurrency=3))
    assert most == 3


async def test_parts_of_one_long_message_are_never_lost(summary: Any, chat_of: Any) -> None:
    words = [f"word{n}" for n in range(6_000)]
    model = scripted()
    found = await summary(
        [chat_of(("Ann", " ".join(words)), ("Ben", "Yes."))], model, tokens=300, check=False
    )
    seen = [
        word for one in model.requests if is_part(one) for word in re.findall(r"\bword\d+", prompt_of(one))
    ]
    assert seen == words
    assert found.result.coverage.complete


@pytest.mark.parametrize(
    "reply",
    [ModelUnavailable("nothing listens"), " ", "I'm sorry, but I can't help with that request."],
    ids=["failure", "empty", "refusal"],
)
async def test_a_part_without_notes_is_told_and_not_counted_as_read(
    summary: Any, chat_of: Any, reply: Any
) -> None:
    def fails(request: Request) -> Any:
        if is_part(request) and "m1" in names_of(request):
            if isinstance(reply, Exception):
                raise reply
            return reply
        return note_or_write(request)

    model = scripted(fails)
    found = await summary([chat_of(*PLAN)], model, tokens=300, check=False)
    assert any(re.search(r"\bm1 to m\d+\b", warning) for warning in found.result.warnings)
    assert not found.result.coverage.complete
    assert "m2 is about" not in prompt_of(model.requests[-1])
    assert "m100 is about" in prompt_of(model.requests[-1])
    assert found.text.startswith("The plan of a hall")


async def test_a_part_of_a_long_message_without_notes_is_not_read(summary: Any, chat_of: Any) -> None:
    """Whichever of its parts it is: the message is named, and the coverage is not full."""
    long = ("Ann", " ".join(f"word{n}" for n in range(6_000)))

    def fails(request: Request) -> str:
        if is_part(request) and "word0 " in prompt_of(request):
            raise ModelUnavailable("nothing listens")
        return note_or_write(request)

    found = await summary([chat_of(long, ("Ben", "Yes."))], scripted(fails), tokens=300, check=False)
    assert any("the notes on m1 failed" in warning for warning in found.result.warnings)
    assert not found.result.coverage.complete
    assert found.result.coverage.answered_chars < 100
    assert found.result.stop_reason == "model"


async def test_if_no_part_can_be_read_sentences_of_the_messages_are_used(summary: Any, chat_of: Any) -> None:
    model = scripted(ModelUnavailable("nothing listens"))
    found = await summary([chat_of(*PLAN)], model, tokens=300)
    assert found.form == "extracts"
    assert "we build the hall" in found.text


async def test_notes_without_a_summary_are_kept_word_for_word(summary: Any, chat_of: Any) -> None:
    """They are paid for."""

    def fails(request: Request) -> str:
        if is_part(request):
            return note_or_write(request)
        raise ModelUnavailable("nothing listens")

    found = await summary([chat_of(*PLAN)], scripted(fails), tokens=300, check=False)
    assert all(f"- m{n} is about the hall [m{n}]." in found.text for n in range(1, 101))
    assert any("these are the notes" in warning for warning in found.result.warnings)


async def test_the_model_chooses_among_notes_that_do_not_fit_one_prompt(summary: Any, chat_of: Any) -> None:
    def verbose(request: Request) -> str:
        if is_part(request):
            return "\n".join(
                f"- {name} tells of the hall {'again ' * 60}[{name}]." for name in names_of(request)
            )
        if "numbered notes" in prompt_of(request):
            numbers = re.findall(r"^(\d+): ", prompt_of(request), re.MULTILINE)
            return ", ".join(numbers[1::2])
        return "The plan of a hall [m2]."

    model = scripted(verbose)
    found = await summary([chat_of(*PLAN)], model, tokens=300, check=False)
    last = prompt_of(model.requests[-1])
    assert COUNT(last) < WINDOW.context - model.requests[-1].max_output_tokens
    assert "m2 tells of" in last
    assert "m1 tells of" not in last
    assert found.text == "The plan of a hall [m2]."


async def test_a_choice_that_is_none_loses_no_part_of_the_text_whole(summary: Any, chat_of: Any) -> None:
    def silent(request: Request) -> str:
        if is_part(request):
            return "\n".join(
                f"- {name} tells of the hall {'again ' * 60}[{name}]." for name in names_of(request)
            )
        return "All of them!" if "numbered notes" in prompt_of(request) else "The plan of a hall [m2]."

    model = scripted(silent)
    await summary([chat_of(*PLAN)], model, tokens=300, check=False)
    kept = [int(name) for name in re.findall(r"- m(\d+) tells", prompt_of(model.requests[-1]))]
    assert kept[0] == 1
    assert max(after - before for before, after in pairwise(kept)) < 10


async def test_a_document_is_noted_by_its_paragraphs(summary: Any) -> None:
    text = "\n\n".join(
        f"Sample {n} was {n * 7} units. " + "It was dried and weighed. " * 20 for n in range(100)
    )

    def model(request: Request) -> str:
        return "- Samples were weighed [p1-p9]." if is_part(request) else "Samples were weighed [p1, p100]."

    found = await summary(
        [TextSource("report.md", text, "markdown")], scripted(model), tokens=300, check=False
    )
    assert (found.kind, found.text) == ("document", "Samples were weighed [p1, p100].")
    assert [one.marker for one in found.result.citations] == ["[p1]", "[p100]"]


async def test_a_history_that_grew_costs_only_what_is_new(summary: Any, chat_of: Any) -> None:
    """With --since nothing is paid twice, over a chain of runs."""
    first = await summary([chat_of(*PLAN)], scripted(), tokens=300, check=False)
    model = scripted()
    same = await summary([chat_of(*PLAN)], model, tokens=300, check=False, since=first.result.run_id)
    assert (same.text, model.requests) == (first.text, [])
    grown = [*PLAN, ("Ben", "The hall is built.")]
    second = await summary([chat_of(*grown)], model, tokens=300, check=False, since=same.result.run_id)
    (asked,) = model.requests
    assert names_of(asked) == ["m101"]
    assert first.text in prompt_of(asked)
    assert (second.messages, second.known) == (101, 100)
    model = scripted()
    third = await summary([chat_of(*grown)], model, tokens=300, check=False, since=second.result.run_id)
    assert (third.text, model.requests) == (second.text, [])


async def test_an_interrupted_summary_pays_nothing_twice(summary: Any, chat_of: Any) -> None:
    answers = 2

    def dies(request: Request) -> str:
        nonlocal answers
        answers -= 1
        if answers < 0:
            raise ModelUnavailable("the network is gone")
        return note_or_write(request)

    first = await summary([chat_of(*PLAN)], scripted(dies), tokens=300, check=False)
    assert first.result.stop_reason == "model"
    whole, rest = scripted(), scripted()
    await summary([chat_of(*PLAN)], whole, tokens=300, check=False)
    found = await summary([chat_of(*PLAN)], rest, tokens=300, check=False, since=first.result.run_id)
    assert len(rest.requests) == len(whole.requests) - 2
    assert found.result.coverage.complete


async def test_another_focus_reads_everything_again(summary: Any, chat_of: Any) -> None:
    first = await summary([chat_of(*PLAN)], scripted(), tokens=300, check=False)
    model = scripted()
    found = await summary(
        [chat_of(*PLAN)], model, tokens=300, check=False, since=first.result.run_id, focus="the costs"
    )
    assert len(model.requests) > 2
    assert any("had another form, focus or length" in warning for warning in found.result.warnings)


async def test_a_window_without_room_is_told(summary: Any, chat_of: Any) -> None:
    model = scripted(window=ModelWindow(2_000, 500))
    found = await summary([chat_of(*PLAN)], model, tokens=300)
    assert found.form == "extracts"
    assert any("its window has no room" in warning for warning in found.result.warnings)


@given(st.lists(st.text(max_size=400), max_size=12), st.integers(40, 200))
def test_parts_hold_every_character_once_in_order(texts: list[str], most: int) -> None:
    entries = [Entry(0, 0, Message("user", text, id=f"m{n}"), "d") for n, text in enumerate(texts, 1)]
    parts = writing._parts(entries, most)
    shown = re.sub(r"\n?\[m\d+\] \(continued\) ", "", "\n".join(part.text for part in parts))
    assert shown == "\n".join(f"[m{n}] user: {text}" for n, text in enumerate(texts, 1))
    assert all(part.tokens <= most for part in parts)
