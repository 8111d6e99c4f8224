"""Claims that their sources do not support are marked, and stay as they were written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlm.models.base import Request
from rlm.results import NOT_SUPPORTED
from rlm.tasks.reports.plan import from_markdown
from rlm.testing import ScriptedModel
from tests.rlm.answers.support.planted import claims_in, is_planted

Run = Callable[..., Any]
QUESTION = "Which load of passengers does the letter of May give?"
PLAN = from_markdown(f"# {QUESTION}\n- {QUESTION} [fact]\n")
FALSE = "The letter gives 240 passengers, which the captain denied."
REPLY = f'{FALSE} [1]\nEvidence:\n"the ferry Halcyon carries 240 passengers"'


def checker(request: Request) -> str:
    """Find the false claim and the planted one. Nothing says the false one, and nothing contradicts it."""
    prompt = request.messages[-1].content
    wrong = [number for number, text in claims_in(prompt) if is_planted(text, prompt) or "denied" in text]
    named = ", ".join(f'{{"claim": {n}, "reason": "not said", "contradicted": false}}' for n in wrong)
    return f'{{"unsupported": [{named}]}}'


async def test_an_unsupported_claim_is_marked_and_stays_as_it_was_written(researched: Run) -> None:
    model = ScriptedModel.of(direct=REPLY, summary="[]", check=checker)
    found = await researched(QUESTION, model, plan=PLAN)
    (one,) = found.findings
    assert (one.text, one.supported) == (FALSE, False)
    assert found.report.startswith(f"{FALSE} [1] {NOT_SUPPORTED}\n\n## Sources")
    assert found.result.support.unsupported == 1
    assert found.to_json()["findings"][0]["supported"] is False


async def test_without_the_check_no_model_is_asked_and_words_are_compared(researched: Run) -> None:
    model = ScriptedModel.of(direct=REPLY, summary="[]")
    found = await researched(QUESTION, model, plan=PLAN, check_support=False)
    assert [one.role for one in model.requests] == ["direct"]
    assert found.result.support.model is None
    assert len(found.result.support.claims) == 1


async def test_a_sentence_of_the_summary_that_its_sources_do_not_support_is_marked(researched: Run) -> None:
    """The model that writes the summary is told which claims are not supported."""
    said = "The newspaper gives 310 passengers [2]. Her captain denied it [2]."

    def direct(request: Request) -> str:
        if request.task == QUESTION:
            return REPLY
        return 'The newspaper gives 310. [1]\nEvidence:\n"the ferry Halcyon carries 310 passengers"'

    model = ScriptedModel.of(direct=direct, summary=said, check=checker)
    plan = from_markdown(f"# T\n- {QUESTION} [fact]\n- Which load does the newspaper give? [fact]\n")
    found = await researched("Report on the Halcyon", model, plan=plan)
    assert found.report.startswith(f"{said} {NOT_SUPPORTED}")
    asked = [one.messages[-1].content for one in model.requests if one.role == "summary"]
    assert len(asked) == 2
    assert f"{FALSE} [1] {NOT_SUPPORTED}" in asked[-1]


async def test_what_was_computed_is_not_marked(researched: Run, block: Callable[[str], str]) -> None:
    """No passage says that a ferry carries the most: it was counted over all."""
    counted = "Of all ferries the Halcyon carries the most, which one denied."
    code = block(
        f"h = search('carries 240 passengers')\nprint(h)\nfinalize({counted!r} + ' [1]', evidence=h[:1])"
    )
    model = ScriptedModel.of(root=[code, code], summary="[]", check=checker)
    plan = from_markdown("# T\n- Which ferry carries the most passengers?\n")
    found = await researched("T", model, plan=plan, strategy="rlm")
    assert [(one.text, one.supported) for one in found.findings] == [(counted, None)]
    assert NOT_SUPPORTED not in found.report
