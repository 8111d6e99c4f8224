"""Test the printed progress: it neutralises text of documents, repeats nothing, and names limits by their
options.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import events
from rlm.cli.console.exits import error_text, option_of
from rlm.cli.console.live import LiveLine
from rlm.cli.console.progress import Progress
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


@pytest.fixture
def lines_of(monkeypatch):
    """Return the lines of these events without a terminal, one second apart."""
    clock = itertools.count(100.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    def lines(*taken: events.Event, verbose: bool = False) -> list[str]:
        stderr = io.StringIO()
        monkeypatch.setattr("sys.stderr", stderr)
        with Progress(quiet=False, seconds=60, verbose=verbose) as progress:
            for event in taken:
                progress.on_event(event)
        return stderr.getvalue().splitlines()

    return lines


def _child(done: int, asked: int) -> events.ChildEnded:
    return events.ChildEnded(True, False, done, asked, 5, 0.0, 1, 10_000)


def test_a_batch_ends_with_a_line_and_a_single_child_does_not(lines_of) -> None:
    batch = [events.ChildrenStarted(3), *(_child(done, 3) for done in (1, 2, 3))]
    (line,) = lines_of(events.RoundStarted(1, 30, final=False), *batch, verbose=True)
    for part in ("round 1 of 30", "3 of 3 children", "5 tokens", "$0", "< 0.1 %"):
        assert part in line
    assert lines_of(events.ChildrenStarted(1), _child(1, 1), verbose=True) == []
    assert lines_of(*batch) == []


def test_tokens_of_a_slow_reply_are_shown_as_they_come(lines_of) -> None:
    """They add up until the reply ends."""
    streamed = [events.ReplyStreaming(7)] * 9
    (line,) = lines_of(events.RoundStarted(1, 30, final=False), *streamed, verbose=True)
    assert line.startswith("round 1 of 30: asking the root: ")
    assert line.endswith(" tokens received")


def test_children_are_reported_every_five_seconds(lines_of) -> None:
    batch = [events.ChildrenStarted(100), *(_child(done, 100) for done in range(1, 20))]
    assert len(lines_of(*batch, verbose=True)) == 3
    assert len(lines_of(*batch)) == 0


def test_a_violated_contract_is_reported_in_words(lines_of) -> None:
    (line,) = lines_of(events.RoundStarted(2, 30, final=False), events.Violated(2, "no_block"), verbose=True)[
        -1:
    ]
    assert "round 2 of 30" in line
    assert "no repl block" in line
    assert "no_block" not in line


def test_the_live_line_has_the_time_left_and_breaks_between_words(monkeypatch) -> None:
    """The live line also shows finished and total children, coverage, tokens and cost."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    line = LiveLine("3 of 12 children, 123,456 tokens, $0.0123, 45.6 % covered")
    line.ends_at = time.monotonic() + 600
    try:
        shown = [
            "".join(segment.text for segment in row).strip()
            for row in line._console.render_lines(line, line._console.options.update(width=40))
        ]
    finally:
        line.close()
    assert max(map(len, shown)) <= 40
    text = " ".join(shown)
    assert "3 of 12 children, 123,456 tokens, $0.0123, 45.6 % covered" in text
    assert re.search(r"\b(9|10) min\b", text)
