"""The check of a summary's lines: unsupported ones are marked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlm.errors import ModelUnavailable
from rlm.models.base import Request
from rlm.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("in_parts")

SAID = (
    ("Evan", "I bought a Prius in May, for 9,000 euros."),
    ("Ann", "The refund is never paid twice, that is the rule."),
    ("Ben", "We did not move to Oslo. We stayed in Bergen, because of the school."),
    ("Ann", "The webhook answers in 2 seconds."),
)
WRONG = (
    "Kind: talk\n## What Happened\n- Evan bought a spaceship on Mars. [m1]\n"
    "- The refund is never paid twice. [m2]\n- Ben moved to Oslo for the school. [m3]\n"
)


def careless(request: Request) -> str:
    raise AssertionError("not to be asked")


@pytest.fixture
def checker(careful: Any) -> Any:
    """A reader who finds the wrong lines."""

    def check(request: Request) -> str:
        return str(careful(request, "Mars", "moved to Oslo"))

    return check


async def test_unsupported_lines_are_marked_and_stay_as_they_were_written(
    summary: Any, chat_of: Any, checker: Any
) -> None:
    model = ScriptedModel.of(summary=WRONG, check=checker)
    found = await summary([chat_of(*SAID)], model)
    assert "Ben moved to Oslo for the school. [m3] (not supported by its source)" in found.text
    assert "spaceship on Mars. [m1] (not supported by its source)" in found.text
    assert (found.lines, found.supported) == (3, 1)
    assert [one.role for one in model.requests] == ["summary", "check"]
    support = found.result.support
    assert support.model == "scripted:memory"
    assert [one.status for one in support.claims] == ["unsupported", "supported", "unsupported"]
    assert found.text[support.claims[0].start : support.claims[0].end].startswith("Evan bought a spaceship")
    assert [found.result.citations[one.sources[0] - 1].marker for one in support.claims] == [
        "[m1]",
        "[m2]",
        "[m3]",
    ]
    assert any("spaceship" in one for one in found.result.warnings)


async def test_without_the_check_words_alone_are_compared(summary: Any, chat_of: Any) -> None:
    """They refute nothing."""
    model = ScriptedModel.of(summary=WRONG, check=careless)
    found = await summary([chat_of(*SAID)], model, check=False)
    assert "(not supported" not in found.text
    assert [one.status for one in found.result.support.claims] == ["unchecked", "supported", "supported"]
    assert [one.role for one in model.requests] == ["summary"]
    assert found.result.support.model is None


async def test_a_check_that_fails_leaves_the_summary_and_says_so(summary: Any, chat_of: Any) -> None:
    model = ScriptedModel.of(summary=WRONG, check=ModelUnavailable("nothing listens"))
    found = await summary([chat_of(*SAID)], model)
    assert "The refund is never paid twice. [m2]" in found.text
    assert any("only words" in one and "nothing listens" in one for one in found.result.warnings)


async def test_a_line_that_names_no_message_and_has_none_says_so(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    reply = "Kind: talk\n## People\n- Zoe studies glaciology in Reykjavik.\n- The refund is never paid. [m2]"
    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=reply, check=careful))
    assert "- Zoe studies glaciology in Reykjavik. (no source found)" in found.text
    assert (found.lines, found.supported) == (2, 1)


TALK = [
    ("Ann", "How did we rate the fancy look?"),
    ("Ben", "Two point five."),
    ("Ann", "And the fashion?"),
    ("Ben", "Yeah."),
    ("Ben", "One, from all of us."),
    *[("Ann", f"Item {n} of the list is moved to the next meeting.") for n in range(40)],
    ("Ben", "Voice recognition is dropped."),
]


async def test_a_message_of_talk_is_judged_with_those_around_it(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    """`One, from all of us` rates nothing by itself."""
    shown: list[str] = []

    def check(request: Request) -> str:
        shown.append(request.messages[-1].content)
        return str(careful(request))

    reply = "Kind: meeting\n## Main Points\n- Fashion is rated one by all, says Ben. [m5]"
    await summary([chat_of(*TALK)], ScriptedModel.of(summary=reply, check=check))
    (prompt,) = shown
    rows = re.findall(r"^\d+ \((m\d+), (Ann|Ben)\): (.*)$", prompt, re.MULTILINE)
    assert [name for name, _, _ in rows][:5] == ["m1", "m2", "m3", "m4", "m5"]
    assert ("m3", "Ann", "And the fashion?") in rows
    assert len(rows) < 25
    assert re.search(r"passages 1 to \d+, one message a line =====$", prompt, re.MULTILINE)
    assert re.search(r"^claim \d \(passage 5\): Fashion is rated one", prompt, re.MULTILINE)
