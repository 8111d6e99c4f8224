"""Test that the thinking in a reply's text is found, however the stream cuts it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.models.http.think_tags import ThinkSplitter, split_bare_close

CASES = [
    ("plain text", "plain text", ""),
    ("<think>a plan</think>\n\nthe reply", "the reply", "a plan"),
    ("\n <THINK>a</THINK> b", "b", "a"),
    ("<thinking>one</thinking><think>two</think>x", "x", "onetwo"),
    ("<think>```repl\nfinalize(1)\n```", "", "```repl\nfinalize(1)\n```"),
    ("<think>a </thin", "", "a </thin"),
    ("<think>", "", ""),
    ("<thin", "<thin", ""),
    ("<thinker>is text", "<thinker>is text", ""),
    ("text with <think>tags</think>", "text with <think>tags</think>", ""),
    ("  indented", "  indented", ""),
    ("", "", ""),
    ("<think>a < b </think>c </think>", "c </think>", "a < b "),
]


def split(text: str, cuts: list[int]) -> tuple[str, str]:
    splitter, texts, thoughts = ThinkSplitter(), [], []
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(borders):
        piece, thought = splitter.feed(text[start:end])
        texts.append(piece)
        thoughts.append(thought)
    piece, thought = splitter.close()
    return "".join([*texts, piece]), "".join([*thoughts, thought])


@pytest.mark.parametrize(("reply", "text", "thinking"), CASES)
def test_whole_and_letter_by_letter(reply: str, text: str, thinking: str) -> None:
    assert split(reply, []) == (text, thinking)
    assert split(reply, list(range(len(reply)))) == (text, thinking)


@given(st.text(alphabet="<think>/ing a\n", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_any_text(reply: str, cuts: list[int]) -> None:
    assert split(reply, cuts) == split(reply, [])


@pytest.mark.parametrize(
    ("reply", "text", "thinking"),
    [
        ("a plan\n</think>\n\nthe reply", "the reply", "a plan\n"),
        ("write </think> to end it", "write </think> to end it", ""),
        ("all of it\n</think>\n", "all of it\n</think>\n", ""),
    ],
)
def test_a_reply_that_begins_within_its_thinking(reply: str, text: str, thinking: str) -> None:
    assert split_bare_close(reply) == (text, thinking)
