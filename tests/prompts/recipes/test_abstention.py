"""Test how a reply of NOT_FOUND is recognized."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts import NOT_FOUND, is_not_found


@pytest.mark.parametrize(
    "reply",
    [
        "NOT_FOUND",
        "  NOT_FOUND\n",
        "NOT_FOUND.",
        '"NOT_FOUND"',
        "`NOT_FOUND`",
        "**NOT_FOUND**",
        "[NOT_FOUND]",
        r"NOT\_FOUND",
        "```\nNOT_FOUND\n```",
        "NOT_FOUND\n\nNote: the slice is a licence. " + "It speaks of copies only. " * 20,
        "NOT_FOUND\nNote: one remark.\n\nNote: another one.",
        "```text\nNOT_FOUND\n```\n",
        "~~~\nNOT_FOUND\n~~~",
        "NOT_FOUND\n\nThe slice only covers the second quarter.",
        "NOT_FOUND. The slice is about something else.",
        "NOT_FOUND: no refund is mentioned",
        "**NOT_FOUND** — nothing about refunds here.",
        "Not in the documents: nothing about refunds. The nearest is page 3. It speaks of returns.",
        "not in the documents",
        "**Not in the documents** — the log ends in May.",
    ],
)
def test_these_say_that_nothing_was_found(reply: str) -> None:
    """Quotes, emphasis, punctuation, a code fence and one trailing sentence are ignored."""
    assert is_not_found(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "not found",
        "The refund was $12.",
        "NOT_FOUND is the constant that the parser returns.",
        "NOT_FOUND, but page 3 mentions a refund.",
        "The function returns NOT_FOUND.",
        "Refund of $12 on 3 May.\nNOT_FOUND",
        "NOT_FOUND\nRefund A was $12. Refund B was $30.",
        "NOT_FOUND\nfirst line\nsecond line",
        "NOT_FOUND\nNote: a remark.\nRefund A was $12. Refund B was $30.",
        "NOT_FOUND. " + "x" * 201,
        "HTTP_NOT_FOUND",
        "NOT_FOUND_ERROR",
        "NOT_FOUNDATION",
        "Not in the documents of 2019, but in those of 2020: $12.",
        "The refund is not in the documents: it is in the ledger.",
        "[]",
    ],
)
def test_these_are_answers(reply: str) -> None:
    """Text before it, or more text after it, may be evidence and is kept."""
    assert not is_not_found(reply)


@given(st.text())
def test_it_is_total_and_an_answer_is_never_mistaken(reply: str) -> None:
    """Any string is accepted. Without the word it is an answer."""
    assert not is_not_found(reply.replace("FOUND", ""))
    assert is_not_found(f" {NOT_FOUND} ")


def test_it_is_quick_on_replies_made_to_be_slow() -> None:
    """Time is near-linear in half a megabyte of characters that the pattern skips."""
    for filler in ("*", "`", " ", "\n", "NOT_", "```\n", ". "):
        assert not is_not_found(filler * 100_000 + "x")
        assert not is_not_found("NOT_FOUND" + filler * 100_000 + "x. y. z. " * 50)
