"""Test what is printed: it neutralises text of documents, repeats nothing, names limits by their options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.cli.console.exits import error_text, option_of
from rlm.cli.console.render_result import account, answer_text, full_account, no_answer
from rlm.errors import BudgetExhausted, ConfigurationError, UsageError
from rlm.escaping import json_bytes, terminal_text
from rlm.results import Citation, Coverage, Note, RunResult, Usage
from rlm.settings import Limits

HIDDEN = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def _result(**fields) -> RunResult:
    given = {
        "run_id": "r", "answer": "yes", "confidence": None, "stop_reason": "finalized", "forced": False,
        "strategy": "rlm", "citations": (), "coverage": Coverage(10), "usage": (Usage("m", 1, 1, 1, 0, 0.0),),
        "rounds": 1, "sub_calls": 0, "seconds": 1.0,
    }  # fmt: skip
    return RunResult(**{**given, **fields})


@given(st.text(st.characters(codec=None)))
def test_what_is_printed_can_be_printed(text) -> None:
    shown = terminal_text(text)
    shown.encode()
    assert not set(shown) & {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\n", "\t"}
    assert not set(shown) & set(HIDDEN)
    data = json_bytes({"text": text}).decode("utf-8")
    assert not set(data) & {*HIDDEN, *map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))}
    assert json.loads(data) == json.loads(json.dumps({"text": text}))


def test_plain_text_is_printed_as_it_is() -> None:
    text = "naïve עברית 👩\u200d🔬🙂\t\n“…”"
    assert terminal_text(text) == text


def test_a_document_s_name_stays_on_its_line() -> None:
    citation = Citation("[1]", "q", 0, 1, "a\nSources\n  [2] b\u202etxt\u2028", None, 3, True)
    shown = answer_text(_result(citations=(citation,)))
    (line,) = [line for line in shown.splitlines() if "[1]" in line or "[2]" in line]
    assert "a\\nSources\\n  [2] btxt:3" in line
    assert line.index("[1]") < line.index("[2]") < line.index("“q”")


def test_markup_of_a_text_is_verbatim_on_a_terminal() -> None:
    """In a file, which may be one of Markdown, nothing is left that a viewer would hide or fetch."""
    result = _result(answer="a <!-- b --> <img src=x>")
    assert answer_text(result, markdown=False) == "a <!-- b --> <img src=x>"
    assert "<" not in answer_text(result)


def test_the_account_says_nothing_twice_and_counts_no_nothing() -> None:
    why = "the run's 3 seconds are used up"
    failed = _result(answer=None, stop_reason="time", notes=(Note("skipped 2"), Note(why)))
    assert no_answer(failed).startswith(why)
    assert "--max-seconds" in no_answer(failed)
    for text in (account(failed), full_account(failed)):
        assert text.count("skipped 2") == 1
        assert "3 seconds" not in text
        assert "--max" not in text
        assert "citation" not in text
    citation = Citation("[1]", "q", 0, 1, "a", None, 3, True)
    assert "1 of 1 citation" in full_account(_result(citations=(citation,)))


def test_the_account_is_one_line_and_one_for_what_to_know() -> None:
    part = Coverage(1_234, scanned_chars=617, uncovered_chars=900)
    one = _result(coverage=part, usage=(Usage("m", 5, 1, 1, 0, 0.02),), rounds=2)
    assert (
        account(one, 14)
        == "14 documents, 1,234 characters · 50.0 % searched · 2 rounds, 5 calls, $0.0200 · 1.0 s · rlm show"
    )
    offline = _result(usage=(Usage("extractive", 1),), coverage=Coverage(1, complete=True))
    assert account(offline, 1) == "1 document, 1 character · 100 % read · 1.0 s · rlm show"
    warned = replace(
        one, unread=("a.bin", "b.zip"), notes=tuple(map(Note, ("a.bin is no text: skipped", "x" * 900, "z")))
    )
    line, note = account(warned).splitlines()
    assert line.startswith("1,234 characters · 2 not read · 50.0 % searched · 2 rounds")
    assert note == "note: z (2 more)"
    assert full_account(warned).count("note: ") == 3
    cited = replace(one, citations=(Citation("[1]", "q", 0, 1, "a", None, 3, True),))
    assert " · 1 of 1 citation verified · " in account(cited)
    # One share: several could not be told apart.
    assert full_account(cited).count("%") == 1


def test_a_guessed_window_is_told_where_it_may_be_why() -> None:
    """It is the same for each question, so the account leaves it to -v. A long note is cut between words."""
    guess = Note("the window of openai:m@http://127.0.0.1:18777/v1 is a guess: 128,000 tokens")
    one = _result(notes=(guess,))
    assert "guess" not in account(one)
    assert "guess" in full_account(one)
    failed = replace(one, answer=None, stop_reason="model", notes=(guess, Note("it failed")))
    assert "guess" in account(failed)
    url = "http://127.0.0.1:18777/v1/and/so/on"
    shown = account(_result(notes=(Note(f"{'word ' * 45}{url} more"),))).splitlines()[-1]
    assert shown.endswith("word …")


def test_an_answer_that_a_limit_cut_short_names_the_option_to_raise() -> None:
    assert sum("--max-cost" in line for line in account(_result(stop_reason="cost")).splitlines()) == 1
    assert "--max" not in account(_result())


def test_errors_name_limits_by_their_options() -> None:
    spent = BudgetExhausted("rounds", "the limit of 30 rounds is reached", remedy_limit="max_rounds")
    assert str(spent).endswith("limits.max_rounds")
    assert error_text(spent).startswith("the limit of 30 rounds is reached")
    assert error_text(spent).endswith("--max-rounds")
    assert error_text(BudgetExhausted("rounds", "nothing helps")) == "nothing helps"
    assert error_text(UsageError("the question is empty: ask one")) == "the question is empty: ask one"
    with pytest.raises(ConfigurationError) as caught:
        Limits(max_cost=-1)
    assert str(caught.value).startswith("limits.max_cost is -1;")
    assert error_text(caught.value).startswith("--max-cost is -1;")
    assert "at least 0" in error_text(caught.value)
    for field in set(Limits.__dataclass_fields__) - {"max_violations"}:
        assert option_of(field).startswith("--")
    assert option_of("max_violations") == "limits.max_violations"
