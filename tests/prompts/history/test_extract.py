"""Test which sentences the summary without a model selects."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from rlm.prompts.history import Message, compact_history


def smalltalk(count: int, *, authors: Sequence[str] = ()) -> list[Message]:
    draw = random.Random(3)
    phrases = ("Shall we have lunch?", "I like that picture.", "See you later then.", "That was a nice walk.")
    return [
        Message(
            "assistant" if n % 2 else "user",
            f"{draw.choice(phrases)} {draw.choice(phrases)} {draw.choice(phrases)}",
            author=authors[n % len(authors)] if authors else None,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    "fact",
    [
        "Der Export darf höchstens 40 Sekunden dauern.",
        "Hemos decidido usar lmdb en vez de redis.",
        "La panne venait de src/lock.py, ligne 12.",
        "Нужно поддерживать 200 соединений.",
        "必须支持二百个并发连接",
        "エラーの原因は設定ファイルの文字コードでした。",
    ],
)
def test_the_extractive_default_reads_other_languages(fact: str) -> None:
    messages = smalltalk(300)
    messages[40] = Message("user", fact)
    assert fact in (compact_history(messages, budget=1_000).summary or "")


def test_a_cue_phrase_that_is_everywhere_counts_nothing() -> None:
    """Everyone says "You must" here, so a sentence is selected for other words."""
    messages = [
        Message("user", f"You must see the film with the {n} dogs, you must always laugh at {n} of them.")
        for n in range(300)
    ]
    messages[40] = Message("user", "The gate has to be shut before anyone leaves the yard.")
    assert "The gate has to be shut" in (compact_history(messages, budget=1_500).summary or "")


def test_who_speaks_of_themselves_is_named_where_several_do() -> None:
    messages = smalltalk(200, authors=("Ann", "Ben"))
    messages[41] = Message("user", "I opened my shop in Leuven on 4 May.", author="Ben")
    messages[61] = Message("user", "The shop must close at 18:30.", author="Ben")
    lines = (compact_history(messages, budget=1_500).summary or "").splitlines()
    assert "- Ben: I opened my shop in Leuven on 4 May. [m42]" in lines
    assert "- The shop must close at 18:30. [m62]" in lines


def test_sentences_that_stood_side_by_side_are_one_line_but_what_is_left_to_do_is_another() -> None:
    messages = smalltalk(60)
    done, why, left = (
        "The loader was fixed in src/loader.py.",
        "The cause was a lock in src/lock.py.",
        "Still to do: the rate limit of 50 requests.",
    )
    messages[41] = Message("user", f"{done} {why} {left}")
    lines = (compact_history(messages, budget=900).summary or "").splitlines()
    assert f"- {done} {why} [m42]" in lines
    assert f"- {left} [m42]" in lines
