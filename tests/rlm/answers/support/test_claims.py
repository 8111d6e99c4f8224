"""Answers split into claims, with the sources of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.answers.support.claims import MAX_CLAIMS, claims_of


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("It cost $5 [1]. It broke. [2]", [("It cost $5.", (1,)), ("It broke.", (2,))]),
        ("It cost $5[¹][²]. It is [1] long.", [("It cost $5.", (1, 2)), ("It is [1] long.", ())]),
        ("He met Dr. Smith, e.g. at 5 p.m. today [2].", [("He met Dr. Smith, e.g. at 5 p.m. today.", (2,))]),
        (
            "Sheridan County is in the U.S. state of Montana [1].",
            [("Sheridan County is in the U.S. state of Montana.", (1,))],
        ),
        ("Tryon D. Lewis sat in the Texas House [2].", [("Tryon D. Lewis sat in the Texas House.", (2,))]),
        ("On [2024] it was values[0] + arr[1] [2].", [("On [2024] it was values[0] + arr[1].", (2,))]),
        ("# Head\n\nThe points:\n- one thing [1]\n2. two\n", [("one thing", (1,)), ("two", ())]),
        ("| who | what |\n| --- | --- |\n| Ann | a car [2] |", [("Ann | a car", (2,))]),
        ("```\nx[1] = 2\n```\nDone [1].", [("Done.", (1,))]),
        ("他去了北京[1]。他买了车。[2]", [("他去了北京。", (1,)), ("他买了车。", (2,))]),
        ("Bought in May [7].", [("Bought in May [7].", (1, 2))]),
        ("Paris", [("Paris", (1, 2))]),
        (
            'He said "I had to do it. Twice." and left [1].',
            [('He said "I had to do it. Twice." and left.', (1,))],
        ),
        ("She wrote “Go. Now” [2]. It rained [1].", [("She wrote “Go. Now”.", (2,)), ("It rained.", (1,))]),
        ('He said "No." [1]. It broke! [2] [1].', [('He said "No."', (1,)), ("It broke!", (2, 1))]),
        ('"No." [1]. [2] It rained.', [('"No."', (1, 2)), ("It rained.", ())]),
        (
            "Ben is 5'10\" tall [1]. Ann is taller [2].",
            [("Ben is 5'10\" tall.", (1,)), ("Ann is taller.", (2,))],
        ),
        ('He said "in 1910. Or 1911" [1]. So?', [('He said "in 1910. Or 1911".', (1,)), ("So?", ())]),
        ("Well... it broke [1]...", [("Well...", ()), ("it broke ...", (1,))]),
        ("Not in the documents: they name no price.", []),
        ({"price": 5, "who": ["Ann", None, ""]}, [("price: 5", (1, 2)), ("who: Ann", (1, 2))]),
        (None, []),
    ],
)
def test_claims_are_sentences_lines_and_values(answer: object, claims: list[object]) -> None:
    assert [(claim.text, claim.sources) for claim in claims_of(answer, (1, 2))] == claims


def test_a_claim_has_its_place_in_the_answer_with_its_marks() -> None:
    answer = "- It cost $5. [1]\n- It broke."
    assert [answer[one.start : one.end] for one in claims_of(answer, (1,))] == [
        "It cost $5. [1]",
        "It broke.",
    ]


@given(st.text(alphabet="a.1 [](){}|#*-\n`~。“\"', \u0301é日", max_size=300))
def test_claims_of_any_text_are_in_order_and_do_not_overlap(answer: str) -> None:
    at = 0
    for claim in claims_of(answer, (1, 2, 3)):
        assert claim.start is not None
        assert claim.end is not None
        assert at <= claim.start < claim.end <= len(answer)
        at = claim.end


@pytest.mark.timeout(15)
@pytest.mark.parametrize(
    "piece", ["a. ", "[1] ", "- x\n", "1.1.", "[1,", "a.\n[1]\n", "| --- ", "e.g.", "a. . ", ". [1]", "…"]
)
def test_a_hostile_answer_of_any_length_takes_linear_time(piece: str) -> None:
    assert len(claims_of(piece * 50_000, (1,))) <= MAX_CLAIMS
