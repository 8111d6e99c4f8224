"""The questions of a research: plans that people can edit, and tasks split without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.errors import UsageError
from rlm.tasks.reports.questions import Plan, Question, from_markdown, from_task

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


ASPECTS = ("price", "notice", "liability")


@pytest.mark.parametrize(
    ("task", "questions"),
    [
        ("Why did it slip, and what did the crane cost?", ["Why did it slip?", "what did the crane cost?"]),
        ("Why did it slip, and what did it cost?", ["Why did it slip, and what did it cost?"]),
        ("When was the bridge built, and why?", ["When was the bridge built, and why?"]),
        ("Which cards slipped, and how was each resolved?", None),
        ("Find out:\n- Who is it?\n- Where is it?", ["Who is it?", "Where is it?"]),
        (
            "Compare the offers: price, notice and liability.",
            [f"Compare the offers: {one}" for one in ASPECTS],
        ),
        ("Note: the crane of the yard has been out of order since May, find out why", None),
        ("The history of the crane", ["The history of the crane"]),
    ],
)
def test_a_task_is_split_without_a_model(task: str, questions: list[str]) -> None:
    assert [leaf.text for leaf in from_task(task, 8).leaves] == (questions or [task])
