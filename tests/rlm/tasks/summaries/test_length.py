"""The length of a summary: asked for in lines, shortened from the draft alone, cut by whole lines."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlm.models.base import ModelWindow, Request
from rlm.prompts.tokens.counters import get_counter
from rlm.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("in_parts")

COUNT = get_counter().count

# As readers wrote it: 20 to 28 words, with names, figures and two marks.
_READER_LINES = (
    "The project manager Ada Longmund opened the kick-off and presented a new remote control that has to be "
    "original, trendy and user-friendly for the whole world. [m5, m31]",
    "The selling price will be 25 Euros and the product must not cost more than 12.50 Euros, which Marketing "
    "called the problem of this project. [m20, m134]",
    "Gina lost her job at Door Dash in January 2023 and opened an online clothing store by 16 March 2023, "
    "because she loves fashion and dance. [m3, m106]",
    "By 21 July 2023 the dance studio was on tenuous grounds; Jon took a temp job to cover expenses while he "
    "looks for investors. [m335, m341]",
)


@pytest.mark.parametrize("tokens", [500, 1_000, 1_500, 3_000, 8_000])
async def test_a_model_that_keeps_the_number_of_lines_keeps_the_tokens(
    summary: Any, chat_of: Any, careful: Any, tokens: int
) -> None:
    """Even if each line is as long as allowed: no reply has to be shortened."""
    asked: list[str] = []

    def reader(request: Request) -> str:
        asked.append(request.messages[-1].content)
        found = re.search(r"At most ([\d,]+) lines", asked[0])
        assert found is not None
        count = int(found[1].replace(",", ""))
        rows = [f"- {'! ' * (n % 3 == 0)}{_READER_LINES[n % 4][:-1]} n{n}]" for n in range(count)]
        rows = [re.sub(r" n\d+\]$", "]", row).replace("Euros", f"Euros ({n})") for n, row in enumerate(rows)]
        return "Kind: meeting\n\n## Main Points\n" + "\n".join(rows)

    said = [("Ann", f"Point {n}: {_READER_LINES[n % 4]}") for n in range(400)]
    model = ScriptedModel.of(summary=reader, check=careful)
    found = await summary([chat_of(*said)], model, tokens=tokens)
    assert len(asked) == 1
    assert COUNT(found.text) <= tokens
    assert not any("left out to fit" in one for one in found.result.warnings)


async def test_a_draft_that_is_too_long_is_shortened_without_the_transcript(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    said = [("Ann", f"The crane {n} lifts {n + 20} tons.") for n in range(100)]
    prompts: list[str] = []

    def reader(request: Request) -> str:
        prompts.append(request.messages[-1].content)
        if len(prompts) > 1:
            return "\n".join(
                [*(f"L{n} = gone" for n in range(11, 101)), "L1 + L2 = - Cranes 0 and 1 lift 20. [m1]"]
            )
        return "Kind: meeting\n## Main Points\n" + "\n".join(
            f"- The crane {n} lifts {n + 20} tons. [m{n + 1}]" for n in range(100)
        )

    found = await summary([chat_of(*said)], ScriptedModel.of(summary=reader, check=careful), tokens=400)
    assert len(prompts) == 2
    assert "[m57] user (Ann)" in prompts[0]
    assert "user (Ann)" not in prompts[1]
    assert len(prompts[1]) < len(prompts[0])
    assert "- Cranes 0 and 1 lift 20. [m1]" in found.text
    assert "The crane 9 lifts 29 tons. [m10]" in found.text
    assert "The crane 10 lifts" not in found.text
    assert COUNT(found.text) <= 400


@pytest.mark.parametrize("retry", ["", "I am sorry, I cannot shorten it.", "L1 = right"])
async def test_a_summary_that_stays_too_long_loses_its_lightest_lines_and_nothing_is_replaced(
    summary: Any, chat_of: Any, careful: Any, retry: str
) -> None:
    said = [("Ann", f"The crane {n} lifts {n + 20} tons.") for n in range(60)]
    weights = {0: "! ", 59: "! ", 5: "? "}

    def reader(request: Request) -> str:
        if "Summarize" not in request.messages[-1].content:
            return retry
        rows = [f"- {weights.get(n, '')}The crane {n} lifts {n + 20} tons. [m{n + 1}]" for n in range(60)]
        return "Kind: story\n## What Happened\n" + "\n".join(rows)

    found = await summary([chat_of(*said)], ScriptedModel.of(summary=reader, check=careful), tokens=500)
    lines = re.findall(r"The crane [^\]]*\]", found.text)
    assert COUNT(found.text) <= 500
    assert len(lines) > 12
    assert lines[0] == "The crane 0 lifts 20 tons. [m1]"
    assert lines[-1] == "The crane 59 lifts 79 tons. [m60]"
    assert not any("crane 5 lifts" in line for line in lines)
    assert all(re.fullmatch(r"The crane \d+ lifts \d+ tons\. \[m\d+\]", line) for line in lines)
    assert any("were left out to fit 500 tokens" in one for one in found.result.warnings)


async def test_without_a_given_length_it_follows_that_of_the_messages(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    asked: list[int] = []

    def reader(request: Request) -> str:
        found = re.search(r"At most ([\d,]+) lines", request.messages[-1].content)
        assert found is not None
        asked.append(int(found[1]))
        return "Kind: talk\n## People\n- Ann lifts crane 1. [m1]"

    for count in (5, 50, 500):
        said = [
            ("Ann", f"The crane {n} lifts {n + 20} tons in the yard of the harbour.") for n in range(count)
        ]
        await summary([chat_of(*said)], ScriptedModel.of(summary=reader, check=careful))
    assert asked[0] < asked[1] < asked[2] < 60


async def test_later_parts_are_asked_for_as_many_lines_as_fit(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    """Lines of a model may be longer than most. What it is asked for is then not cut as too long at once."""
    told: list[int] = []
    shortened = 0
    long = "the crane of the northern yard, of the southern yard, and of the yard behind the river, " * 4

    def reader(request: Request) -> str:
        nonlocal shortened
        prompt = request.messages[-1].content
        if "too long" in prompt.partition("\n")[0]:
            shortened += 1
            return "\n".join(f"L{number} = gone" for number in range(4, 20))
        known = re.search(r"longer than ([\d,]+) lines: it has (\d+)", prompt)
        if known is None:
            count, have = 3, 0
        else:
            most, have = int(known[1]), int(known[2])
            told.append(most)
            count = max(0, most - have)
        return "Kind: meeting\n\n## Main Points\n" + "\n".join(
            f"- Point {have + n} tells of {long}and no more. [m{(have + n) * 40 + 1}]" for n in range(count)
        )

    said = [("Ann", f"Point {n // 40} of {n} tells of {long}.") for n in range(400)]
    model = ScriptedModel.of(summary=reader, check=careful, window=ModelWindow(12_000, 3_000))
    found = await summary([chat_of(*said)], model, tokens=900)
    assert len(told) >= 2
    assert max(told) <= 10
    assert shortened == 0
    assert COUNT(found.text) <= 900
