"""Claims against the texts that they cite, without a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.answers.support.word_check import SupportCheck

TALK = (
    "Evan: I got a new Prius last week, my old one broke down twice.",
    "Sam: Nice! How much did you pay?",
    "Evan: It was $12,500, and I got three free inspections.",
    'Sam: I started a painting class on Monday. It is called "Colour and Calm".',
    "Evan: Cool. I moved my job interview to 4 May, because of the road trip to the Rockies.",
    "Sam: Shall we drop the queue?",
    "Evan: Yes, do that.",
    *(f"Sam: Let me look at part {place} again, Evan." for place in range(20)),
)


@pytest.fixture
def check() -> Iterator[SupportCheck]:
    check = SupportCheck(TALK)
    yield check
    check.close()


@pytest.mark.parametrize(
    ("claim", "cited"),
    [
        ("Evan bought a spaceship on Mars.", 0),
        ("Evan paid 18,000 dollars for it.", 2),
        ("Sam takes a class called “Storm and Stress”.", 3),
        ("Evan bought a new Prius.", 3),
        ("Aliens landed in Ohio.", 1),
        ("Sam hired a lawyer in Berlin.", 4),
    ],
    ids=["a name alone", "another number", "another title", "wrong message", "nothing", "another event"],
)
def test_a_claim_whose_facts_are_elsewhere_or_nowhere_is_doubtful(
    check: SupportCheck, claim: str, cited: int
) -> None:
    assert not check.judge(claim, [cited]).supported


@pytest.mark.parametrize(
    ("claim", "cited"),
    [
        ("Evan has a new Prius, because his old car broke down.", 0),
        ("The car cost 12500 dollars, with 3 inspections.", 2),
        ('Sam takes painting classes ("Colour and Calm").', 3),
        ("Evan postponed an interview in favour of a trip to the Rockies.", 4),
        ("The interview is on 4 May 2023.", 4),
        ("Sam said and explained it.", 3),
    ],
    ids=["paraphrase", "other notation", "title", "other words", "date", "only words of reporting"],
)
def test_a_paraphrase_is_supported(check: SupportCheck, claim: str, cited: int) -> None:
    assert check.judge(claim, [cited]).supported


def test_the_texts_around_a_short_answer_count(check: SupportCheck) -> None:
    assert not check.judge("They drop the queue.", [6]).supported
    assert check.judge("They drop the queue.", [6], near=[5, 7]).supported


def test_the_name_of_a_speaker_proves_nothing() -> None:
    texts = ["The refund must never be paid twice.", *("Let me look again." for _ in range(50))]
    check = SupportCheck([f"Ann: {texts[0]}", *texts[1:]], speakers=["Ann"])
    assert not check.judge("Ann bought a spaceship on Mars.", [0]).supported
    assert check.judge("Ann said that no refund is paid twice.", [0]).supported
    check.close()


def test_what_is_missing_is_named(check: SupportCheck) -> None:
    found = check.judge("Evan bought a spaceship on Mars for 99 dollars.", [0])
    assert found.missing[0] == "99"
    assert {"spaceship", "mars"} <= set(found.missing)


def test_scripts_without_spaces_are_compared() -> None:
    texts = ("退款不能重复,接口必须在两秒内返回。", "我们决定保存事件编号。", "好的", "谢谢")
    check = SupportCheck(texts)
    assert check.judge("接口必须在两秒内返回", [0]).supported
    assert not check.judge("接口必须在两秒内返回", [2]).supported
    check.close()


def test_only_a_sample_of_many_texts_is_counted() -> None:
    check = SupportCheck([f"Part {place} has the code word {place}." for place in range(30_000)])
    assert check.judge("The code word of part 29,999 is 29999.", [29_999]).supported
    assert not check.judge("The code word of part 29,999 is 17.", [29_999]).supported
    check.close()


@given(place=st.integers(0, len(TALK) - 1))
def test_a_text_supports_itself(place: int) -> None:
    check = SupportCheck(TALK)
    assert check.judge(TALK[place], [place]).supported
    check.close()


@given(claim=st.text(max_size=80))
def test_any_text_can_be_judged(claim: str) -> None:
    check = SupportCheck(["", claim])
    assert check.judge(claim, [1]).supported
    check.judge(claim, [])
    check.close()
