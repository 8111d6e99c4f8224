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
    assert "- Ben stayed in Bergen because of the school. [m3]\n" in f"{found.text}\n"
    assert "spaceship on Mars. [m1] (not supported by its source)" in found.text
    assert (found.lines, found.supported, found.mended) == (3, 2, 1)
    assert [one.role for one in model.requests] == ["summary", "check", "check", "check"]
    support = found.result.support
    assert support.model == "scripted:memory"
    assert [one.status for one in support.claims] == ["unsupported", "supported", "supported"]
    assert found.text[support.claims[0].start : support.claims[0].end].startswith("- Evan bought a spaceship")
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
