"""Test the direct strategy: one cited call for a short context, and its fallback."""

from __future__ import annotations

import pytest

from rlm import Settings
from rlm.answers.absence import NOT_IN_DOCUMENTS
from rlm.models.base import ModelWindow, Reply
from rlm.testing import ScriptedModel

BODY = "The lease began on 1 May 2019.\nEither party may end it with ninety days' notice.\n"
GOOD = 'Ninety days.\n\nEvidence:\n- "Either party may end it with ninety days\' notice."\n'


async def test_a_short_context_is_answered_by_one_call(run) -> None:
    """A context under direct_below_tokens takes one cited call without a kernel."""
    model = ScriptedModel.of(direct=[GOOD])
    result = await run(model, BODY, settings=Settings())
    assert (result.answer, result.strategy, result.rounds) == ("Ninety days.", "direct", 0)
    (citation,) = result.citations
    assert (citation.verified, citation.line) == (True, 2)
    assert result.coverage.complete
    assert BODY.splitlines()[1] in model.requests[0].messages[-1].content


async def test_a_small_model_is_asked_directly_with_the_room_that_its_own_replies_leave(run) -> None:
    """Its window is smaller than the longest reply that a direct call allows larger models."""
    model = ScriptedModel.of(direct=[GOOD], window=ModelWindow(8_000, 2_000))
    result = await run(model, BODY, settings=Settings())
    assert (result.answer, result.strategy) == ("Ninety days.", "direct")
    assert model.requests[0].max_output_tokens == 2_000


async def test_a_small_model_may_be_the_root(run, block) -> None:
    """Its prompt gets what its own longest reply leaves of the window."""
    cell = block("peek(0, 9)\nfinalize('from the rlm')")
    model = ScriptedModel.of(root=[cell], window=ModelWindow(8_000, 2_000))
    result = await run(model, BODY, settings=Settings(strategy="rlm"))
    assert result.answer == "from the rlm"


async def test_the_quotes_do_not_count_against_the_form_that_the_task_fixes(run) -> None:
    """A task that wants only the letter gets it, and the quotes are checked all the same."""
    model = ScriptedModel.of(direct=['B\n\nEvidence:\n"with ninety days\' notice"'])
    result = await run(model, BODY, settings=Settings(), task="A: 60, B: 90? Answer with the letter only.")
    assert (result.answer, result.strategy) == ("B", "direct")
    asked = model.requests[0].messages[-1].content
    assert "in exactly the form that the task asks for" in asked
    assert asked.index("the letter only") < asked.index("checked and taken off")


@pytest.mark.parametrize(
    "reply",
    ["NOT_FOUND", "Ninety days.", 'Sixty.\n\nEvidence:\n"Either party may end it with sixty days\' notice."'],
)
async def test_an_answer_with_unverified_quotes_falls_back_to_an_rlm(run, block, reply) -> None:
    """The fallback applies if the model abstains or its citations are unverified."""
    model = ScriptedModel.of(direct=[reply], root=[block("peek(0, 9)\nfinalize('from the rlm')")])
    result = await run(model, BODY, settings=Settings())
    assert (result.answer, result.strategy) == ("from the rlm", "rlm")
    assert any("continued as an RLM" in warning for warning in result.warnings)


UNPROVEN = 'Sixty.\n\nEvidence:\n"Either party may end it with sixty days\' notice."'


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        ("NOT_FOUND", "not_found", "does not hold the answer"),
        ("Not in the documents: nothing on it.", "not_found", "does not hold the answer"),
        ("Ninety days.", "unverified", "no quotes that are all in the text"),
        (UNPROVEN, "unverified", "no quotes that are all in the text"),
        (" \n", "empty_reply", "was empty"),
        ("<think>hm</think>", "empty_reply", "was empty"),
        (Reply("Ninety", "length"), "truncated_reply", "cut by the output limit"),
        (Reply("no", "refusal"), "refused_reply", "refused to answer"),
    ],
)
async def test_direct_can_be_forced_and_then_says_why_there_is_no_answer(run, reply, reason, words) -> None:
    """It has no fallback, and `finalized` is the end of an answer only."""
    model = ScriptedModel.of(direct=lambda request: reply)
    result = await run(model, BODY, settings=Settings(strategy="direct"))
    assert (result.found, result.strategy, result.stop_reason) == (False, "direct", reason)
    assert result.answer == (NOT_IN_DOCUMENTS if reason == "not_found" else None)
    assert words in result.warnings[-1]


async def test_a_direct_reply_of_another_type_is_told(run) -> None:
    model = ScriptedModel.of(direct=[GOOD])
    result = await run(model, BODY, settings=Settings(strategy="direct"), schema=int)
    assert (result.answer, result.stop_reason) == (None, "invalid_reply")
    assert "not what was asked for: Your last answer was not JSON" in result.warnings[-1]


async def test_a_long_context_is_not_tried_directly(run, block) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")])
    result = await run(model, BODY * 1_000, settings=Settings())
    assert result.strategy == "rlm"
    assert [request.role for request in model.requests] == ["root"]
