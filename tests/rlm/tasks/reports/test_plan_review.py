"""What a model's plan asks twice, splits without need or guesses is found without a model."""

from __future__ import annotations

import pytest

from rlm.errors import UsageError
from rlm.tasks.reports.plan_review import (
    asks_for_form,
    find_guesses,
    is_look_up,
    own_plan,
    review_plan,
    strip_guesses,
)
from rlm.tasks.reports.questions import from_markdown


def reviewed(markdown: str, task: str = "Report on the ferries") -> list[str]:
    return [leaf.text for leaf in review_plan(from_markdown(markdown, task)).plan.leaves]


@pytest.mark.parametrize(
    ("plan", "asked"),
    [
        (
            "- Which yard built the ferry Halcyon?\n- In which town does that yard lie?\n- Who paid it?\n",
            [
                "Which yard built the ferry Halcyon? In which town does that yard lie? Who paid it?",
            ],
        ),
        (
            "- In which town was the ferry Halcyon built?\n"
            "  - Which yard built the ferry Halcyon?\n"
            "  - In which town does that yard lie?\n"
            "- How many passengers does the ferry Orlop carry?\n",
            [
                "In which town was the ferry Halcyon built?",
                "How many passengers does the ferry Orlop carry?",
            ],
        ),
        (
            "- Which yard built the ferry Halcyon?\n- What yard built the ferry Halcyon?\n- Who paid?\n",
            ["Which yard built the ferry Halcyon?", "Who paid?"],
        ),
        (
            "- In which town was the ferry Halcyon built?\n"
            "  - Which yard built the ferry Halcyon?\n"
            "  - In which town lies the yard that built the ferry Halcyon?\n",
            ["In which town was the ferry Halcyon built?"],
        ),
        (
            "- What does it cost?\n"
            "  - What does the crane cost?\n"
            "  - What does the insurance of the crane cost?\n",
            ["What does the crane cost?", "What does the insurance of the crane cost?"],
        ),
        (
            "- Who built Halcyon?\n- When was Halcyon built?\n",
            ["Who built Halcyon?", "When was Halcyon built?"],
        ),
        (
            "- How many crew had Halcyon in 1990?\n- How many crew had Halcyon in 1991?\n",
            ["How many crew had Halcyon in 1990?", "How many crew had Halcyon in 1991?"],
        ),
        (
            "- Did the Brann yard sue the Tarn yard?\n- Did the Tarn yard sue the Brann yard?\n",
            ["Did the Brann yard sue the Tarn yard?", "Did the Tarn yard sue the Brann yard?"],
        ),
        (
            "- Who built Halcyon?\n- Who built Orlop?\n- A report on the ferries\n",
            ["Who built Halcyon?", "Who built Orlop?"],
        ),
    ],
)
def test_a_chain_is_one_question_and_nothing_is_asked_twice(plan: str, asked: list[str]) -> None:
    assert reviewed(plan) == asked


def test_references_follow_the_questions_that_they_name() -> None:
    plan = from_markdown(
        "1. Who paid Orlop?\n2. Which yard built the ferry Halcyon?\n3. What yard built the ferry Halcyon?\n"
        "4. Where is the yard found under 3?\n5. How old is the yard found under question 2?\n",
        "T",
    )
    review = review_plan(plan)
    assert [leaf.text for leaf in review.plan.leaves][2:] == [
        "Where is the yard found under 2?",
        "How old is the yard found under question 2?",
    ]
    assert [review.plan.needs(leaf) for leaf in review.plan.leaves] == [(), (), ("2",), ("2",)]
    assert len(review.notes) == 1


def test_a_reference_needs_a_question_before_it() -> None:
    with pytest.raises(UsageError, match="question 1 refers to 2, which comes after it"):
        from_markdown("1. Where is the yard found under 2?\n2. Which yard?\n", "T")
    plan = from_markdown("1. Who?\n2. What was found under 40 metres of ice?\n", "T")
    assert plan.needs(plan.leaves[1]) == ()


HOTEL = "Which hotel did the 1965 convention choose"


@pytest.mark.parametrize(
    "aside",
    [
        ", for instance the Galt House Hotel?",
        " (for instance the Galt House Hotel)?",
        ", e.g. the Galt House?",
        " – possibly Galt House?",
        " such as the Galt House?",
    ],
)
def test_an_aside_with_a_guess_is_stripped(aside: str) -> None:
    assert strip_guesses(HOTEL + aside, [HOTEL]) == f"{HOTEL}?"


@pytest.mark.parametrize(
    ("question", "guesses"),
    [
        ("Did the convention of 1965 meet at the Galt House?", ["Galt", "House"]),
        ("Which hotel did the conventions of 1965 choose?", []),
        ("Which hotel was chosen in 1966?", ["1966"]),
        ("Where is the hotel found under 3?", []),
        ("Which Convention's hotel was it?", []),
        ("Which hotel did Ada choose?", []),
        ("Which was Ada's hotel, and which Bo's?", ["Bo's"]),
    ],
)
def test_names_and_numbers_that_nothing_shown_has_are_guesses(question: str, guesses: list[str]) -> None:
    assert find_guesses(question, [HOTEL, "Ada’s list"]) == guesses


def test_an_aside_with_what_the_task_names_stays() -> None:
    assert strip_guesses("What did it cost (in 1965)?", [HOTEL]) == "What did it cost (in 1965)?"


@pytest.mark.parametrize(
    ("task", "questions"),
    [
        ("Who built Halcyon? In which town does the maker of Orlop lie?", 2),
        ("Answer the following questions:\n1. Who built Halcyon?\n2. Who built Orlop?", 2),
        ("Who built Halcyon? And when did he die?", 1),
        ("Who built Halcyon?", 1),
        ("Why did Halcyon sink?", None),
        ("How did the yards of the coast change?", None),
        ("The yard closed in 1990. Who bought it? Who lost?", None),
        ("Compare the offers: price, notice", None),
        ("Who built Halcyon? Who built Orlop? Write one line each.", None),
    ],
)
def test_a_task_that_is_a_list_of_questions_is_its_own_plan(task: str, questions: int | None) -> None:
    plan = own_plan(task, 8)
    assert (plan and len(plan.leaves)) == questions


def test_more_questions_than_allowed_are_planned_by_a_model() -> None:
    assert own_plan("Who paid? Who built Halcyon? Who built Orlop?", 2) is None


@pytest.mark.parametrize(
    ("question", "is_one"),
    [
        ("In which town does the yard lie that built the ferry Halcyon?", True),
        ("When was the town of Quill founded?", True),
        ("How old is the yard?", True),
        ("Which ferries were built in all?", False),
        ("How many ferries are there?", False),
        ("Who was the last master?", False),
        ("Why did it sink?", False),
        ("What are the risks?", False),
        ("What is the current price?", False),
        ("Which cards have priority 0?", False),
        ("Which of the cards were closed by PR #76?", False),
        ("Which yard has the crane?", True),
    ],
)
def test_only_a_question_for_one_fact_is_a_look_up(question: str, is_one: bool) -> None:
    assert is_look_up(question) == is_one


@pytest.mark.parametrize(
    ("task", "is_fixed"),
    [
        ("Which statements are true? Answer with the letter only.", True),
        ("How many cards are open? Give only the number.", True),
        ("Reply with the name of the yard and nothing else.", True),
        ("Is it so? Yes or no.", True),
        ("What does the letter say, and who wrote it?", False),
        ("Who paid? Only the ferries of 1631 matter.", False),
    ],
)
def test_a_task_may_fix_the_form_of_its_answer(task: str, is_fixed: bool) -> None:
    assert asks_for_form(task) == is_fixed
