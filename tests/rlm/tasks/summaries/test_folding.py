"""A summary that grows with its history: what still holds stays word for word, what changed is replaced."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rlm.documents import TextSource
from rlm.errors import ModelUnavailable
from rlm.models.base import ModelWindow, Request
from rlm.prompts.history import Folding, Message, read_in_parts
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.summary_lines import Line
from rlm.tasks.summaries.writing.borders import borders_of
from rlm.tasks.summaries.writing.draft import Draft, edits_in
from rlm.tasks.summaries.writing.forms import FORMS
from rlm.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("in_parts")

COUNT = get_counter().count

_LIMIT = re.compile(r"^\[(m\d+)\] user \([^)]*\): The limit is now (\d+) euros\.$", re.MULTILINE)
_CRANE = re.compile(r"^\[(m\d+)\] user \([^)]*\): (Crane \w+ was sold)\.$", re.MULTILINE)
_OLD_LIMIT = re.compile(r"^L(\d+) = .*The limit is", re.MULTILINE)


def honest(request: Request) -> str:
    """A reader who writes a line for each crane and keeps the line of the limit up to date."""
    prompt = request.messages[-1].content
    if "numbered lines and is too long" in prompt:
        return "No change."
    new = prompt.rpartition("New messages:")[2]
    rows = [f"- {what}. [{name}]" for name, what in _CRANE.findall(new)]
    head = "Kind: work\n" if "Summary so far:" not in prompt else ""
    limits = _LIMIT.findall(new)
    old = _OLD_LIMIT.search(prompt)
    if limits:
        name, euros = limits[-1]
        line = f"- ! The limit is {euros} euros. [{name}]"
        rows.append(f"L{old[1]} = {line}" if old else line)
    if "Bergen" in new:
        rows.append("- ! Refunds are paid in Bergen, because the bank is there. [m1]")
    return head + "## Key Decisions\n" + "\n".join(rows)


def history(rounds: int) -> TextSource:
    said = ["Refunds are paid in Bergen, because the bank is there.", "The limit is now 50 euros."]
    for number in range(rounds):
        said += [f"Crane {chr(65 + number)}{number} was sold.", f"ok, thanks for number {number}"]
        if number in (3, 7):
            said.append(f"The limit is now {50 + number} euros.")
    rows = [{"role": "user", "author": "Ann", "content": text} for text in said]
    return TextSource("chat.jsonl", "\n".join(map(json.dumps, rows)), "jsonl")


@pytest.mark.parametrize("tokens", [250, 2_000], ids=["little room", "much room"])
async def test_a_fact_that_still_holds_survives_ten_foldings_and_a_changed_one_is_replaced(
    summary: Any, careful: Any, tokens: int
) -> None:
    since = None
    asked = 0
    for rounds in range(1, 12):
        model = ScriptedModel.of(summary=honest, check=careful)
        found = await summary([history(rounds)], model, tokens=tokens, since=since)
        since = found.result.run_id
        prompts = [one.messages[-1].content for one in model.requests if one.role == "summary"]
        if rounds > 1:
            assert "Bergen" in prompts[0].partition("New messages:")[0]
            assert "Bergen" not in prompts[0].partition("New messages:")[2]
        asked += len(prompts)
    assert asked <= 22
    assert "- Refunds are paid in Bergen, because the bank is there. [m1]" in found.text
    assert re.findall(r"The limit is (\d+) euros", found.text) == ["57"]
    assert COUNT(found.text) <= tokens
    assert found.supported == found.lines
    if tokens == 2_000:
        assert found.text.count("was sold") == 11


async def test_nothing_new_costs_nothing(summary: Any, careful: Any) -> None:
    first = await summary([history(3)], ScriptedModel.of(summary=honest, check=careful))
    model = ScriptedModel.of(summary=honest, check=careful)
    again = await summary([history(3)], model, since=first.result.run_id)
    assert model.requests == []
    assert again.text == first.text
    assert (again.lines, again.supported) == (first.lines, first.supported)


async def test_another_focus_reads_everything_again(summary: Any, careful: Any) -> None:
    first = await summary([history(3)], ScriptedModel.of(summary=honest, check=careful))
    model = ScriptedModel.of(summary=honest, check=careful)
    found = await summary([history(3)], model, since=first.result.run_id, focus="the cranes")
    assert "New messages:" not in model.requests[0].messages[-1].content
    assert any("another form or focus" in one for one in found.result.warnings)


async def test_a_model_that_writes_everything_again_makes_nothing_twice(summary: Any, careful: Any) -> None:
    said = [("Ann", f"Crane {n} lifts {n + 20} tons in the yard.") for n in range(200)]
    rows = [json.dumps({"role": "user", "author": who, "content": text}) for who, text in said]
    calls = []

    def again(request: Request) -> str:
        calls.append(request)
        lines = [f"- Crane {n} lifts {n + 20} tons in the yard. [m{n + 1}]" for n in range(len(calls) * 3)]
        return "Kind: meeting\n## Main Points\n" + "\n".join(lines)

    model = ScriptedModel.of(summary=again, check=careful, window=ModelWindow(context=4_500, output=900))
    found = await summary([TextSource("chat.jsonl", "\n".join(rows), "jsonl")], model, tokens=900)
    assert len(calls) > 2
    lines = re.findall("^- .*$", found.text, re.MULTILINE)
    assert len(lines) == len(set(lines)) == len(calls) * 3


def test_edits_name_lines_join_and_remove_them() -> None:
    reply = (
        "L1 = - ! The limit rose to 60. [m9]\n- L2 + L3 = - The queue was tried and dropped. [m3, m4]\n"
        "L4 = gone\n`L5` = right\nL99 = gone\nNo change.\n## People\n- Ann is new. [m9]"
    )
    edits, rest = edits_in(reply, 5)
    assert [(one.places, one.line and one.line.text, one.is_right) for one in edits] == [
        ((0,), "The limit rose to 60.", False),
        ((1, 2), "The queue was tried and dropped.", False),
        ((3,), None, False),
        ((4,), None, True),
    ]
    assert rest == "L99 = gone\n## People\n- Ann is new. [m9]"


def test_an_edit_that_is_no_line_leaves_the_old_one() -> None:
    draft = Draft(FORMS["talk"], (Line("People", "Ann is new.", ("m1",)),))
    assert draft.edited("L1 = - ", list).lines == draft.lines
    assert draft.edited("L1 = - Everything else.", lambda lines: []).lines == draft.lines


def _entries(*times: str) -> list[Entry]:
    return [
        Entry(
            0, 1, Message("user", f"Crane {n} " + "lifts tons " * 12, created_at=time, id=f"m{n + 1}"), "chat"
        )
        for n, time in enumerate(times)
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [("2026-05-02 10:00", "a day"), ("2026-05-01 12:00", "a pause")],
)
def test_a_history_is_cut_at_days_and_pauses(after: str, expected: str) -> None:
    times = ["2026-05-01 10:00"] * 36 + [after] * 30
    entries = _entries(*times)
    messages = [entry.message for entry in entries]
    names = [entry.name for entry in entries]
    folding = Folding(get_counter(), 100, 3_700, overhead=100)
    without = read_in_parts(messages, names, folding)
    parts = read_in_parts(messages, names, folding, borders_of(entries))
    assert without[0][1] != 36, "the cut would be there anyway"
    assert parts[0][1] == 36, expected
    assert "".join(text for text, _ in parts).count("Crane") == 66
    more = read_in_parts([*messages, *messages], [*names, *names], folding, [*borders_of(entries)] * 2)
    assert more[0] == parts[0], "a cut does not move when the history grows"


def test_a_message_is_never_cut_in_mid_word() -> None:
    text = "The harbourmaster inspected everything; nobody complained " * 400
    parts = read_in_parts([Message("user", text)], ["m1"], Folding(get_counter(), 100, 2_000, overhead=100))
    words = set(text.split())
    assert len(parts) > 2
    for part, _ in parts:
        assert set(part.partition(") ")[2].split()) <= words


def test_a_line_can_be_moved_and_weighed_anew() -> None:
    form = FORMS["story"]
    draft = Draft(
        form,
        (
            Line("What Happened", "Ann leaves.", ("m1",), weight=2),
            Line("How It Stands", "Ben holds the gate.", ("m2",)),
            Line("How It Stands", "Cem waits.", ("m3",)),
        ),
    )
    reply = "L1 = ?\nL2 = ## What Happened\nL3 = ## people and places: - Cem waits for Ann. [m4]"
    lines = draft.edited(reply, list).lines
    assert [(one.heading, one.text, one.names, one.weight) for one in lines] == [
        ("What Happened", "Ann leaves.", ("m1",), 0),
        ("What Happened", "Ben holds the gate.", ("m2",), 1),
        ("People and Places", "Cem waits for Ann.", ("m4",), 1),
    ]
    assert draft.edited("L1 = -", list).lines[0].weight == 1
    assert draft.edited("L1 = - ? Ann leaves late. [m5]", list).lines[0].weight == 0
    assert draft.edited("L1 = - Ann leaves late. [m5]", list).lines[0].weight == 2


def test_what_happened_is_told_in_paragraphs_with_its_marks() -> None:
    lines = [Line("What Happened", f"Then {n} came.", (f"m{n}",)) for n in range(1, 7)]
    text = Draft(FORMS["story"], (*lines, Line("People and Places", "Ann, a thief.", ("m7",)))).page()
    first, second, people = text.split("\n\n")
    assert first.startswith("## What Happened\nThen 1 came. [m1] Then 2 came. [m2] Then 3")
    assert second == "Then 4 came. [m4] Then 5 came. [m5] Then 6 came. [m6]"
    assert people == "## People and Places\n- Ann, a thief. [m7]"


async def test_messages_that_no_model_read_are_not_answered_for(summary: Any, chat_of: Any) -> None:
    """The first part is summarized, then the provider fails."""
    said = [("Ann", f"Part {n} of the plan: " + "we build the hall. " * 30) for n in range(60)]
    replies = iter(["## What Happened\n- Ann plans a hall. [m1]"])

    def write(request: Request) -> str:
        for reply in replies:
            return reply
        raise ModelUnavailable("gone")

    model = ScriptedModel.of(summary=write, window=ModelWindow(9_000, 2_000))
    found = await summary([chat_of(*said)], model, check=False)
    coverage = found.result.coverage
    assert not coverage.complete
    assert 0 < coverage.answered_chars < coverage.input_chars
    assert "Ann plans a hall. [m1]" in found.text


async def test_a_part_of_a_long_message_without_a_reply_is_told(summary: Any, chat_of: Any) -> None:
    """The first of the parts of one message has no reply that is a summary."""
    long = "\n\n".join(f"Point {n}: the hall has {n} oak doors, as Ann decided." for n in range(900))
    count = iter(range(99))

    def write(request: Request) -> str:
        return "" if next(count) == 0 else "## What Happened\n- The hall has oak doors. [m1]"

    model = ScriptedModel.of(summary=write, window=ModelWindow(9_000, 2_000))
    found = await summary([chat_of(("Ann", long), ("Ben", "Fine."))], model, check=False, kind="chat")
    assert any("of m1 to m1 the summary has only sentences" in one for one in found.result.warnings)
