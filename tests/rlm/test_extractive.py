"""No model at all: the runtime still answers, and what it answers stands in the text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import Limits, Settings
from rlm.models.extractive.reader import best_sentences
from rlm.models.extractive.words import terms

FILLER = "The grass is green. The sky is blue. Here we go. There and back again.\n"


def haystack(needles: list[str], size: int, seed: int = 1) -> str:
    rng = random.Random(seed)
    lines = [FILLER] * (size // len(FILLER))
    for needle in needles:
        lines.insert(rng.randrange(len(lines)), needle + "\n")
    return "".join(lines)


async def test_a_needle_is_found_and_cited(run) -> None:
    """driver.md 7.2: on a needle question it finds the needle, with a verified citation."""
    needle = "One of the special magic numbers for loving-cockroach is: 5663623."
    result = await run(
        "extractive",
        haystack([needle], 3_000_000),
        task="What is the special magic number for loving-cockroach mentioned in the provided text?",
        settings=Settings(),
    )
    assert "5663623" in result.answer
    assert "no language model" in result.answer
    assert [citation.quote for citation in result.citations] == [needle]
    assert all(citation.verified for citation in result.citations)
    assert (result.stop_reason, result.strategy) == ("finalized", "rlm")
    assert result.coverage.scanned_chars == result.coverage.input_chars
    assert not result.coverage.complete


async def test_one_key_among_many_is_found(run) -> None:
    needles = [f"One of the special magic numbers for key-{n} is: {n * 1_000 + 7}." for n in range(200)]
    result = await run(
        "extractive", haystack(needles, 1_000_000), task="What is the special magic number for key-137?"
    )
    assert "137007" in result.answer.splitlines()[1]


async def test_a_chinese_question_is_answered(run) -> None:
    text = "今天天气很好。\n" * 5_000 + "合同的终止日期是二〇二七年三月。\n" + "今天天气很好。\n" * 5_000
    result = await run("extractive", text, task="合同的终止日期是什么时候？")
    assert "二〇二七年三月" in result.answer


async def test_what_is_not_there_is_said(run) -> None:
    result = await run("extractive", haystack([], 300_000), task="Which zeppelin landed in Reykjavik?")
    assert result.answer.startswith("No passage of the input")
    assert result.citations == ()


@pytest.mark.parametrize("limits", [Limits(rounds=n) for n in range(1, 5)] + [Limits(seconds=0.01)])
async def test_a_run_that_a_limit_ends_early_claims_nothing(run, limits) -> None:
    """driver.md 2.4: no answer rather than an untrue one."""
    text = haystack(["The hidden code of Zanzibar is 7788."], 500_000)
    result = await run("extractive", text, task="What is the hidden code of Zanzibar?", limits=limits)
    assert result.answer is None
    assert result.stop_reason in ("rounds", "time")


async def test_without_children_the_lines_themselves_are_the_extracts(run) -> None:
    text = haystack(["The hidden code of Zanzibar is 7788."], 500_000)
    result = await run(
        "extractive", text, task="What is the hidden code of Zanzibar?", limits=Limits(sub_calls=0)
    )
    assert "7788" in result.answer
    assert [citation.verified for citation in result.citations] == [True]


async def test_a_question_without_words_is_said(run) -> None:
    result = await run("extractive", haystack([], 300_000), task="What is it?")
    assert "holds no word" in result.answer


async def test_a_short_text_is_answered_directly(run) -> None:
    result = await run(
        "extractive",
        "Rent is due monthly.\nThe lease ends in 2031.\n",
        task="When does the lease end?",
        settings=Settings(),
    )
    assert result.strategy == "direct"
    assert "The lease ends in 2031." in result.answer
    assert all(citation.verified for citation in result.citations)


async def test_the_same_question_gives_the_same_answer(run) -> None:
    """driver.md 7.2: deterministic."""
    text = haystack(["The zeppelin landed on Tuesday.", "A zeppelin is an airship."], 200_000)
    first, second = [await run("extractive", text, task="When did the zeppelin land?") for _ in range(2)]
    assert (first.answer, first.citations) == (second.answer, second.citations)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What does heapq.merge do?", ["heapq.merge", "heapq", "merge"]),
        ('Who said "to be or not"?', ["to be or not"]),
        ("What is it?", []),
        ("Where is ERR_42 raised?", ["ERR_42", "ERR", "raised"]),
    ],
)
def test_the_words_worth_looking_for(question, wanted) -> None:
    assert terms(question)[: len(wanted)] == wanted
    assert bool(terms(question)) == bool(wanted)


@given(st.text(max_size=300), st.text(max_size=100))
def test_sentences_are_verbatim(text, question) -> None:
    for sentence in best_sentences(question, text, limit=3):
        assert text[sentence.start : sentence.start + len(sentence.text)] == sentence.text
