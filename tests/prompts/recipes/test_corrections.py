"""Test the messages to the root about its replies."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts.errors import PromptError
from rlm.prompts.recipes.notices import (
    advice_on,
    correction,
    last_round_notice,
    soft_breach_reminders,
)

VIOLATIONS = (
    "no_block",
    "several_blocks",
    "unclosed_block",
    "wrong_language",
    "empty_block",
    "truncated_reply",
    "final_call",
    "tool_call",
    "repeated_block",
)


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_correction_names_the_violation_and_shows_the_one_right_shape(violation: str) -> None:
    text = correction(violation, "I will now search.")
    assert violation in text
    assert '"I will now search."' in text
    assert len(re.findall(r"^```repl$", text, re.MULTILINE)) == 1
    assert text.endswith("\n```")


def test_every_violation_has_its_own_words() -> None:
    assert len({correction(name, "x").split("Received")[0] for name in VIOLATIONS}) == len(VIOLATIONS)


@given(st.text(st.characters(exclude_categories=()), max_size=400) | st.text('\n`"\\\x00', max_size=400))
def test_what_was_received_is_quoted_on_one_line_of_at_most_200_characters(received: str) -> None:
    """A fence in it opens nothing."""
    line = next(line for line in correction("no_block", received).split("\n") if "Received: " in line)
    excerpt = line.split("Received: ", 1)[1]
    assert len(excerpt) <= 200
    shown = json.loads(excerpt)
    assert received.strip().startswith(shown.removesuffix("…"))


def test_an_unknown_violation_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(PromptError, match=r"'rude'.*no_block, several_blocks"):
        correction("rude", "")


def test_a_reminder_is_one_line_and_fits_the_breach() -> None:
    assert soft_breach_reminders("", "repl") == []
    (about_prose,) = soft_breach_reminders("Let me look.", "repl")
    (about_mark,) = soft_breach_reminders("", "python")
    *_, about_final = soft_breach_reminders("FINAL(42)", "repl")
    assert "\n" not in about_prose + about_mark + about_final
    assert "```repl" in about_prose
    assert "```repl" in about_mark
    assert "finalize(value" in about_final


def test_an_answer_outside_a_block_is_shown_how_to_submit_it() -> None:
    assert "finalize(" in correction("final_call", "FINAL(42)").rsplit("```repl", 1)[1]
    assert "If it is your answer, submit it with finalize(" in correction("no_block", "42")


def test_the_last_round_asks_for_finalize_and_says_why() -> None:
    notice = last_round_notice("the limit of 30 rounds is reached.")
    assert "last round: the limit of 30 rounds is reached. Call `finalize`" in notice


@pytest.mark.parametrize(
    ("ename", "evalue", "advice"),
    [
        ("NameError", "name 'context' is not defined", "peek(start, end)"),
        ("NameError", "name 'llm_query' is not defined", "sub_query(prompt, slice)"),
        ("NameError", "name 'FINAL_VAR' is not defined", "finalize(value)"),
        ("ModuleNotFoundError", "No module named 'pandas.io'", "`pandas` is not installed here"),
        ("TypeError", "object Hits can't be used in 'await' expression", "without `await`"),
        ("SyntaxError", "f-string: unmatched '[' (1234.py, line 1)", "use the other kind of quotes"),
    ],
)
def test_a_slip_that_models_make_is_answered_with_what_to_do(ename, evalue, advice) -> None:
    """Errors that models rarely understand get advice."""
    assert advice in advice_on(ename, evalue)


@pytest.mark.parametrize(
    ("ename", "evalue"),
    [
        ("NameError", "name 'rows' is not defined"),
        ("SyntaxError", "invalid syntax"),
        ("KeyError", "'context'"),
        ("ModuleNotFoundError", "?"),
    ],
)
def test_any_other_error_gets_no_advice(ename: str, evalue: str) -> None:
    assert advice_on(ename, evalue) == ""
