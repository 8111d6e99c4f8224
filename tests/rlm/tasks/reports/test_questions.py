"""The questions of a research: plans that people can edit, and tasks split without a model."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.errors import UsageError
from rlm.tasks.reports.plan import Plan, Question, from_markdown, from_task, is_the_task

PLAN = """\
# Compare the offers

Some words in between.

1. What does it cost?
   - What does the crane cost?
   - Who pays the delivery?
2. What is the notice?
"""


def test_a_plan_is_a_nested_list() -> None:
    plan = from_markdown(PLAN)
    assert plan.task == "Compare the offers"
    assert [(leaf.number, leaf.text) for leaf in plan.leaves] == [
        ("1.1", "What does the crane cost?"),
        ("1.2", "Who pays the delivery?"),
        ("2", "What is the notice?"),
    ]
    assert from_markdown(plan.markdown()) == plan
    assert from_markdown(PLAN, "Another task").task == "Another task"


_TEXT = st.from_regex(r"[A-Z][a-z]{1,8}( [a-z0-9]{1,8}){0,4}\?", fullmatch=True)


@given(tree=st.lists(st.tuples(_TEXT, st.lists(_TEXT, max_size=3)), min_size=1, max_size=6))
def test_every_plan_is_read_as_it_was_written(tree: list[tuple[str, list[str]]]) -> None:
    plan = Plan(
        "Task",
        tuple(
            Question(f"{n}", text, tuple(Question(f"{n}.{m}", part) for m, part in enumerate(parts, 1)))
            for n, (text, parts) in enumerate(tree, 1)
        ),
    )
    assert from_markdown(plan.markdown()) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# A task\nno list\n", "has no questions"),
        ("- What?\n", "has no task"),
        ("# T\n" + "- What is it?\n" * 51, "51 questions"),
        ("# T\n- a\n  - b\n    - c\n      - d\n        - e\n", "deeper than 4"),
    ],
)
def test_an_invalid_plan_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_markdown(text)


def test_the_tag_of_a_question_says_what_it_needs_and_whether_it_asks_for_a_fact() -> None:
    """In any language. Other brackets belong to the question."""
    plan = from_markdown(
        "# T\n1. Wer baute das Schiff? [fact]\n2. Wo liegt diese Werft? [Fact, needs 1]\n"
        "3. Was kostet `a[1]` [2]?\n4. Warum? [needs 1, 2.]\n"
    )
    assert [(leaf.text, leaf.needs, leaf.is_fact) for leaf in plan.leaves] == [
        ("Wer baute das Schiff?", (), True),
        ("Wo liegt diese Werft?", ("1",), True),
        ("Was kostet `a[1]` [2]?", (), False),
        ("Warum?", ("1", "2"), False),
    ]
    assert from_markdown(plan.markdown()) == plan
    assert Plan.from_json(asdict(plan)) == plan
    nested = from_markdown("# T\n1. Ships\n   - Which?\n   - When?\n2. Why? [needs 1]\n")
    assert nested.needs(nested.leaves[-1]) == ("1.1", "1.2")


@pytest.mark.parametrize(
    ("listed", "message"),
    [("- A? [needs 2]\n- B?\n", "needs 2, which comes after it"), ("- A? [needs 7]\n", "not in the plan")],
)
def test_a_question_cannot_need_what_is_not_asked_before(listed: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_markdown(f"# T\n{listed}")


@pytest.mark.parametrize(
    ("task", "questions", "whole"),
    [
        ("Why did it slip? What did it cost?", ["Why did it slip?", "What did it cost?"], True),
        ("Find out:\n- Who is it?\n- Where is it?", ["Who is it?", "Where is it?"], False),
        ("- Who is it?\n- Where is it?", ["Who is it?", "Where is it?"], True),
        ("Who is it? Answer with a name only.", ["Who is it?"], False),
        ("The history of the crane", ["The history of the crane"], True),
    ],
)
def test_a_task_is_split_without_a_model(task: str, questions: list[str], whole: bool) -> None:
    plan = from_task(task, 8)
    assert [leaf.text for leaf in plan.leaves] == questions
    assert is_the_task(plan) == whole
