"""Test the runtime without a model, which answers with verbatim extracts of the text."""

from __future__ import annotations

import json
import random
import re
import textwrap
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm import Limits, Settings
from rlm.models.offline.extractive import scripted_root
from rlm.models.offline.extractive.computing import is_computed
from rlm.models.offline.extractive.reader import BUDGET, LONGEST_EXTRACT, extracts
from rlm.models.offline.extractive.sentences import LONGEST, sentences
from rlm.models.offline.extractive.words import distinctive_terms, is_overview, terms
from rlm.sandbox.in_kernel.body.body import Document

FILLER = "The grass is green. The sky is blue. Here we go. There and back again.\n"


def haystack(needles: list[str], size: int, seed: int = 1) -> str:
    rng = random.Random(seed)
    lines = [FILLER] * (size // len(FILLER))
    for needle in needles:
        lines.insert(rng.randrange(len(lines)), needle + "\n")
    return "".join(lines)


async def test_a_needle_is_found_and_cited(run) -> None:
    """On a needle question it finds the needle, with a verified citation."""
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


async def test_numbers_in_brackets_of_the_text_are_no_marks_of_the_answer(run) -> None:
    """Transcripts number their turns: `[74] Anna: …` must not stop the answer."""
    text = "".join(f"[{n}] Anna: the remote control costs {n} euros [{n}, {n + 1}]\n" for n in range(70, 90))
    result = await run("extractive", text, task="What does the remote control cost?")
    assert result.stop_reason == "finalized"
    assert "[74] Anna" in result.answer
    assert "[74] Anna" in result.text
    assert all(citation.verified for citation in result.citations)
    assert not [warning for warning in result.warnings if "points" in warning]


async def test_a_chinese_question_is_answered(run) -> None:
    text = "今天天气很好。\n" * 5_000 + "合同的终止日期是二〇二七年三月。\n" + "今天天气很好。\n" * 5_000
    result = await run("extractive", text, task="合同的终止日期是什么时候？")
    assert "二〇二七年三月" in result.answer


async def test_a_missing_answer_is_reported(run) -> None:
    result = await run("extractive", haystack([], 300_000), task="Which zeppelin landed in Reykjavik?")
    assert result.answer.startswith("Not in the documents")
    assert (result.found, result.citations, result.confidence) == (False, (), "low")


@pytest.mark.parametrize("limits", [Limits(max_rounds=n) for n in range(1, 5)] + [Limits(max_seconds=0.01)])
async def test_a_run_that_a_limit_ends_early_claims_nothing(run, limits) -> None:
    """It gives no answer rather than a wrong one."""
    text = haystack(["The hidden code of Zanzibar is 7788."], 500_000)
    result = await run("extractive", text, task="What is the hidden code of Zanzibar?", limits=limits)
    assert result.answer is None
    assert result.stop_reason in ("rounds", "time")


async def test_without_children_the_lines_themselves_are_the_extracts(run) -> None:
    text = haystack(["The hidden code of Zanzibar is 7788."], 500_000)
    result = await run(
        "extractive", text, task="What is the hidden code of Zanzibar?", limits=Limits(max_calls=0)
    )
    assert "7788" in result.answer
    assert [citation.verified for citation in result.citations] == [True]


async def test_a_question_without_words_is_reported(run) -> None:
    result = await run("extractive", haystack([], 300_000), task="What is it?")
    assert "no words to search for" in result.answer
    assert not result.found


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
    """It is deterministic."""
    text = haystack(["The zeppelin landed on Tuesday.", "A zeppelin is an airship."], 200_000)
    first, second = [await run("extractive", text, task="When did the zeppelin land?") for _ in range(2)]
    assert (first.answer, first.citations) == (second.answer, second.citations)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does heapq.merge do?", ["heapq.merge", "heapq", "merge"]),
        ('Who said "to be or not"?', ["to be or not"]),
        ("What is it?", []),
        ("Where is ERR_42 raised?", ["ERR_42", "ERR", "raised"]),
    ],
)
def test_the_words_worth_looking_for(question, expected) -> None:
    assert terms(question)[: len(expected)] == expected
    assert bool(terms(question)) == bool(expected)


PROSE = st.lists(
    st.sampled_from(
        [
            "Mr. Fox",
            "ran",
            "home.",
            "Why?",
            "\n",
            "\n\n",
            " ",
            '"Yes!"',
            "他走了。",
            "x" * 700,
            "e.g. this",
            "- item",
        ]
    )
    | st.text(max_size=8),
    max_size=60,
).map(" ".join)


@settings(max_examples=60)
@given(st.lists(st.text(max_size=300) | PROSE, max_size=4), st.text(max_size=100))
def test_extracts_are_verbatim_bounded_and_apart(pieces, question) -> None:
    found = extracts(question, pieces)
    for extract in found:
        assert pieces[extract.piece][extract.start : extract.end] == extract.text
        assert len(extract.text) <= LONGEST_EXTRACT
    assert sum(len(extract.text) for extract in found) <= max(BUDGET, 8 * LONGEST)
    places = sorted((extract.piece, extract.start, extract.end) for extract in found)
    assert all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(places))


@given(st.text(max_size=400) | PROSE)
def test_sentences_are_in_order_trimmed_and_lose_no_word(text) -> None:
    found = sentences(text)
    at = 0
    for start, end in found:
        assert at <= start < end <= start + LONGEST
        assert not any(map(str.isalnum, text[at:start]))
        assert text[start:end] == text[start:end].strip()
        at = end
    assert not any(map(str.isalnum, text[at:]))


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize("width", [50, 72, 100])
def test_a_wrapped_line_is_no_sentence(width) -> None:
    """It cites whole sentences."""
    expected = [
        "The quick brown fox jumps over the lazy dog and then it went on to sleep in the barn that stood by "
        "the house of the old miller, whom nobody had seen for many a year.",
        "It was a good day for a fox, all things considered, e.g. the weather, which had been bad for weeks.",
        "Mr. Fox slept.",
    ]
    text = textwrap.fill(" ".join(expected), width) + "\n\nA new paragraph\nof a few lines\n"
    assert [" ".join(one.split()) for one in cut(text)][:3] == expected


RAGGED = """\
   4. Redistribution. You may reproduce and distribute copies of the Work or of
      works derived from it in any medium, with or without modifications, and in
      Source or Object form, provided that You meet the following conditions:

      (c) You must retain, in the Source form of any Derivative Works
          that You distribute, all copyright, patent, trademark, and
          attribution notices from the Source form of the Work,
          excluding those notices that do not pertain to any part of
          the Derivative Works; and

   7. Disclaimer of Warranty. Unless required by applicable law or
      agreed to in writing, Licensor provides the Work (and each
      Contributor provides its Contributions) on an "AS IS" BASIS.
"""


def test_a_line_that_was_wrapped_early_is_no_sentence() -> None:
    """The right margin is uneven: a line that begins in lower case continues the one above."""
    found = [" ".join(one.split()) for one in cut(RAGGED)]
    assert (
        "(c) You must retain, in the Source form of any Derivative Works that You distribute, all "
        "copyright, patent, trademark, and attribution notices from the Source form of the Work, excluding "
        "those notices that do not pertain to any part of the Derivative Works; and"
    ) in found
    assert any(
        one.startswith("Unless required by applicable law or agreed to in writing, Lic") for one in found
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Mr. Smith left. "Go!" he said.', ["Mr. Smith left.", '"Go!"', "he said."]),
        ("他走了。“为什么？”她问。", ["他走了。", "“为什么？”", "她问。"]),
        ("def f(a):\n    return a\nx = 1\n", ["def f(a):", "return a", "x = 1"]),
        ("[1] Ann: hello\n[2] Bob: bye\n", ["[1] Ann: hello", "[2] Bob: bye"]),
    ],
)
def test_where_sentences_end(text, expected) -> None:
    assert cut(text) == expected


@pytest.mark.parametrize(
    ("question", "whole", "named"),
    [
        ("Summarize the whole meeting.", True, []),
        ("What is the plot of the story?", True, []),
        ("总结这次会议", True, []),
        ("Summarize the discussion about the budget.", False, []),
        ("What is the number for loving-cockroach?", False, ["loving-cockroach"]),
        ("What does Gina's tattoo mean?", False, []),
        ("How many pets will Andrew have in 2023?", False, []),
        ("Where is ERR_42 raised?", False, ["ERR_42"]),
    ],
)
def test_what_sort_of_question_it_is(question, whole, named) -> None:
    assert (is_overview(question), distinctive_terms(question)[:1]) == (whole, named)


@pytest.mark.parametrize(
    "question",
    ["How often do they meet?", "What are the most common causes?", "How many pets has Ann?", "Who is it?"],
)
def test_only_what_is_plainly_a_count_is_computed(question) -> None:
    assert not is_computed(
        question, [Document(0, "a.txt", "text", 0, 1), Document(1, "b.md", "markdown", 1, 2)]
    )


DIARY = "".join(
    f"=== DAY {n} | DATE: {n} May 2023 ===\nAnn: nothing new today.\nBob: the weather holds.\n"
    + ("Ann: at last my garden won the county prize!\n" if n == 17 else "")
    + "Bob: we talked about trains again, and about the river.\n" * 40
    for n in range(1, 29)
)


@pytest.mark.parametrize("copies", [1, 4])
async def test_what_ranks_best_is_cited_with_the_date_above_it(run, copies) -> None:
    """By ranking; a date that stands once above many lines is cited too."""
    result = await run(
        "extractive", DIARY * copies, task="When was Ann's garden given a prize by the county?"
    )
    cited = [citation.quote for citation in result.citations]
    assert any("county prize" in quote for quote in cited)
    assert any("17 May 2023" in quote for quote in cited)
    assert all(citation.verified for citation in result.citations)
    assert sum(map(len, cited)) <= BUDGET + 4 * 200


async def test_a_summary_is_taken_from_all_over_the_text(run) -> None:
    """The extracts cover the topics of the text."""
    topics = ["turbine", "harvest", "lantern", "glacier", "orchard", "compass"]
    text = "".join(
        f"The {topic} came first. We measured the {topic} twice and the {topic} held. Part {n} of it.\n\n"
        + "Then somebody coughed and we waited a little.\n\n" * 120
        for n, topic in enumerate(topics * 3)
    )
    result = await run("extractive", text, task="Summarize the whole text.")
    quotes = " ".join(citation.quote for citation in result.citations)
    assert [topic for topic in topics if topic not in quotes] == []
    starts = [citation.start for citation in result.citations]
    assert starts == sorted(starts)
    assert all(citation.verified for citation in result.citations)


async def test_other_keys_are_not_cited(run) -> None:
    """RULER multi-key: a sentence that holds half of the key proves nothing."""
    keys = [("calm", "river"), ("calm", "stone"), ("loud", "river"), ("loud", "stone")] * 5
    needles = [
        f"One of the special magic numbers for {first}-{second} is: {number}."
        for number, (first, second) in enumerate(keys, 1_000)
    ]
    needles[7] = "One of the special magic numbers for quiet-river is: 777."
    result = await run(
        "extractive", haystack(needles, 600_000), task="What is the special magic number for quiet-river?"
    )
    assert [citation.quote for citation in result.citations] == [needles[7]]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("How many times is zeppelin mentioned?", "'zeppelin' occurs 3 times"),
        ('How often does the word "sky" occur?', "'sky' occurs 2,816 times"),
        ("How many lines are there?", "2,819 lines"),
        ("What are the two most frequent words in the text?", "the: 5,633\nis: 5,632"),
        ("Find all variables that are assigned the value 4711 in the text.", "ALPHA, BETA, GAMMA"),
    ],
)
async def test_what_can_be_counted_is_counted(run, task, expected) -> None:
    """It is computed over the whole input, is exact, and says so."""
    needles = [
        "A zeppelin. VAR ALPHA = 4711",
        "The Zeppelin: VAR BETA = VAR ALPHA",
        "zeppelin! VAR GAMMA = VAR BETA and VAR DELTA = 4712",
    ]
    text = "So the grass is green. And the sky is blue.\n" * 2_816 + "\n".join(needles)
    result = await run("extractive", text, task=task)
    assert expected in result.answer
    assert "by code" in result.answer
    assert all(citation.verified for citation in result.citations)


async def test_a_question_with_any_sign_in_it_makes_a_sound_cell(run) -> None:
    text = haystack(['The 😀 "quoted" {brace} code is 55\\n.'], 300_000)
    odd = "'" * 3
    result = await run("extractive", text, task=f'What is the "quoted" {{brace}} 😀 code{odd}\\n ``` of it?')
    assert "55" in result.answer


LOG = "".join(
    f"2026-01-06 10:{n // 60:02}:{n % 60:02} INFO served in {n * 7 % 900} ms with code 200 from host a{n}\n"
    for n in range(600)
)
FAILED = "".join(f"2026-01-06 11:00:{n:02} ERROR disk /dev/sda is full\n" for n in range(50))
CODE = "2026-01-06 12:00:00 WARN The code word is Zebra-99\n"


@pytest.mark.parametrize("size", [1, 40], ids=["direct", "rlm"])
async def test_a_line_of_a_log_is_a_unit_and_repeated_lines_are_folded(run, size) -> None:
    text = LOG * size + FAILED + CODE
    asked = Settings() if size > 1 else Settings(strategy="direct")
    found = await run("extractive", text, task="What is the code word?", settings=asked)
    assert found.citations[0].quote.strip() == CODE.strip()
    disk = await run("extractive", text, task="Which disk is full?", settings=asked)
    assert re.search(r"11:00:\d\d ERROR disk /dev/sda is full .*\(50 times\)", disk.text)
    assert disk.text.count("/dev/sda") == 1
    assert len(disk.text) < 2_000


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n" + "1,Ann,x\n2,Ben,y\n3,Cid,z\n",
        "2026-01-06 one\n2026-01-07 two\n2026-01-08 three\n",
        '{"a": 1}\n{"a": 2}\n{"a": 3}\n',
        "[17:03] Ann: hi\n[17:04] Ben: ho\n[17:05] Ann: bye\n",
    ],
)
def test_records_are_not_joined(text) -> None:
    assert [text[start:end] for start, end in sentences(text)] == text.splitlines()


def test_wrapped_prose_and_lists_are_no_records() -> None:
    prose = textwrap.fill("Mira, who came late, saw the yard, and then she went home again. " * 20, 72)
    assert len(sentences(prose)) == 20
    assert sentences("1. Go home.\n2. Sleep.\n3. Eat well. Drink.\n")[-1] != (21, 40)


CHANGES = """git (1:2.39.5-0+deb12u2) bookworm-security; urgency=high

  * Non-maintainer upload by the Security Team.
  * credential: sanitize the user prompt
  * credential: disallow Carriage Returns in the protocol by default
    unless the user allows them

 -- Ann Lee <ann@example.org>  Sat, 11 Jan 2025 20:46:03 +0100
"""


def test_items_of_a_list_are_not_joined() -> None:
    """A list made into one paragraph is hard to read, and its items stand for themselves."""
    found = [extract.text for extract in extracts("What happened to the credential protocol?", [CHANGES])]
    assert " ".join(found[0].split()) == (
        "* credential: disallow Carriage Returns in the protocol by default unless the user allows them"
    )
    assert all(text.count("* ") <= 1 for text in found)


async def test_marks_of_the_text_stay_text(run) -> None:
    """`[2]` of a document names nothing of ours, and must not point at our second source."""
    text = (
        "Tin melts at 232 degrees [2].\nLead melts at 327 degrees [1].\nTin is in tin cans [²].\n"
        "Tin melts slowly in a fire of wood, as smiths know.\n"
    )
    for strategy in ("direct", "rlm"):
        result = await run(
            "extractive", text, task="When does tin melt?", settings=Settings(strategy=strategy)
        )
        assert "232 degrees [2]" in result.text
        assert "[²]." not in result.text
        assert all(citation.verified for citation in result.citations)


async def test_an_answer_is_a_dozen_lines_at_most_and_phrases_come_first(run) -> None:
    scattered = "The court heard the late case of the supreme baker in a small town near the sea. "
    text = "".join(f"{scattered}{n}.\n\n" for n in range(300)) + "The Supreme Court sat in Bern.\n"
    result = await run("extractive", text, task="Where did the Supreme Court sit?")
    assert "sat in Bern" in result.text.split("[¹]")[0]
    assert len(result.text) < 2_500


async def test_a_cell_that_takes_too_long_is_followed_by_a_shorter_search(run, monkeypatch) -> None:
    slow = "# Load: too slow.\nimport time\ntime.sleep(30)\n"
    monkeypatch.setattr("rlm.models.offline.extractive.cells.LOAD", slow)
    monkeypatch.setattr(
        "rlm.models.offline.extractive.scripted_root._SEARCHING",
        (slow, *scripted_root._SEARCHING[1:]),
    )
    result = await run(
        "extractive",
        haystack(["The hidden code of Zanzibar is 7788."], 300_000),
        task="What is the hidden code of Zanzibar?",
        limits=Limits(cell_seconds=1.0),
    )
    assert "7788" in result.answer
    assert all(citation.verified for citation in result.citations)


BOARD = "".join(
    json.dumps(
        {"id": n, "title": f"Card {n}", "data": {"status": ["open", "closed"][n % 3 == 0]}, "labels": ["p1"]}
    )
    + "\n"
    for n in range(90)
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many cards have status 'open'?", "60 of 90 records have status 'open'"),
        ("How many cards are closed?", "30 of 90 records have status 'closed'"),
        ("How many cards have the label p1 and the status closed?", "30 of 90 records have"),
        ("How many cards have status 'lost'?", "0 of 90 records have status 'lost'"),
        ("How many cards are there?", "90 records (counted by code)"),
    ],
)
async def test_records_are_counted(run, tmp_path, question, answer) -> None:
    path = tmp_path / "board.jsonl"
    path.write_text(BOARD)
    result = await run("extractive", path, task=question, settings=Settings())
    assert result.answer.startswith(answer)
    assert (result.confidence, result.found) == ("high", True)


async def test_a_question_about_no_record_is_searched(run, tmp_path) -> None:
    path = tmp_path / "board.jsonl"
    path.write_text(BOARD + '{"note": "Three yards hold the cranes of Zanzibar."}\n')
    result = await run(
        "extractive", path, task="How many yards hold the cranes of Zanzibar?", settings=Settings()
    )
    assert "Three yards" in result.text
    assert result.confidence == "low"


async def test_of_a_long_line_the_part_around_the_words_is_shown(run) -> None:
    text = "word " * 400_000 + "The code word is Zebra-99."
    result = await run("extractive", text, task="What is the code word?")
    assert "The code word is Zebra-99." in result.text
    assert len(result.text) < 500
