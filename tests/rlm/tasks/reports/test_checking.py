"""Claims that their sources do not support are corrected once, and else marked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from rlm.models.base import Request
from rlm.prompts.recipes.support import planted_claims
from rlm.results import NOT_SUPPORTED
from rlm.tasks.reports.questions import from_markdown
from rlm.testing import ScriptedModel

Run = Callable[..., Any]
QUESTION = "Which load of passengers does the letter of May give?"
FALSE = "The letter gives 240 passengers, which the captain denied."
TRUE = "The letter of May gives 240 passengers for the ferry."
REPLY = f'{FALSE} [1]\nEvidence:\n"the ferry Halcyon carries 240 passengers"'


def checker(correction: str) -> Callable[[Request], str]:
    """Return a checker that finds the false claim and the planted one, and corrects as told."""

    def answer(request: Request) -> str:
        prompt = request.messages[-1].content
        rows = re.findall(r"^claim (\d+) \(passages? [\d, ]+\): (.*)$", prompt, re.MULTILINE)
        if not any(text in planted_claims() for _, text in rows):
            return f'{{"claims": [{{"claim": 1, "text": "{correction}"}}]}}'
        wrong = [number for number, text in rows if text in planted_claims() or "denied" in text]
        named = ", ".join(f'{{"claim": {number}, "reason": "nobody denied it"}}' for number in wrong)
        return f'{{"unsupported": [{named}]}}'

    return answer


@pytest.mark.parametrize(("correction", "shown", "supported"), [(TRUE, TRUE, True), ("", FALSE, False)])
async def test_an_unsupported_claim_is_corrected_once_and_else_marked(
    researched: Run, correction: str, shown: str, supported: bool
) -> None:
    model = ScriptedModel.of(direct=REPLY, summary="[]", check=checker(correction))
    found = await researched(QUESTION, model)
    (one,) = found.findings
    assert (one.text, one.supported) == (shown, supported)
    assert found.report.startswith(f"- {shown} [1]" + ("" if supported else f" {NOT_SUPPORTED}"))
    assert (found.result.support.supported, found.result.support.unsupported) == (supported, not supported)
    assert found.to_json()["findings"][0]["supported"] is supported


async def test_without_the_check_no_model_is_asked_and_words_are_compared(researched: Run) -> None:
    model = ScriptedModel.of(direct=REPLY, summary="[]")
    found = await researched(QUESTION, model, check_support=False)
    assert [one.role for one in model.requests] == ["direct"]
    assert found.result.support.model is None
    assert len(found.result.support.claims) == 1


async def test_a_sentence_of_the_summary_that_its_sources_do_not_support_is_marked(researched: Run) -> None:
    """A finding that is not supported is not told to the model that writes the summary."""
    said = "The newspaper gives 310 passengers [2]. Her captain denied it [2]."

    def direct(request: Request) -> str:
        if request.task == QUESTION:
            return REPLY
        return 'The newspaper gives 310. [1]\nEvidence:\n"the ferry Halcyon carries 310 passengers"'

    model = ScriptedModel.of(direct=direct, summary=said, check=checker(""))
    plan = from_markdown(f"# T\n- {QUESTION}\n- Which load does the newspaper give?\n")
    found = await researched("Report on the Halcyon", model, plan=plan)
    assert found.report.startswith(f"{said} {NOT_SUPPORTED}")
    asked = [one.messages[-1].content for one in model.requests if one.role == "summary"]
    assert len(asked) == 2
    assert not any("denied" in one.partition("Task:")[2] for one in asked)


async def test_what_was_computed_is_not_corrected_away(researched: Run, block: Callable[[str], str]) -> None:
    """No passage says that a ferry carries the most: it was counted over all."""
    counted = "Of all ferries the Halcyon carries the most, 240 passengers."
    code = block(
        f"h = search('carries 240 passengers')\nprint(h)\nfinalize({counted!r} + ' [1]', evidence=h[:1])"
    )
    model = ScriptedModel.of(root=[code, code], summary="[]", check=checker("A ferry carries 240."))
    plan = from_markdown("# T\n- Which ferry carries the most passengers?\n")
    found = await researched("T", model, plan=plan, strategy="rlm")
    assert [one.text for one in found.findings] == [counted]
    assert "check" not in [one.role for one in model.requests]
