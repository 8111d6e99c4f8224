"""Test the runtime without a model, which answers with verbatim sentences and lines of the text."""

from __future__ import annotations

import random
import re
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm import Limits, Settings
from rlm.models.offline import extractive
from rlm.models.offline.extractive import EXTRACTS, LONGEST, NEAREST, extracts, read_question
from rlm.retrieval.sentences import LONGEST as LONGEST_SENTENCE
from rlm.retrieval.sentences import sentences

FILLER = "The grass is green. The sky is blue. Here we go. There and back again.\n"


def haystack(needles: list[str], size: int, seed: int = 1) -> str:
    rng = random.Random(seed)
    lines = [FILLER] * (size // len(FILLER))
    for needle in needles:
        lines.insert(rng.randrange(len(lines)), needle + "\n")
    return "".join(lines)


LEASE_EN = "The lease begins on 1 March 2025. The notice period is three months. The rent is 850 euros.\n"
LEASE_DE = (
    "Der Mietvertrag beginnt am 1. März 2025. Die Kündigungsfrist beträgt drei Monate zum Monatsende. "
    "Die Kaltmiete beträgt 850 Euro im Monat.\n"
)
LEASE_FR = (
    "Le bail commence le 1er mars 2025. Le préavis est de trois mois. Le loyer est de 850 euros par mois.\n"
)
LEASE_ES = (
    "El contrato empieza el 1 de marzo. El alquiler es de 850 euros al mes. El preaviso es de tres meses.\n"
)
MAIL = (
    "# Message 1: The key\n\nFrom: bert@example.org\nTo: ann@example.org\nDate: Tue, 3 Mar 2026 09:00:00\n"
    "Subject: The key\n\n## Part 1 (text/plain)\n\nHi all,\nCarla has the key of the boat house. "
    "She is back on Friday.\n"
)
CODE = '''"""Utilities."""


def merge(*iterables, key=None):
    """Merge sorted inputs into one."""
    heap = []
    for one in iterables:
        heap.append(one)
    return heap


def other(value):
    return value
'''


@pytest.mark.parametrize(
    ("text", "question", "first"),
    [
        (LEASE_EN, "How long is the notice period?", "The notice period is three months."),
        (LEASE_EN, "What is the rent? Answer with the number only.", "The rent is 850 euros."),
        (
            LEASE_DE,
            "Wie lang ist die Kündigungsfrist?",
            "Die Kündigungsfrist beträgt drei Monate zum Monatsende.",
        ),
        (LEASE_DE, "Wie hoch ist die Kaltmiete?", "Die Kaltmiete beträgt 850 Euro im Monat."),
        (
            LEASE_DE,
            "Wie hoch ist die Kaltmiete? Antworte nur mit der Zahl.",
            "Die Kaltmiete beträgt 850 Euro im Monat.",
        ),
        (LEASE_FR, "Combien coûte le loyer ?", "Le loyer est de 850 euros par mois."),
        (LEASE_ES, "¿Cuánto cuesta el alquiler?", "El alquiler es de 850 euros al mes."),
        (MAIL, "Who has the key of the boat house?", "Carla has the key of the boat house."),
        (
            "今天天气很好。合同的终止日期是二〇二七年三月。今天天气很好。\n",
            "合同的终止日期是什么时候？",
            "合同的终止日期是二〇二七年三月。",
        ),
    ],
)
async def test_the_first_passage_is_the_sentence_that_answers(run, text, question, first) -> None:
    result = await run("extractive", text, task=question)
    heading, _, rest = result.answer.partition("\n")
    assert heading == EXTRACTS
    assert rest.split("\n\n")[0] == f"{first} [¹]"
    assert result.citations[0].verified
    assert (result.found, result.stop_reason, result.confidence) == (True, "finalized", "low")
    assert result.support is None
    assert "support" not in result.figures


async def test_code_is_shown_as_code(run) -> None:
    """With its line breaks and indentation."""
    result = await run("extractive", CODE, task="What does merge do?")
    shown = result.answer.partition("\n")[2]
    first = [
        "Code: [¹]",
        "```",
        "def merge(*iterables, key=None):",
        '    """Merge sorted inputs into one."""',
    ]
    assert shown.split("\n")[:4] == first
    assert result.citations[0].verified


async def test_an_extract_is_one_sentence_or_line_without_its_heading(run) -> None:
    """Headings and mail headers are places, never glued to a sentence."""
    result = await run("extractive", MAIL * 30, task="Who has the key of the boat house?")
    for extract in result.answer.partition("\n")[2].split("\n\n"):
        assert len(extract) < LONGEST + 20
        assert not re.search(r"# |From: .*To: |Subject: .*Part", extract)


LICENCE = """3. Duties
---------

3.1. Changed Copies

{passage}

3.2. Fees

4. Warranty. There is none.
"""


@pytest.mark.parametrize("strategy", ["direct", "rlm"])
async def test_a_heading_brings_the_passage_under_it(run, strategy) -> None:
    passage = "Whoever hands one on, and who does it often, too,\nsays what is new in it. No fee is due."
    for text, question, first in (
        (LICENCE, "Who may sell changed copies?", f"3.1. Changed Copies\n{passage} [¹]"),
        (LICENCE, "What about the warranty?", "4. Warranty.\nThere is none. [¹]"),
        ("# Changed copies\n{passage}\n", "Who may sell changed copies?", f"# Changed copies\n{passage} [¹]"),
    ):
        shown, settings = first.replace("too,\n", "too, "), Settings(strategy=strategy)
        result = await run("extractive", text.format(passage=passage), task=question, settings=settings)
        assert result.answer.partition("\n")[2].split("\n\n")[0] == shown
        assert result.citations[0].verified


@pytest.mark.parametrize("strategy", ["direct", "rlm"])
@pytest.mark.parametrize(
    ("question", "counts"),
    [
        ("How many ERROR lines are there?", ["50 lines match ERROR"]),
        ('How many times does "/DEV/sda" occur?', ["50 lines match /DEV/sda"]),
        ('How many lines contain "Zebra-99" or WARN?', ["1 line matches Zebra-99", "1 line matches WARN"]),
        ("What is the code word?", []),
    ],
)
async def test_lines_with_texts_in_quotes_and_capitals_are_counted(run, strategy, question, counts) -> None:
    text = LOG + FAILED + CODE_WORD
    result = await run("extractive", text, task=question, settings=Settings(strategy=strategy))
    assert result.answer.startswith(EXTRACTS)
    assert re.findall(r"^.* match(?:es)? .*$", result.answer, re.MULTILINE) == counts
    assert result.found


@pytest.mark.parametrize("searched", ["FATAL", '"it\'s"', '"{C:\\temp}"'])
async def test_a_count_of_zero_denies_nothing(run, searched) -> None:
    result = await run("extractive", LOG, task=f"How many lines have {searched}?")
    assert result.answer.endswith(f"0 lines match {searched.strip(chr(34))}")
    assert (result.found, result.stop_reason, result.confidence) == (False, "nearest", None)


async def test_the_nearest_passages_deny_nothing(run) -> None:
    """Words cannot show that an answer is not there."""
    result = await run(
        "extractive", LEASE_EN * 20, task="What does Bartholomew Finch pay for the rent of a boat?"
    )
    assert result.answer.startswith(f"{NEAREST}\nThe rent is 850 euros. [¹]")
    assert "Not in the documents" not in result.answer
    assert (result.found, result.stop_reason, result.confidence) == (False, "nearest", None)
    assert all(citation.verified for citation in result.citations)


@pytest.mark.parametrize("strategy", ["rlm", "direct"])
async def test_without_any_word_of_the_question_nothing_is_denied_either(run, strategy) -> None:
    result = await run(
        "extractive", FILLER, task="Which zeppelin landed in Reykjavik?", settings=Settings(strategy=strategy)
    )
    assert result.answer.startswith("No passage with these words.")
    assert (result.found, result.stop_reason, result.citations) == (False, "nearest", ())


async def test_a_question_without_words_is_reported(run) -> None:
    result = await run("extractive", FILLER, task="What is it?")
    assert "no words to search for" in result.answer
    assert (result.found, result.stop_reason) == (False, "nearest")


async def test_in_a_large_folder_what_common_words_tell_is_ranked(run, tmp_path: Path) -> None:
    """More than 20 million characters, in which each word of the question has thousands of places."""
    folder = tmp_path / "doc"
    folder.mkdir()
    line = (
        "This package is distributed by us; its licence is long, and under no condition is it the MIT one.\n"
    )
    for number in range(9):
        (folder / f"other{number}.txt").write_text(line * 23_000 + f"The {number}th package ends here.\n")
    (folder / "xcb.txt").write_text(
        "Packaged for Debian.\nThe xcb package is licensed under the MIT license.\n"
    )
    result = await run("extractive", folder, task="Which packages are licensed under the MIT license?")
    assert result.coverage.input_chars > extractive._LARGE
    assert result.found
    assert "The xcb package is licensed under the MIT license. [¹]" in result.answer


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
    assert (result.stop_reason, result.strategy, result.rounds) == ("finalized", "rlm", 5)
    assert result.coverage.scanned_chars == result.coverage.input_chars
    assert not result.coverage.complete


async def test_one_key_among_many_is_found(run) -> None:
    needles = [f"One of the special magic numbers for key-{n} is: {n * 1_000 + 7}." for n in range(200)]
    result = await run(
        "extractive", haystack(needles, 1_000_000), task="What is the special magic number for key-137?"
    )
    assert "137007" in result.answer.splitlines()[1]


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


async def test_numbers_in_brackets_of_the_text_are_no_marks_of_the_answer(run) -> None:
    """Transcripts number their turns: `[74] Anna: …` must not stop the answer."""
    text = "".join(f"[{n}] Anna: the remote control costs {n} euros [{n}, {n + 1}]\n" for n in range(70, 90))
    result = await run("extractive", text, task="What does the remote control cost?")
    assert result.stop_reason == "finalized"
    assert "[70] Anna" in result.text
    assert all(citation.verified for citation in result.citations)
    assert not [warning for warning in result.warnings if "points" in warning]


async def test_marks_of_the_text_stay_text(run) -> None:
    """`[2]` of a document names nothing of ours, and must not point at our second source."""
    text = (
        "Tin melts at 232 degrees [2].\nLead melts at 327 degrees [1].\nTin melts in tin cans [²].\n"
        "Iron is melted slowly in a fire of wood, as smiths know.\n"
    )
    for strategy in ("direct", "rlm"):
        result = await run(
            "extractive", text, task="When does tin melt?", settings=Settings(strategy=strategy)
        )
        assert "232 degrees [2]" in result.text
        assert "[²]." not in result.text
        assert all(citation.verified for citation in result.citations)


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


async def test_the_same_question_gives_the_same_answer(run) -> None:
    """It is deterministic."""
    text = haystack(["The zeppelin landed on Tuesday.", "A zeppelin is an airship."], 200_000)
    first, second = [await run("extractive", text, task="When did the zeppelin land?") for _ in range(2)]
    assert (first.answer, first.citations) == (second.answer, second.citations)


async def test_a_question_with_any_sign_in_it_makes_a_sound_cell(run) -> None:
    text = haystack(['The 😀 "quoted" {brace} code is 55\\n.'], 300_000)
    odd = "'" * 3
    result = await run("extractive", text, task=f'What is the "quoted" {{brace}} 😀 code{odd}\\n ``` of it?')
    assert "55" in result.answer


async def test_a_cell_that_takes_too_long_is_followed_by_a_shorter_search(run, monkeypatch) -> None:
    slow = "# Load: too slow.\nimport time\ntime.sleep(30)\n"
    monkeypatch.setattr("rlm.models.offline.extractive.PHASES", (slow, *extractive.PHASES[1:]))
    result = await run(
        "extractive",
        haystack(["The hidden code of Zanzibar is 7788."], 300_000),
        task="What is the hidden code of Zanzibar?",
        limits=Limits(cell_seconds=1.0),
    )
    assert "7788" in result.answer
    assert all(citation.verified for citation in result.citations)


async def test_of_a_long_line_the_part_around_the_words_is_shown(run) -> None:
    text = "word " * 400_000 + "The code phrase is Zebra-99."
    result = await run("extractive", text, task="What is the code phrase?")
    assert "word word The code phrase is Zebra-99." in result.text
    assert "The code phrase is Zebra-99." in result.text
    assert len(result.text) < 500
    (citation,) = result.citations
    assert citation.verified
    assert "…" not in citation.quote


LOG = "".join(
    f"2026-01-06 10:{n // 60:02}:{n % 60:02} INFO served in {n * 7 % 900} ms with code 200 from host a{n}\n"
    for n in range(600)
)
FAILED = "".join(f"2026-01-06 11:00:{n:02} ERROR disk /dev/sda is full\n" for n in range(50))
CODE_WORD = "2026-01-06 12:00:00 WARN The code word is Zebra-99\n"


@pytest.mark.parametrize("strategy", ["direct", "rlm"])
async def test_a_line_of_a_log_is_an_extract_and_a_repeated_line_is_shown_once(run, strategy) -> None:
    text, asked = LOG + FAILED + CODE_WORD, Settings(strategy=strategy)
    found = await run("extractive", text, task="What is the code word?", settings=asked)
    assert found.citations[0].quote.strip() == CODE_WORD.strip()
    disk = await run("extractive", text, task="Which disk is full?", settings=asked)
    assert disk.text.count("/dev/sda") == 1


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What does heapq.merge do?", ["heapq.merge", "heapq", "merge"]),
        ("What is key-137?", ["key-137", "key", "137"]),
        ('Who said "to be or not"?', ["to be or not"]),
        ("What is it?", []),
        ("Where is ERR_42 raised?", ["ERR_42", "raised"]),
        ("Wie teuer ist das Auto? Antworte in einem Satz.", ["teuer", "Auto"]),
        ("Что такое дирижабль?", ["дирижабль", "такое"]),
    ],
)
def test_the_words_to_be_found(question, words) -> None:
    assert [word.text for word in read_question(question).words][: len(words)] == words
    assert bool(read_question(question).words) == bool(words)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who licenses it?", "It is licensed."),
        ("Which studies failed?", "One study."),
        ("Wo sind die Häuser?", "das Haus"),
        ("Où est le préavis ?", "un preavis"),
    ],
)
def test_a_word_is_found_in_other_forms(question, text) -> None:
    assert re.search(read_question(question).words[0].pattern, text)


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
            "x = 1;",
        ]
    )
    | st.text(max_size=8),
    max_size=60,
).map(" ".join)


@settings(max_examples=60)
@given(st.lists(st.text(max_size=300) | PROSE, max_size=4), st.text(max_size=100) | PROSE)
def test_extracts_are_verbatim_bounded_and_apart(pieces, question) -> None:
    found = extracts(read_question(question), pieces)
    for extract in found:
        assert pieces[extract.piece][extract.start : extract.end] == extract.text
        assert 0 < len(extract.text) <= LONGEST
    places = sorted((extract.piece, extract.start, extract.end) for extract in found)
    assert all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(places))


@given(st.text(max_size=400) | PROSE)
def test_sentences_are_in_order_trimmed_and_lose_no_word(text) -> None:
    found = sentences(text)
    at = 0
    for start, end in found:
        assert at <= start < end <= start + LONGEST_SENTENCE
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
