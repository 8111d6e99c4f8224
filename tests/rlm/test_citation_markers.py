"""The marks of an answer, and results in all their formats."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.citation_markers import marker, marks_in, marks_of, unknown_marks, write_marks
from rlm.cli.console.render_result import answer_text, style_answer
from rlm.escaping import RULE
from rlm.results import Citation, Coverage, RunResult


def result(answer: object, *citations: Citation) -> RunResult:
    return RunResult(
        run_id="r_1", answer=answer, confidence=None, stop_reason="finalized", forced=False, strategy="rlm",
        citations=citations, coverage=Coverage(10), usage=(), rounds=1, sub_calls=0, seconds=1.0,
    )  # fmt: skip


PAPER = Citation("[¹]", "It ends *in* May.", 5, 20, "a_[b].pdf", 2, 3, True, heading_path=("Terms",))
TALK = Citation("[²]", "We leave.", 40, 49, "talk.json", None, 2, True, 7, "Anna", "10:00")
LOST = Citation("[³]", "never said", None, None, None, None, None, False)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("So it is [1].", [(1,)]),
        ("So it is [¹²], and [³].", [(12,), (3,)]),
        ("So [1, 3] and [2][4; 5]", [(1, 3), (2,), (4, 5)]),
        ("是7481920[1]。", [(1,)]),
        ("`a[1]` and ```\nb[2]\n``` and [3]", [(3,)]),
        ("[1](http://x) [1]: y [text] [] [1a] [12345]", []),
        ("On [2024] and [0], (M3) and [01]", []),
    ],
)
def test_marks_are_recognized(text: str, numbers: list[tuple[int, ...]]) -> None:
    """`[¹]`, `[1]`, `[1, 3]`; not code, not links."""
    assert [mark.numbers for mark in marks_in(text)] == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("values[1] is 5 [1], arr[2] is 6 [2].", [1, 2]),
        ("It ends in May[1] and begins in June[2].", [1, 2]),  # all marks are written so
        ("It ends [¹] in list [2].", [1]),
        ("It ends [1] or [3].", [1]),
    ],
)
def test_an_index_beside_marks_is_no_mark(text: str, numbers: list[int]) -> None:
    """Only existing evidence is named, and in one style."""
    assert [mark.numbers[0] for mark in marks_of(text, range(1, 3))] == numbers


@pytest.mark.parametrize(
    ("text", "known", "unknown"),
    [
        ("So it is [1], and [4], and [9].", 3, [4, 9]),
        ("So it is [1][2].", 2, []),
        ("So it is [⁴].", 0, [4]),
        ("The list is [7], says nobody.", 2, []),  # plain brackets in an answer that uses no marks
        ("values[7] = [1]", 2, []),
        ("So [0] and [1].", 1, []),
        ("In [2024] it was 5 [1], arr[7] is vec![0; 4].", 1, []),
        ("fn f() {\n    let a = [4];\n    g([3], &[5]) // so [1]\n}", 1, []),
    ],
)
def test_marks_without_evidence_are_reported(text: str, known: int, unknown: list[int]) -> None:
    """They are reported, unless they may be an index."""
    assert unknown_marks(text, known) == unknown


def test_marks_are_written_one_way_and_quotes_get_theirs() -> None:
    """The text is shown with the marks of its sources."""
    quotes = {1: "a", 2: "We leave at noon", 3: "c"}
    text = 'So [1, 3], and "We leave at noon." And [9].'
    assert write_marks(text, quotes) == 'So [¹][³], and "We leave at noon."[²] And [9].'
    assert write_marks(write_marks(text, quotes), quotes) == write_marks(text, quotes)
    assert marker(120) == "[¹²⁰]"


@given(st.text(st.sampled_from('[]¹²12,; `a\n"'), max_size=40), st.integers(0, 3))
def test_writing_marks_changes_nothing_else(text: str, known: int) -> None:
    """The text without marks stays the same."""
    quotes = dict.fromkeys(range(1, known + 1), "")

    def rest(of: str) -> str:
        for mark in reversed([m for m in marks_in(of) if all(number in quotes for number in m.numbers)]):
            of = of[: mark.start] + of[mark.end :]
        return of

    assert rest(write_marks(text, quotes)) == rest(text)


def test_a_megabyte_of_marks_is_fast() -> None:
    """A model may write any text."""
    for text in ("[1]" * 100_000, "[" * 1_000_000, "`" * 1_000_000, "[1," * 100_000):
        began = time.process_time()
        unknown_marks(text, 3)
        write_marks(text, {1: "x"})
        assert time.process_time() - began < 5


def test_the_terminal_shows_marks_and_sources() -> None:
    """A source has document, page or line or message, and quote. Unverified ones are marked."""
    text = answer_text(result("It ends [1], they leave [2], [3].", PAPER, TALK, LOST))
    assert text.splitlines() == [
        "It ends [¹], they leave [²], [³].",
        "",
        RULE,
        "Sources",
        "  [¹] a_[b].pdf, page 2, line 3, under “Terms”  “It ends *in* May.”",
        "  [²] talk.json:2, message 7 (Anna 10:00)  “We leave.”",
        "  [³] NOT FOUND in the input: “never said”",
    ]
    shown = style_answer(text)
    assert shown.plain == text
    styles = {text[span.start : span.end]: str(span.style) for span in shown.spans}
    assert styles["[¹]"] == "bold cyan"
    assert styles["NOT FOUND in the input"] == "bold red"
    assert styles["“We leave.”"] == "dim"


def test_markdown_shows_marks_and_sources_and_escapes_them() -> None:
    """A document cannot add a link, a heading or markup to the list."""
    evil = Citation("[²]", "# [x](http://y)\n<b>", 1, 2, "n\n# b.md", None, 1, True)
    shown = result("It ends [1], [2].", PAPER, evil).markdown()
    assert shown.startswith(
        "It ends [¹], [²].\n\n---\n\n**Sources**\n\n- [¹] a\\_\\[b\\].pdf, page 2, line 3"
    )
    assert "“It ends \\*in\\* May.”" in shown
    assert "- [²] n \\# b.md:1: “\\# \\[x\\](`http://y`) &lt;b&gt;”" in shown
    assert "**not found in the input**: “never said”" in result("x", LOST).markdown()
    assert result({"a": 1}).markdown().startswith('```json\n{\n  "a": 1\n}\n```')
    assert result(None).markdown().startswith("*No answer (finalized).*")


def test_html_shows_marks_and_sources_and_escapes_them() -> None:
    """`_repr_html_` for notebooks."""
    shown = result("So <b> [1].", PAPER, LOST)._repr_html_()
    assert "So &lt;b&gt; [¹]." in shown
    assert "<li>[¹] a_[b].pdf, page 2, line 3, under “Terms”" in shown
    assert "<strong>not found in the input</strong>" in shown


def test_json_round_trip_keeps_page_message_and_heading() -> None:
    """A citation keeps all its fields."""
    whole = result("x [1]", PAPER, TALK, LOST)
    data = json.loads(json.dumps(whole.to_json()))
    assert RunResult.from_json(data) == whole
    assert list(data["citations"][1])[:8] == [
        "marker", "quote", "start", "end", "document", "page", "line", "verified"
    ]  # fmt: skip
    assert data["citations"][1]["message"] == 7
    assert data["answer"] == "x [1]"
