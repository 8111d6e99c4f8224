"""The check of a summary's lines: unsupported ones are mended once, then marked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rlm.errors import ModelUnavailable
from rlm.models.base import Request
from rlm.testing import ScriptedModel

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
    """A reader who finds the wrong lines, and corrects one of them."""

    def check(request: Request) -> str:
        prompt = request.messages[-1].content
        if "You correct claims" in request.messages[0].content:
            assert "never paid twice" not in prompt.partition(" claims =====")[2], (
                "only the wrong lines are sent"
            )
            claims = re.findall(r"^claim (\d+) [^:]*: (.*)$", prompt, re.MULTILINE)
            texts = {"Oslo": "Ben stayed in Bergen because of the school.", "Mars": ""}
            return json.dumps(
                {
                    "claims": [
                        {"claim": int(n), "text": new}
                        for n, old in claims
                        for word, new in texts.items()
                        if word in old
                    ]
                }
            )
        return str(careful(request, "Mars", "moved to Oslo"))

    return check


async def test_unsupported_lines_are_mended_once_and_then_marked(
    summary: Any, chat_of: Any, checker: Any
) -> None:
    model = ScriptedModel.of(summary=WRONG, check=checker)
    found = await summary([chat_of(*SAID)], model)
    assert "Ben stayed in Bergen because of the school. [m3]" in found.text
    assert "spaceship on Mars. [m1] (not supported by its source)" in found.text
    assert (found.lines, found.supported, found.mended) == (3, 2, 1)
    assert [one.role for one in model.requests] == ["summary", "check", "check", "check"]
    support = found.result.support
    assert support.model == "scripted:memory"
    assert [one.status for one in support.claims] == ["unsupported", "supported", "supported"]
    assert found.text[support.claims[0].start : support.claims[0].end].startswith("Evan bought a spaceship")
    assert [found.result.citations[one.sources[0] - 1].marker for one in support.claims] == [
        "[m1]",
        "[m2]",
        "[m3]",
    ]
    assert any("spaceship" in one for one in found.result.warnings)


async def test_without_the_check_words_alone_are_compared(summary: Any, chat_of: Any) -> None:
    model = ScriptedModel.of(summary=WRONG, check=careless)
    found = await summary([chat_of(*SAID)], model, check=False)
    assert "spaceship on Mars. [m1] (not supported by its source)" in found.text
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


async def test_a_true_line_that_lacks_a_mark_gets_it_instead_of_being_cut(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    def check(request: Request) -> str:
        prompt = request.messages[-1].content
        if "You correct claims" not in request.messages[0].content:
            return str(careful(request, "dropped")) if "m46" not in prompt else str(careful(request))
        for block in re.split("^===== ", prompt, flags=re.MULTILINE):
            rows = list(map(int, re.findall(r"^(\d+) \(m", block, re.MULTILINE)))
            assert rows == list(range(min(rows, default=0), max(rows, default=-1) + 1)), "no gap in a block"
        numbers = [re.findall(rf"^(\d+) \({name}, ", prompt, re.MULTILINE)[0] for name in ("m3", "m5", "m46")]
        assert re.search(rf"may also be proved by: .*\b{numbers[2]}\b", prompt)
        passages = [*map(int, numbers), 99]
        return json.dumps({"claims": [{"claim": 1, "text": line, "passages": passages}]})

    line = "The fashion is rated one, and voice recognition is dropped."
    reply = f"Kind: meeting\n## Decisions\n- {line} [m3]"
    found = await summary([chat_of(*TALK)], ScriptedModel.of(summary=reply, check=check))
    assert found.text == f"## Decisions\n- {line} [m3, m5, m46]"
    assert (found.lines, found.supported, found.mended) == (1, 1, 1)
    support = found.result.support.claims[0]
    markers = [found.result.citations[one - 1].marker for one in support.sources]
    assert markers == ["[m3]", "[m5]", "[m46]"]
