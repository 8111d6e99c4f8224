"""The lines of a summary, the messages that support them, and the check of its facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts.history import HEADINGS, Extraction, Message
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.fact_check import check, facts_of
from rlm.tasks.summaries.summary_lines import Line, Tracer, page, parse_lines


def entries(*said: str) -> list[Entry]:
    return [Entry(0, 1, Message("user", text, id=f"m{place}"), "chat") for place, text in enumerate(said, 1)]


WRITTEN = """\
Preamble without a mark.

## Task Summary
- Refunds must be idempotent [m1]
* The limit is 5,000 euros [m2, m3]
1. It has to answer within 2 seconds on (M3) [m6–m4], [m120-22].

**Key decisions:**
- Store the event id,
  and refuse a known one. [m7, 9]
## Something of its own
- None found.
## Errors Resolved
- [m8]
  ```
  OperationalError: database is locked
    at line 3
  ```
"""


def test_a_summary_is_read_line_by_line_with_its_marks() -> None:
    assert parse_lines(WRITTEN) == [
        Line("Task Summary", "Preamble without a mark."),
        Line("Task Summary", "Refunds must be idempotent", ("m1",)),
        Line("Task Summary", "The limit is 5,000 euros", ("m2", "m3")),
        Line(
            "Task Summary",
            "It has to answer within 2 seconds on (M3),.",
            ("m4", "m5", "m6", "m120", "m121", "m122"),
        ),
        Line("Key Decisions", "Store the event id, and refuse a known one.", ("m7", "m9")),
        Line("Errors Resolved", "```\nOperationalError: database is locked\n  at line 3\n```", ("m8",)),
    ]


def test_a_range_is_read_whole_and_of_an_endless_one_the_ends() -> None:
    (line,) = parse_lines("- All of it [m1-m40]")
    assert line.names == tuple(f"m{number}" for number in range(1, 41))
    (line,) = parse_lines("- All of it [m2-m9999999]")
    assert line.names == ("m2", "m9999999")


def test_a_line_that_begins_with_no_is_kept_but_a_statement_of_no_lines_is_not() -> None:
    said = [
        "No queue.",
        "No retries. [m4]",
        "None [m2]",
        "None found.",
        "No errors found.",
        "N/A",
        "Nothing yet.",
    ]
    page_of_it = "## Key Decisions\n" + "\n".join(f"- {one}" for one in said)
    assert [(line.text, line.names) for line in parse_lines(page_of_it)] == [
        ("No queue.", ()),
        ("No retries.", ("m4",)),
    ]


_TEXTS = st.text(alphabet="ab 1.\n-#[]m,`é中", max_size=60)


@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(HEADINGS),
            st.from_regex(r"[a-z]{3,8}( [a-z0-9]{2,6}){1,4}", fullmatch=True),
            st.sets(st.integers(1, 99), min_size=1, max_size=3),
        )
    )
)
def test_a_page_can_be_parsed_again(lines: list[tuple[str, str, set[int]]]) -> None:
    made = [Line(heading, text, tuple(f"m{n}" for n in sorted(names))) for heading, text, names in lines]
    ordered = [line for heading in HEADINGS for line in made if line.heading == heading]
    assert parse_lines(page(made)) == ordered


@given(text=_TEXTS)
def test_any_reply_can_be_read_and_every_page_has_the_five_headings(text: str) -> None:
    shown = page(parse_lines(text))
    assert [line[3:] for line in shown.splitlines() if line.startswith("## ") and line[3:] in HEADINGS][:5]
    assert all(f"## {heading}" in shown for heading in HEADINGS)


def test_every_mark_of_a_message_that_exists_is_kept() -> None:
    """`They miss` may rest on a message without one word of the line. Marks of no message are told."""
    tracer = Tracer(entries("The refund must be idempotent.", "We use a unique index.", "Thanks!"))
    given = [
        Line("Task Summary", "Refunds: the refund is idempotent", ("m1", "m2", "m3")),
        Line("Key Decisions", "They use a unique index", ("m3", "m99")),
        Line("Key Decisions", "We use a unique index"),
        Line("Current State", "Everything was deployed to production on Mars", ("m98",)),
        Line("Current State", "Everything was deployed to production on Mars"),
    ]
    assert [tracer.find_sources(line) for line in given] == [("m1", "m2", "m3"), ("m3",), ("m2",), (), ()]
    assert list(tracer.unknown) == ["m99", "m98"]


HISTORY = (
    "The refund must never be paid twice, and the webhook has to answer within 2 seconds.",
    "We decided to store the event id in refund_events, because the provider keeps it across retries.",
    "It failed: sqlite3.OperationalError: database is locked, caused by two writers in tests/test_it.py.",
    "ok",
    "The endpoint is merged and behind the flag refunds_v2. Still to do: rate limiting at 50 per minute.",
)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("The refund must never be paid twice; the webhook has to answer within 2 seconds.", True),
        ("The refund must never be paid twice; the webhook has to answer within 3 seconds.", False),
        ("Refunds are important.", False),
    ],
)
def test_a_fact_is_kept_by_a_line_with_its_numbers_and_most_of_its_words(line: str, kept: bool) -> None:
    facts = facts_of(Extraction([one.message for one in entries(*HISTORY)]), len(HISTORY))
    place = next(place for place, fact in enumerate(facts) if "webhook" in fact.text)
    assert check(facts, [Line("Task Summary", line)])[place] is kept


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (
            (("The refund must never be paid twice.", "m1"), ("The webhook answers within 2 seconds.", "m1")),
            True,
        ),
        ((("Refunds: never paid twice, and a webhook that answers in 2 seconds at most.", "m1"),), True),
        (
            (("The refund must never be paid twice.", "m1"), ("The webhook answers within 2 seconds.", "m4")),
            False,
        ),
        ((("Refunds: never paid twice, and a webhook that answers in 5 seconds at most.", "m1"),), False),
    ],
    ids=["in two lines", "in other words", "the other line is about another message", "another number"],
)
def test_a_fact_is_kept_by_lines_that_cite_its_message(
    lines: tuple[tuple[str, str], ...], kept: bool
) -> None:
    said = entries(*HISTORY)
    facts = facts_of(Extraction([one.message for one in said]), len(HISTORY))
    place = next(place for place, fact in enumerate(facts) if "webhook" in fact.text)
    given = [Line("Task Summary", text, (name,)) for text, name in lines]
    assert check(facts, given, [one.name for one in said])[place] is kept


def test_a_fact_is_lost_with_its_ticket_number_and_nearby_text_is_not_a_fact() -> None:
    said = entries(
        "We will split flush_batch() later, filed FIN-5019.", "Lovely weather. We must not log iban. Yes."
    )
    facts = facts_of(Extraction([one.message for one in said]), len(said))
    assert [fact.text for fact in facts if "weather" in fact.text] == []
    place = next(place for place, fact in enumerate(facts) if "FIN" in fact.text)
    lines = [
        Line("Remaining Work", f"Ann splits `flush_batch()` later{more}.", ("m1",))
        for more in ("", " (FIN-5019)")
    ]
    assert [check(facts, [line], ["m1", "m2"])[place] for line in lines] == [False, True]


def test_any_fact_is_kept_word_for_word() -> None:
    said = entries(
        *HISTORY,
        "We must not restart queue_5019 on db26 before 4.5 GB are free.",
        "必须支持 200 个并发连接，不得超过 40 毫秒。",
        "Fixed: src/lock.py:12 raised E1205, because `max_conn=8` was read as text.",
    )
    facts = facts_of(Extraction([one.message for one in said]), len(said))
    assert any("queue_5019" in fact.text for fact in facts)
    assert all(check(facts, [Line(fact.heading, fact.text) for fact in facts]))


def test_a_fact_is_kept_in_other_forms_of_its_words() -> None:
    said = entries("We decided to store each event, because the provider keeps them.", "ok", "fine")
    facts = facts_of(Extraction([one.message for one in said]), len(said))
    place = next(place for place, fact in enumerate(facts) if "store" in fact.text)
    line = Line("Key Decisions", "Deciding: events are stored, because providers are keeping them each.")
    assert check(facts, [line])[place]
    other = Line("Key Decisions", "Because of them: each is kept.")
    assert not check(facts, [other])[place]


def test_a_range_of_marks_is_limited() -> None:
    (line,) = parse_lines("## Key Decisions\n- Yes, so it is. [m3-5, m100-m9000000]")
    assert line.names[:4] == ("m3", "m4", "m5", "m100")
    assert len(line.names) < 30


def test_lines_in_a_script_without_spaces_are_traced() -> None:
    tracer = Tracer(entries("退款不能重复,接口必须在两秒内返回。", "我们决定保存事件编号。", "好的"))
    given = [Line("Task Summary", "接口两秒内必须返回", ("m1",)), Line("Key Decisions", "决定保存事件编号")]
    assert [tracer.find_sources(line) for line in given] == [("m1",), ("m2",)]


def test_requirements_decisions_errors_state_and_open_tasks_are_facts() -> None:
    facts = facts_of(Extraction([one.message for one in entries(*HISTORY)]), len(HISTORY))
    texts = " ".join(fact.text for fact in facts)
    for word in ("webhook", "refund_events", "OperationalError", "refunds_v2", "rate limiting"):
        assert word in texts
    assert "ok" not in [fact.text for fact in facts]
