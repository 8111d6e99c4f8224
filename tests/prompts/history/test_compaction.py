"""Test compacting chat histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts import get_counter
from rlm.prompts.errors import BudgetExceeded, SectionError
from rlm.prompts.history import (
    BREAK,
    SUMMARY_PROMPT,
    CompactedHistory,
    Message,
    compact_history,
)
from rlm.prompts.history.message import Role, render, units

HEADINGS = ("Task Summary", "Key Decisions", "Errors Resolved", "Current State", "Remaining Work")
CHARS = get_counter("chars")
count = get_counter().count


def chat(length: int, words: int = 30, rules: bool = True) -> list[Message]:
    """Make messages that share only small words."""
    talk = [
        Message(
            "user" if place % 2 == 0 else "assistant",
            f"Turn {place}: " + " ".join(f"word{place}x{n}" for n in range(words)),
        )
        for place in range(length)
    ]
    return [Message("system", "Use tabs.\nNever push to main."), *talk] if rules else talk


class Summarizer:
    """Answers with a short summary that numbers its prompt, and records all prompts."""

    def __init__(self, answer: Callable[[int, str], str] | None = None) -> None:
        self.prompts: list[str] = []
        self._answer = answer or (lambda number, prompt: f"## Task Summary\n- fact {number} [m2]")

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self._answer(len(self.prompts), prompt)


def test_up_to_the_threshold_a_history_is_whole_and_no_model_is_called_equality_included() -> None:
    """At most floor(budget × threshold / 100)."""
    messages = [Message("user", "a" * 70), Message("assistant", "b" * 65)]
    whole = "user: " + "a" * 70 + "\n\nassistant: " + "b" * 65
    budget = 190
    assert len(whole) == 154 > budget * 80 // 100
    asked = Summarizer(lambda number, prompt: "- s")
    assert compact_history(messages, budget=193, counter=CHARS, summarizer=asked, window=9_000).text == whole
    assert asked.prompts == []
    fits = compact_history(messages, budget=154, counter=CHARS, threshold=100, summarizer=asked, window=9_000)
    assert (fits.text, fits.tokens, fits.kind, fits.messages) == (whole, 154, "whole", tuple(messages))
    assert asked.prompts == []


def test_the_summary_prompt_is_one_constant_with_five_points_joined_by_a_rule() -> None:
    """It has five points, five headings and `\n\n---\n\n`."""
    points = [line for line in SUMMARY_PROMPT.splitlines() if line[:2] in {f"{n}." for n in range(1, 6)}]
    assert len(points) == 5
    for word, point in zip(
        ("requested", "decisions", "errors", "current state", "still"), points, strict=True
    ):
        assert word in point
    assert all(f"## {heading}" in SUMMARY_PROMPT for heading in HEADINGS)
    assert BREAK == "\n\n---\n\n"
    asked = Summarizer()
    compact_history(chat(60), budget=2_000, summarizer=asked)
    (prompt,) = asked.prompts
    assert prompt.startswith(f"{SUMMARY_PROMPT}\n\n---\n\n[m2] user: Turn 0: ")


@pytest.mark.parametrize("answer", ["", "  \n", RuntimeError("no connection"), "word " * 20_000])
def test_a_summary_that_fails_is_empty_or_too_long_never_replaces_history(answer: str | Exception) -> None:
    """The most recent messages that fit are kept, in order, with a warning."""

    def summarizer(prompt: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    messages = chat(200)
    result = compact_history(messages, budget=4_000, summarizer=summarizer)
    assert (result.kind, result.summary) == ("recent", None)
    assert result.messages == (messages[0], *messages[-(len(result.messages) - 1) :])
    assert 3_000 < result.tokens <= 4_000
    out = len(messages) - len(result.messages)
    assert f"[… {out} earlier messages left out …]" in result.text
    (warning,) = result.warnings
    assert warning.startswith(f"{out} of {len(messages)} messages were left out")
    if isinstance(answer, Exception):
        assert "RuntimeError: no connection" in warning


def test_the_summarisers_own_input_is_bounded_by_chunks_at_message_borders() -> None:
    """Every prompt fits the window, and every message is in one prompt, whole and in order."""
    messages = chat(300)
    asked = Summarizer()
    result = compact_history(messages, budget=4_000, summarizer=asked, window=5_000)
    assert len(asked.prompts) > 3
    assert all(count(prompt) <= 5_000 for prompt in asked.prompts)
    folded = [message for message in messages[1:] if message not in result.messages[1:]]
    places = []
    for message in folded:
        inside = [at for at, prompt in enumerate(asked.prompts) if render(message) in prompt]
        assert len(inside) == 1
        places += inside
    assert places == sorted(places)
    assert result.summary == f"## Task Summary\n- fact {len(asked.prompts)} [m2]"


def test_a_message_of_more_parts_than_a_message_may_take_is_cut_and_reported() -> None:
    """The limit holds for a huge tool result, too, and the cut is reported."""
    messages = chat(20)
    messages.insert(3, Message("assistant", "run it", tool_call_id="c1"))
    messages.insert(4, Message("tool", "\n".join(f"log line {n}" for n in range(40_000)), tool_call_id="c1"))
    asked = Summarizer()
    result = compact_history(messages, budget=2_000, summarizer=asked, window=4_000)
    assert all(count(prompt) <= 4_000 for prompt in asked.prompts)
    assert any("m5 was cut in the middle" in action for action in result.actions)
    assert any("characters cut" in prompt for prompt in asked.prompts)
    assert any("log line 39999" in prompt for prompt in asked.prompts)
    assert len(asked.prompts) <= 20


def test_a_summary_over_its_room_is_shortened_once_and_the_history_is_not_sent_again() -> None:
    """The retry sends only the draft."""
    long = "## Task Summary\n" + "\n".join(f"- fact {n}: {'x y z ' * 20}[m2]" for n in range(200))
    asked = Summarizer(lambda number, prompt: long if number == 1 else "- short [m3]")
    result = compact_history(chat(200), budget=4_000, summarizer=asked)
    assert result.summary == "- short [m3]"
    first, second, *_ = asked.prompts
    assert "Turn 0" in first
    assert "Turn 0" not in second
    assert second.endswith(f"{BREAK}{long}")


def test_a_summary_that_stays_too_long_gives_way_to_recent_messages_and_is_never_cut() -> None:
    lines = [f"- fact {n}: {'x y z ' * 20}[m2]" for n in range(200)]
    asked = Summarizer(lambda number, prompt: "\n".join(["## Task Summary", *lines]))
    result = compact_history(chat(200), budget=4_000, summarizer=asked, window=100_000)
    assert len(asked.prompts) == 2
    assert result.kind == "recent"
    assert "fact 3" not in result.text
    assert "was not shortened" in result.warnings[0]


@pytest.mark.parametrize("summarizer", [None, Summarizer()])
def test_rules_and_the_last_user_request_stay_verbatim(summarizer: Summarizer | None) -> None:
    """However old the request is."""
    request = "Rename the table,\n  but keep the view `v_old`."
    messages = chat(60)
    messages += [Message("user", request)]
    messages += [
        Message("assistant", f"Step {n}. " + " ".join(f"a{n}b{k}" for k in range(30))) for n in range(150)
    ]
    result = compact_history(messages, budget=4_000, summarizer=summarizer)
    assert result.kind == "summary"
    assert result.messages[:2] == (messages[0], Message("user", request))
    assert f"user: {request}" in result.text
    assert result.text.startswith("system: Use tabs.\nNever push to main.")
    assert result.tokens <= 4_000


def test_a_gain_under_ten_per_cent_stops_it() -> None:
    """A summary as long as its input is not used, and no more chunks are requested."""
    messages = chat(300)
    asked = Summarizer(lambda number, prompt: prompt.split(BREAK, 1)[1][:-200])
    result = compact_history(messages, budget=20_000, summarizer=asked, window=5_000)
    assert len(asked.prompts) <= 2
    assert result.summary is None
    assert "less than 10%" in result.warnings[0] or "took" in result.warnings[0]


def test_nothing_is_asked_where_folding_could_not_gain() -> None:
    """A history that fits stays whole if nearly all of it is pinned."""
    messages = [*chat(2, words=4), Message("user", "please " * 2_000)]
    asked = Summarizer()
    budget = count(messages[-1].content) + 200
    result = compact_history(messages, budget=budget, summarizer=asked)
    assert (result.kind, asked.prompts) == ("whole", [])
    assert result.warnings == ("left whole: a summary would save less than 10%",)


def test_a_summary_is_folded_with_new_messages_and_never_summarised_alone() -> None:
    """Every prompt contains messages that no earlier prompt contained."""
    asked = Summarizer()
    compact_history(chat(300), budget=4_000, summarizer=asked, window=5_000)
    for before, prompt in zip(asked.prompts, asked.prompts[1:], strict=False):
        so_far, new = prompt.split("New messages:\n\n")
        assert so_far.rstrip().endswith("[m2]")
        assert "Turn" in new
        assert new not in before


def test_the_threshold_follows_the_window_of_the_reader() -> None:
    """The same chat is whole in a large budget and compacted in a small one."""
    messages = chat(100)
    size = compact_history(messages, budget=1_000_000).tokens
    assert compact_history(messages, budget=size * 10 // 8 + 2).kind == "whole"
    assert compact_history(messages, budget=size).kind == "summary"
    assert compact_history(messages, budget=size, threshold=100).kind == "whole"


def test_a_tool_call_and_its_result_stay_together() -> None:
    """In the tail, in a chunk and in the fallback, at every budget."""
    messages = [Message("system", "the rules")]
    for n in range(40):
        messages += [
            Message("user", f"ask {n} " + "why " * 10),
            Message("assistant", f"call {n} " + "arg " * 15, tool_call_id="call_0"),  # ids come again
            Message("tool", f"result {n} " + "row " * 30, tool_call_id="call_0"),
        ]
    for budget in range(700, 3_000, 170):
        for summarizer in (None, Summarizer(), Summarizer(lambda number, prompt: "")):
            result = compact_history(messages, budget=budget, summarizer=summarizer, window=1_500)
            kept = {
                message.content.split(" ")[0] + message.content.split(" ")[1] for message in result.messages
            }
            for n in range(40):
                assert (f"call {n}" in kept) == (f"result {n}" in kept)
            for prompt in summarizer.prompts if summarizer else ():
                for n in range(40):
                    assert (f"call {n} " in prompt) == (f"result {n} " in prompt)


def test_parallel_calls_and_a_result_without_an_id_stay_with_their_call() -> None:
    """A result belongs to the nearest call with its id, or to the message before."""
    roles: list[tuple[Role, str | None]] = [
        ("user", None),
        ("assistant", "a"),
        ("assistant", "b"),
        ("tool", "a"),
        ("tool", "b"),
        ("assistant", None),
        ("tool", None),
        ("user", None),
    ]
    messages = [Message(role, "x", tool_call_id=call) for role, call in roles]
    assert units(messages) == [range(1), range(1, 5), range(5, 7), range(7, 8)]


def test_a_history_that_grew_by_ten_messages_costs_one_chunk() -> None:
    """Chunk summaries are cached by hash: ten more messages cost at most one prompt."""
    messages = chat(700, words=8)
    cache: dict[str, str] = {}
    most = 0
    for length in range(200, 700, 10):
        asked = Summarizer(lambda number, prompt: f"- {len(prompt)} [m2]")
        grown = compact_history(messages[:length], budget=8_000, summarizer=asked, window=8_000, cache=cache)
        assert grown.kind == ("summary" if asked.prompts or "from cache" in str(grown.actions) else "whole")
        if length > 210:
            most = max(most, len(asked.prompts))
        cold = Summarizer(lambda number, prompt: f"- {len(prompt)} [m2]")
        if length % 100 == 0:
            again = compact_history(messages[:length], budget=8_000, summarizer=cold, window=8_000)
            assert again.text == grown.text  # a cache changes the cost alone
    assert most == 1


def test_no_prompt_changes_with_the_length_of_the_last_request() -> None:
    """Otherwise no cached summary would be found again."""
    asked: list[list[str]] = []
    for words in (10, 1_500):
        prompts: list[str] = []

        def summarizer(prompt: str, prompts: list[str] = prompts) -> str:
            prompts.append(prompt)
            return "## Task Summary\n- Use tabs. [m1]"

        messages = [*chat(400), Message("user", "again " * words)]
        compact_history(messages, budget=6_000, summarizer=summarizer, window=30_000)
        asked.append(prompts)
    assert len(asked[0]) > 1
    assert asked[0][:-1] == asked[1][: len(asked[0]) - 1]


def test_nothing_failed_is_cached() -> None:
    """After an empty answer the prompt is sent again."""
    cache: dict[str, str] = {}
    compact_history(chat(200), budget=4_000, summarizer=lambda prompt: "", cache=cache)
    assert cache == {}


def test_summary_lines_name_the_messages_they_came_from() -> None:
    """By position in the whole history, counted from 1, or by the messages' own ids."""
    messages = chat(80)
    messages[5] = Message("user", "Uploads must never exceed 25 MB.")
    messages[9] = Message("assistant", "We decided on SQLite because nobody runs a server.", id="c-17")
    asked = Summarizer()
    compact_history(messages, budget=2_000, summarizer=asked)
    assert "[m6] user: Uploads" in asked.prompts[0]
    assert "[c-17] assistant: We decided" in asked.prompts[0]
    text = compact_history(messages, budget=2_000).text
    assert "- Uploads must never exceed 25 MB. [m6]" in text
    assert "- We decided on SQLite because nobody runs a server. [c-17]" in text


def test_code_that_worked_or_failed_stays_as_it_was_written() -> None:
    """A fenced snippet keeps its line breaks."""
    code = "def total(rows):\n    return sum(r['net'] for r in rows)"
    messages = chat(120)
    messages[30] = Message("assistant", f"This fixed the rounding error:\n```python\n{code}\n```\nMerged.")
    summary = compact_history(messages, budget=2_500).summary
    assert summary is not None
    assert code.replace("\n", "\n  ") in summary


def test_settings_that_cannot_be_are_named_all_at_once() -> None:
    with pytest.raises(SectionError) as caught:
        compact_history([], budget=-1, threshold=0, window=10)
    assert len(caught.value.faults) == 3
    assert compact_history([], budget=0) == CompactedHistory("", (), None, 0)


def test_the_example_in_the_docs_holds() -> None:
    page = (Path(__file__).parents[3] / "docs" / "prompts.md").read_text(encoding="utf-8")
    code = page.split("```py\n")[1].split("```")[0]
    assert "assert" in code
    exec(code, {})


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60) | st.sampled_from(
    [
        "```\ncode\n",
        "---",
        "## Task Summary",
        "We must. " * 12,
        "[m3]",
        "错误：超时。" * 6,
        "\0",
        "word " * 80,
    ]
)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "assistant", "tool"]),
        TEXT,
        author=st.none() | st.just("Ann"),
        tool_call_id=st.none() | st.sampled_from("ab"),
    ),
    max_size=25,
)
ANSWERS = st.none() | st.lists(TEXT | st.just("x " * 3_000), min_size=1, max_size=4)


@given(MESSAGES, st.integers(0, 600), st.sampled_from(["estimate", "chars", "chars4_ceil"]), ANSWERS)
@settings(max_examples=200)
def test_never_over_budget_never_out_of_order_and_always_the_same(
    messages: list[Message], budget: int, name: str, answers: list[str] | None
) -> None:
    """For any messages and any answers: the result fits the budget, or BudgetExceeded is raised. It contains
    the rules and the last request, and the kept messages in order; one that was cut says so. Equal input
    gives equal bytes, and the input is unchanged."""
    counter = get_counter(name)
    given_messages = list(messages)

    def once() -> CompactedHistory | str:
        summarizer = Summarizer(lambda number, prompt: answers[number % len(answers)]) if answers else None
        try:
            return compact_history(
                messages, budget=budget, counter=counter, summarizer=summarizer, window=20_000
            )
        except BudgetExceeded as error:
            return str(error)

    result = once()
    assert once() == result
    assert messages == given_messages
    if isinstance(result, str):
        return
    assert result.tokens == counter.count(result.text) <= budget
    cut = [message for message in result.messages if message not in messages]
    assert all("characters cut" in message.content for message in cut)
    assert len(cut) <= len([warning for warning in result.warnings if "was cut" in warning])
    places = iter(messages)
    assert all(message in places for message in result.messages if message not in cut)
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    assert last is None or last in result.messages or cut
    assert [m for m in result.messages if m.role == "system"] == [m for m in messages if m.role == "system"]
    left_out = len(result.messages) < len(messages) and result.summary is None
    assert (result.kind == "recent") == (left_out or (bool(cut) and result.summary is None))


def test_a_last_request_over_the_budget_is_cut_in_the_middle_and_said() -> None:
    log = "first line of the log\n" + "noise " * 4_000 + "\nlast line: disk full"
    messages = [
        Message("system", "Answer in English."),
        Message("assistant", "Send me the log."),
        Message("user", log),
    ]
    result = compact_history(messages, budget=600, counter=CHARS)
    assert result.tokens <= 600
    assert "first line of the log" in result.text
    assert "last line: disk full" in result.text
    assert "Answer in English." in result.text
    assert result.kind != "whole"
    assert result.warnings[0].startswith("the last request was cut in the middle")


def test_rules_over_the_budget_still_raise() -> None:
    with pytest.raises(BudgetExceeded, match="the rules"):
        compact_history([Message("system", "x" * 500), Message("user", "hi")], budget=200, counter=CHARS)


def test_a_newest_message_over_the_budget_keeps_its_end_when_no_summary_can_be_had() -> None:
    def broken(prompt: str) -> str:
        raise RuntimeError("down")

    messages = [Message("user", "Fix it."), Message("assistant", "log " * 500 + "the last word: solved")]
    result = compact_history(messages, budget=400, counter=CHARS, summarizer=broken, window=9_000)
    assert result.tokens <= 400
    assert result.text.endswith("the last word: solved")
    assert any("was cut to its end" in warning for warning in result.warnings)


def test_a_newest_tool_result_stays_with_its_call() -> None:
    def broken(prompt: str) -> str:
        raise RuntimeError("down")

    messages = [
        Message("user", "Run it."),
        Message("assistant", "CALL", tool_call_id="a"),
        Message("tool", "out " * 500 + "exit 1", tool_call_id="a"),
    ]
    result = compact_history(messages, budget=400, counter=CHARS, summarizer=broken, window=9_000)
    assert result.tokens <= 400
    assert "CALL" in result.text
    assert result.text.endswith("exit 1")


@pytest.mark.parametrize("nothing", [None, 7, b"bytes"])
def test_a_summarizer_that_returns_no_text_has_failed(nothing: object) -> None:
    result = compact_history(
        chat(300),
        budget=4_000,
        summarizer=lambda prompt: nothing,
        window=5_000,  # type: ignore[arg-type, return-value]
    )
    assert result.kind == "recent"
    assert type(nothing).__name__ in result.warnings[0]


def test_a_message_larger_than_the_window_is_read_whole_in_parts() -> None:
    prompts: list[str] = []

    def asked(prompt: str) -> str:
        prompts.append(prompt)
        return f"Summary {len(prompts)}."

    words = [f"word{number}" for number in range(6_000)]
    messages = [Message("user", "Read this."), Message("assistant", " ".join(words)), *chat(20)]
    result = compact_history(messages, budget=4_000, summarizer=asked, window=5_000)
    read = " ".join(prompts)
    assert all(word in read for word in words)
    assert get_counter().count(max(prompts, key=len)) <= 5_000
    assert any("m2 was read in" in action for action in result.actions)


def test_if_only_the_newest_message_was_cut_nothing_is_said_of_messages_left_out() -> None:
    def fails(_: str) -> str:
        raise RuntimeError("no")

    said = [Message("user", "Please fix the bug."), Message("assistant", "word " * 3_000)]
    found = compact_history(said, budget=1_000, summarizer=fails)
    assert "left out" not in found.text
    assert not any("0 of" in one for one in found.warnings)
